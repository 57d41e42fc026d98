"""Engine for tables larger than memory: rows are read in batches, again for each count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from weft.encoding import Codec
from weft.engines.memory_engine import MemoryEngine
from weft.engines.privacy_units import SPILL, Owners, sizes_of
from weft.engines.recoding import Deal, RecodedEngine, iterate_divided_rows, names_of
from weft.engines.spill import Growing
from weft.errors import DataError
from weft.io.reader import Reader
from weft.marginals.counting import Counter, Counts
from weft.marginals.domain import Clique
from weft.marginals.records import Records
from weft.progress import Listener, ignore_event


@dataclass(frozen=True)
class StreamEngine(RecodedEngine):
    """Counts the rows of a reader: each `count` is one pass that reads and encodes rows and adds them to marginals."""

    reader: Reader
    codec: Codec
    keep: NDArray[np.bool_] | None = None
    """Rows that the contribution bound keeps, by position; None: all."""
    listener: Listener = ignore_event
    threads: int | None = None
    owners: Owners | None = None
    """The privacy unit of each row, by position; None: every row is a unit of its own."""
    spill: int = SPILL
    """Bytes of an array with an entry per row above which it is stored in a file."""

    def count(self, cliques: Sequence[Clique]) -> list[Counts]:
        """Return the exact marginal of each clique, in one pass over the rows and the required columns."""
        asked = {name for clique in cliques for name in clique}
        domain = self.domain.project([name for name in self.domain if name in asked] or self.domain.names[:1])
        counter = Counter(domain, tuple(cliques), self.threads)
        flat = counter.zeros()
        for records in self._read(domain.names, "count"):
            counter.add(records, flat)
        return counter.tables(flat)

    def _read(self, names: Sequence[str], told: str) -> Iterator[Records]:
        """Yield the rows that are kept, over some attributes."""
        codec, at = self.codec.narrowed(self.recoding.sources(names)), 0
        for batch, records in self.reader.read(codec.reads, codec.encode, self.listener, told):
            if self.keep is not None:
                records = records.take(self.keep[at : at + batch.num_rows])
                at += batch.num_rows
            yield self.recoding.apply(records, names)

    def groups(self, names: Sequence[str]) -> tuple[Counts, Counts]:
        """Return the distinct rows over some attributes and their counts; holds the codes in memory."""
        wanted = [name for name in self.domain if name in names] or list(self.domain.names[:1])
        empty = Records.empty(self.codec.narrowed(self.recoding.sources(wanted)).domain)
        held = Records.concatenate([self.recoding.apply(empty, wanted), *self._read(wanted, "read")])
        return MemoryEngine(held, self.listener, self.threads).groups(names)

    def unit_sizes(self, most: int) -> Counts:
        """Return the number of privacy units with 1, 2, ..., `most` rows, without a pass over the rows."""
        if self.owners is None or self.keep is None:
            raise ValueError("unit sizes are not available if every row is a privacy unit")
        return sizes_of(self.owners, most, self.keep)

    def split(self, shares: Sequence[float], deal: Deal) -> list[StreamEngine]:
        """Return a view of each part, divided by one coin per privacy unit.

        The state per row (about 30 bytes, and one for each part) is stored in files if it is large. The part of a row
        is identified by its position, so the source must return its rows in a fixed order.
        """
        self.check_order()
        names = Growing(np.uint64, self.spill)
        codec = self.codec.narrowed(self.codec.domain.names)  # rows were already validated in the first pass
        for _, records in self.reader.read(codec.reads, codec.encode, self.listener, "divide"):
            names.add(names_of(records))
        masks = iterate_divided_rows(names.whole(), self.keep, self.owners, shares, deal, self.spill)
        return [replace(self, keep=mask) for mask in masks]

    def check_order(self) -> None:
        """Refuse a source whose rows have no fixed position."""
        if not self.reader.ordered:
            raise DataError(
                f"{self.reader.name} returns its rows in no fixed order, so they cannot be divided into parts while "
                "streaming: use the memory engine, or do not divide the rows"
            )
