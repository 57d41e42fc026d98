"""Bins over lengths of time and times of day, shared by the kinds that count them: all in nanoseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from weft.marginals.domain import FineGrid
from weft.schema.kinds.binned import Bins, fine_grid
from weft.schema.kinds.labels import Label
from weft.values.grid import Grid, equal_width
from weft.values.limits import EACH_CODE
from weft.values.spans import span_cuts, span_levels


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

    def grid(self, unit: int) -> Grid:
        """Return the bins in units of so many nanoseconds; ValueError where they hold nothing."""
        cuts = [-(-cut // unit) for cut in self.cuts()[:-1]] + [self.high // unit + 1]
        if cuts != sorted(cuts) or cuts[0] >= cuts[-1]:
            raise ValueError("range holds no value of its type; widen it")
        return Grid(cuts, cuts[0], self.step // unit, [value // unit for value in self.special], strict=True)

    def labels(self, write: Callable[[int], str]) -> list[Label]:
        """Name the bins by their first and last value."""
        cuts = self.cuts()
        ends = [(a, a + (b - 1 - a) // self.step * self.step) for a, b in pairwise(cuts)]
        return [Label(write(first), write(last), "bin") for first, last in ends]


def span_grid(bins: Bins, size: int, step: int) -> FineGrid:
    """Return the cells in which codes of lengths in such steps are counted alone."""
    return fine_grid(bins, size, span_cuts(step), span_levels(step))
