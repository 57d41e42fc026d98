"""Bins of durations and times of day, in nanoseconds."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from weft.marginals.domain import FineGrid
from weft.schema.kinds.kind import ColumnError, Label
from weft.schema.kinds.numeric_bins import BinnedColumn, Bins, fine_grid
from weft.values.bins import EACH_CODE, BinGrid, equal_width, span_cuts, span_levels
from weft.values.storage import Carrier
from weft.values.timestamps import parse_step

TIME_REMEDY = 'a value lies outside the schema. Widen range, refine step, add it to special, or set outside = "clip"'


@dataclass(frozen=True)
class Spans:
    """A range of durations in steps, with its bins."""

    low: int
    high: int
    step: int
    bins: int | str | None = None
    edges: Sequence[int] | None = None
    special: Sequence[int] = ()

    def cuts(self) -> list[int]:
        """Compute the left ends of the bins, then one past the highest value, in nanoseconds."""
        last = self.low + (self.high - self.low) // self.step * self.step
        if self.edges is not None:
            return [*self.edges[:-1], self.high + 1]
        if self.bins is not None or (last - self.low) // self.step < EACH_CODE:
            return [*equal_width(self.low, last, self.step, self.bins)[:-1], last + 1]
        first, top = -(-self.low // self.step), last // self.step
        inner = [cut * self.step for cut in span_cuts(self.step)(first, top)[:-1]]
        return [self.low, *(cut for cut in inner if cut > self.low), last + 1]

    def grid(self, unit: int) -> BinGrid:
        """Compute the bins in units of `unit` nanoseconds; raise ValueError if they contain no value."""
        cuts = [-(-cut // unit) for cut in self.cuts()[:-1]] + [self.high // unit + 1]
        if cuts != sorted(cuts) or cuts[0] >= cuts[-1]:
            raise ValueError("range contains no value of its type; widen it")
        return BinGrid(cuts, cuts[0], self.step // unit, [value // unit for value in self.special], strict=True)

    def labels(self, write: Callable[[int], str]) -> list[Label]:
        """Return the labels of the bins: their first and last value."""
        cuts = self.cuts()
        ends = [(a, a + (b - 1 - a) // self.step * self.step) for a, b in pairwise(cuts)]
        return [Label(write(first), write(last), "bin") for first, last in ends]


@dataclass(frozen=True)
class Spanned(BinnedColumn):
    """A column of durations or times of day in steps, in nanoseconds."""

    step: str = field(default="1s", kw_only=True)
    """Time between possible values, such as "1min", "15min" or "1s"."""

    @classmethod
    @abstractmethod
    def write(cls, held: int) -> str:
        """Format nanoseconds as in a schema file."""

    def units(self, arrow_type: pa.DataType, unit: int) -> BinGrid:
        """Compute the bins in a type's unit, given in nanoseconds."""
        if parse_step(self.step) % unit:
            raise ColumnError(self.name, f"step is finer than its type {arrow_type}; set a coarser step", "step")
        try:
            return make_spans(self, parse_step(self.step)).grid(unit)
        except ValueError as error:
            raise ColumnError(self.name, f"{error}", "range") from None

    def labels(self, arrow_type: pa.DataType, size: int) -> list[Label]:
        """Return the labels of the bins: their first and last value."""
        return make_spans(self, parse_step(self.step)).labels(self.write) + self.special_labels(str)

    def _grid(self, bins: Bins, size: int) -> FineGrid:
        return span_grid(bins, size, parse_step(self.step))


def keeps_values(carrier: Carrier, sample: Sequence[int]) -> bool:
    """Return whether a carrier reads these values back from the text that it writes."""
    held = np.array(sample, dtype=np.int64)
    back = carrier.read(carrier.write(held.view(np.uint64), np.zeros(len(held), bool)))
    return back.unreadable is not None and not back.unreadable.any() and np.array_equal(back.values, held)


def make_spans(column: BinnedColumn, step: int) -> Spans:
    """Return the range of a column of durations or times, and its bins."""
    low, high = (column.place(end) for end in column.ends)
    edges = None if column.edges is None else [column.place(edge) for edge in column.edges]
    return Spans(low, high, step, column.bins, edges, [column.place(value) for value in column.special])


def span_grid(bins: Bins, size: int, step: int) -> FineGrid:
    """Compute the grid of the first one-way marginal of durations with this step."""
    return fine_grid(bins, size, span_cuts(step), span_levels(step))
