"""Engine for tables whose codes fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.encoding import Codec
from weft.engines.privacy_units import Owners, Units, sizes_of
from weft.engines.recoding import Deal, Joined, Maps, Recoding, divide_rows, group_distinct_rows, names_of
from weft.errors import DataError
from weft.io.reader import Reader
from weft.marginals.counting import Counter, Counts
from weft.marginals.domain import Clique, Domain
from weft.marginals.records import Codes, Records, code_dtype
from weft.progress import Listener, ignore_event, report_stage


@dataclass(frozen=True)
class MemoryEngine:
    """Counts records that are held in memory, at one to four bytes per value."""

    records: Records
    listener: Listener = ignore_event
    threads: int | None = None
    owners: Owners | None = None
    """The privacy unit of each row, by number; None: every row is a unit of its own."""
    weights: Counts | None = None
    """Integer weight of each row, which its counts add up; None: 1."""
    mass: int | None = None
    """Public maximum of the total weight of a unit's rows; None: the contribution bound of the privacy unit."""

    def __post_init__(self) -> None:
        if self.weights is None:
            return
        if self.mass is None or self.mass < 1:
            raise ValueError("weighted rows need a maximum total weight per privacy unit")
        if self.weights.shape != (len(self.records),) or self.weights.dtype != np.int64 or (self.weights < 0).any():
            raise ValueError("rows need one weight each, a 64-bit integer of at least 0")

    @property
    def domain(self) -> Domain:
        """The attributes that can be counted."""
        return self.records.domain

    def count(self, cliques: Sequence[Clique]) -> list[Counts]:
        """Return the exact marginal of each clique, in one pass over the rows."""
        counter = Counter(self.domain, tuple(cliques), self.threads)
        flat = counter.zeros()
        with report_stage(self.listener, "count", len(cliques)) as work:
            counter.add(self.records, flat, work.advance, self.weights)
        return counter.tables(flat)

    def groups(self, names: Sequence[str]) -> tuple[Counts, Counts]:
        """Return the distinct rows over some attributes and the count of each."""
        self._refuse_weights("grouped")
        return group_distinct_rows(
            Records(self.domain.project(names), tuple(self.records.column(name) for name in names))
        )

    def unit_sizes(self, most: int) -> Counts:
        """Return the number of privacy units with 1, 2, ..., `most` rows."""
        self._refuse_weights("counted by unit")
        return sizes_of(np.arange(len(self.records)) if self.owners is None else self.owners, most)

    def _refuse_weights(self, what: str) -> None:
        if self.mass is not None:
            raise ValueError(f"weighted rows cannot be {what}")

    def check_order(self) -> None:
        """Accept: rows in memory keep their order."""

    def split(self, shares: Sequence[float], deal: Deal) -> list[MemoryEngine]:
        """Return the rows of each part, divided by one coin per privacy unit."""
        self._refuse_weights("divided")
        part = divide_rows(names_of(self.records), self.owners, shares, deal)
        return [
            replace(
                self,
                records=self.records.take(part == i),
                owners=None if self.owners is None else self.owners[part == i],
            )
            for i in range(len(shares))
        ]

    def recode(self, maps: Maps) -> MemoryEngine:
        """Return a view with recoded attributes."""
        return replace(self, records=Recoding(self.domain).then(maps).apply(self.records))

    def arrange(self, joined: Joined, kept: Sequence[str]) -> MemoryEngine:
        """Return a view of some attributes, and of new ones that join others."""
        return replace(self, records=Recoding(self.domain).arranged(joined, kept).apply(self.records))


class TooLargeError(DataError):
    """The codes of a table do not fit the memory plan."""


def load_records(
    reader: Reader, codec: Codec, units: Units, rng: np.random.Generator, listener: Listener, limit: int | None
) -> tuple[Records, Owners | None]:
    """Read and encode a whole table in batches: only the codes and a few batches are in memory at a time.

    Also return the unit of each record, if a unit may have several. TooLargeError if the codes exceed `limit` bytes.
    """
    pieces: list[list[Codes]] = [[] for _ in codec.domain]
    held = 0
    for batch, records in reader.read(units.beside(codec.reads), codec.encode, listener, "read"):
        units.see(batch)
        for column, codes in zip(pieces, records.columns, strict=True):
            column.append(codes)
            held += codes.nbytes
        if limit is not None and held > limit:
            raise TooLargeError(
                f"{reader.name} does not fit the memory limit, and this source must be held in memory. Allow more "
                "(--memory), or write it to a Parquet file, which is read in batches"
            )
    keep, owners = units.keep(rng)
    columns = []
    for column, size in zip(pieces, codec.domain.shape, strict=True):
        codes = np.concatenate(column) if column else np.empty(0, code_dtype(size))
        column.clear()  # so that the codes are never held twice
        columns.append(codes if keep is None else codes[keep])
    return Records(codec.domain, tuple(columns)), owners if owners is None or keep is None else owners[keep]
