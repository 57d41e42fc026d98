"""Bins over lengths of time and times of day, shared by the kinds that count them: all in nanoseconds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from weft.marginals.domain import FineGrid
from weft.schema.kinds.kind import ColumnError, Label
from weft.schema.kinds.numeric_bins import BinnedColumn, Bins, fine_grid
from weft.values.bins import EACH_CODE, BinGrid, equal_width, span_cuts, span_levels
from weft.values.timestamps import parse_step


@dataclass(frozen=True)
class Spans:
    """Lengths of time in steps, with their bins."""

    low: int
    high: int
    step: int
    bins: int | str | None = None
    edges: Sequence[int] | None = None
    special: Sequence[int] = ()

    def cuts(self) -> list[int]:
        """Return the left ends of the bins, and one past the highest value, in nanoseconds."""
        last = self.low + (self.high - self.low) // self.step * self.step
        if self.edges is not None:
            return [*self.edges[:-1], self.high + 1]
        if self.bins is not None or (last - self.low) // self.step < EACH_CODE:
            return [*equal_width(self.low, last, self.step, self.bins)[:-1], last + 1]
        first, top = -(-self.low // self.step), last // self.step
        inner = [cut * self.step for cut in span_cuts(self.step)(first, top)[:-1]]
        return [self.low, *(cut for cut in inner if cut > self.low), last + 1]

    def grid(self, unit: int) -> BinGrid:
        """Return the bins in units of so many nanoseconds; ValueError where they hold nothing."""
        cuts = [-(-cut // unit) for cut in self.cuts()[:-1]] + [self.high // unit + 1]
        if cuts != sorted(cuts) or cuts[0] >= cuts[-1]:
            raise ValueError("range holds no value of its type; widen it")
        return BinGrid(cuts, cuts[0], self.step // unit, [value // unit for value in self.special], strict=True)

    def labels(self, write: Callable[[int], str]) -> list[Label]:
        """Name the bins by their first and last value."""
        cuts = self.cuts()
        ends = [(a, a + (b - 1 - a) // self.step * self.step) for a, b in pairwise(cuts)]
        return [Label(write(first), write(last), "bin") for first, last in ends]


@dataclass(frozen=True)
class Spanned(BinnedColumn):
    """A column of times in steps: a range of them and its bins, held in nanoseconds."""

    step: str = field(default="1s", kw_only=True)
    """Time between possible values, such as "1min", "15min" or "1s"."""

    @classmethod
    @abstractmethod
    def write(cls, held: int) -> str:
        """Write a time as the schema does."""

    def units(self, arrow_type: pa.DataType, unit: int) -> BinGrid:
        """Return the bins in a type's units of so many nanoseconds."""
        if parse_step(self.step) % unit:
            raise ColumnError(self.name, f"step is finer than its type {arrow_type}; take a coarser one", "step")
        try:
            return self._spans().grid(unit)
        except ValueError as error:
            raise ColumnError(self.name, f"{error}", "range") from None

    def labels(self, arrow_type: pa.DataType, size: int) -> list[Label]:
        """Name the bins by their first and last time."""
        return self._spans().labels(self.write) + self.special_labels(str)

    def _spans(self) -> Spans:
        low, high = (self.place(end) for end in self.ends)
        edges = None if self.edges is None else [self.place(edge) for edge in self.edges]
        return Spans(low, high, parse_step(self.step), self.bins, edges, [self.place(value) for value in self.special])

    def _grid(self, bins: Bins, size: int) -> FineGrid:
        return span_grid(bins, size, parse_step(self.step))


def span_grid(bins: Bins, size: int, step: int) -> FineGrid:
    """Return the cells in which codes of lengths in such steps are counted alone."""
    return fine_grid(bins, size, span_cuts(step), span_levels(step))
