"""A table as something that can be read from the start, batch by batch, as often as needed."""

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
"""Record batches, each with the share of the table that has been read with it (None: unknown)."""

_WORKERS = 2  # batches in work at a time; each costs memory


@dataclass(frozen=True)
class Reader:
    """A source of rows: its Arrow schema, and a function that starts a new pass over it."""

    name: str
    """What messages call it: a path, or the kind of object."""

    schema: pa.Schema
    """The Arrow types of its columns."""

    start: Callable[[Sequence[str]], Batches]
    """Begin a pass over these columns; others may come too. Only a `repeatable` reader can begin a second one."""

    rows: int | None = None
    """Number of rows where that is known without reading them. Private: for sizing and progress only."""

    most_rows: int | None = None
    """More rows it cannot have, where only that is known. Private too."""

    size: int | None = None
    """About the bytes that its coded rows would take, where `rows` is unknown."""

    repeatable: bool = True
    """Whether a second pass gives the same rows."""

    ordered: bool = True
    """Whether a second pass gives the rows in the same order."""

    sound: bool = False
    """Whether no row can make a pass fail, as a malformed line of a CSV can, or a value that a query cannot cast."""

    spark: SparkTable | None = None
    """The rows where Spark holds them, if it does: there they can be counted."""

    def read(
        self, columns: Sequence[str], work: Callable[[pa.RecordBatch], Made], listener: Listener, name: str
    ) -> Iterator[tuple[pa.RecordBatch, Made]]:
        """Make a pass: give each batch in order with what `work` made of it.

        The work on the next batches goes on in other threads while the caller is busy with this one. The listener gets
        the same events whatever the number of batches: tenths of the whole where its size is known, else none.
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
