"""Interface of readers, which read a table in batches, in one or more passes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from weft.progress import Listener, report_stage

if TYPE_CHECKING:
    from weft.io.spark_source import SparkTable

Made = TypeVar("Made")

Batches = Iterator[tuple[pa.RecordBatch, float | None]]
"""Record batches, each with the fraction of the table read so far (None: unknown)."""

_WORKERS = 2  # batches processed at a time; each takes memory


@dataclass(frozen=True)
class Reader:
    """A source of rows: its Arrow schema, and a function that starts a new pass over it."""

    name: str
    """Name in messages: a path, or the type of an object."""
    schema: pa.Schema
    start: Callable[[Sequence[str]], Batches]
    """Begin a pass over these columns; batches may have others too. Only a `repeatable` reader allows a second pass."""
    rows: int | None = None
    """Number of rows, if known without reading them. Private: for sizing and progress only."""
    most_rows: int | None = None
    """Upper bound on the number of rows, if `rows` is unknown. Private too."""
    size: int | None = None
    """Estimated bytes of the coded rows, if `rows` is unknown."""
    repeatable: bool = True
    """Whether a second pass returns the same rows."""
    ordered: bool = True
    """Whether a second pass returns the rows in the same order."""
    sound: bool = False
    """Whether no row can make a pass fail, as a malformed CSV line can, or a value that a query cannot cast."""
    spark: SparkTable | None = None
    """The table in Spark, if Spark holds it: its rows can be counted there."""

    def read(
        self, columns: Sequence[str], work: Callable[[pa.RecordBatch], Made], listener: Listener, name: str
    ) -> Iterator[tuple[pa.RecordBatch, Made]]:
        """Make a pass: yield each batch in order, with the result of `work` for it.

        Other threads process the next batches while the caller handles this one. The listener's events do not depend
        on the number of batches: tenths of the whole if its size is known, else none.
        """
        known = self.rows is not None or self.size is not None
        coming: deque[tuple[pa.RecordBatch, Future[Made], float | None]] = deque()
        with report_stage(listener, name, 100 if known else None) as told, ThreadPoolExecutor(_WORKERS) as pool:

            def next_due() -> tuple[pa.RecordBatch, Made]:
                batch, made, share = coming.popleft()
                if known and share is not None:
                    told.reach(share)
                return batch, made.result()

            for batch, share in self.start(columns):
                coming.append((batch, pool.submit(work, batch), share))
                if len(coming) > _WORKERS:
                    yield next_due()
            while coming:
                yield next_due()
            if known:
                told.reach(1.0)
