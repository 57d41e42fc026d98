"""What each code of a column is called: category names, bin ranges, dates, special values, missing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from weft.codec import Codec
from weft.report.figures import Sort
from weft.schema import Boolean, Category, Datetime, Integer, Real
from weft.schema.columns import Binned
from weft.values.floats import equal_edges
from weft.values.grid import equal_width
from weft.values.instants import DAY, Moment, parse_step, write_moment
from weft.values.limits import DEFAULT_BINS


@dataclass(frozen=True)
class Label:
    """The name of a code, as the lowest and highest value that it stands for."""

    low: str
    high: str
    sort: Sort

    def __str__(self) -> str:
        return self.low if self.low == self.high else f"{self.low} to {self.high}"

    def joined(self, last: Label) -> Label:
        """Return the label of everything from this bin to a later one."""
        return Label(self.low, last.high, self.sort)


def labels(codec: Codec, name: str) -> tuple[Label, ...]:
    """Name every code of a column, in the order of the codes.

    The bins are those of the schema. A bin that holds no value (all of them special, or none on the grid of steps)
    has no code.
    """
    column, size = codec.schema.column(name), codec.domain.size(name)
    made: list[Label]
    match column:
        case Category():
            made = [_one(str(value), "value") for value in column.values]
        case Boolean():
            made = [_one("false", "value"), _one("true", "value")]
        case Integer():
            made = _integers(column) + _special(column, _whole)
        case Real():
            made = _reals(column, size) + _special(column, _number)
        case Datetime():
            made = _moments(column, str(codec.arrow_schema.field(name).type)) + _special(column, _clock)
        case _:
            made = []
    if column.missing:
        made.append(_one("missing", "missing"))
    if len(made) > size:  # Arrow's null type has no code but that of missing
        made = made[len(made) - size :]
    # What a type cannot tell apart the codec merges; a number is then better than a wrong name.
    return tuple(made) if len(made) == size else tuple(_one(f"code {code}", "value") for code in range(size))


def _one(text: str, sort: Sort) -> Label:
    return Label(text, text, sort)


def _special(column: Binned, write: Callable[[Any], str]) -> list[Label]:
    return [_one(f"= {write(value)}", "special") for value in column.special]


def _integers(column: Integer) -> list[Label]:
    low, high = column.ends
    step = column.step
    edges = column.edges
    cuts = equal_width(low, high, step, column.bins) if edges is None else [*edges[:-1], high + 1]
    return [_one(_whole(a), "bin") if a == b else Label(_whole(a), _whole(b), "bin") for a, b in _runs(column, cuts)]


def _runs(column: Integer, cuts: Sequence[int]) -> list[tuple[int, int]]:
    """First and last possible value of each bin that has one beside the special ones."""
    low, step, runs = column.ends[0], column.step, []
    on_grid = [s for s in column.special if (s - low) % step == 0]
    for start, end in pairwise(cuts):
        first = low - (low - start) // step * step
        last = low + (end - 1 - low) // step * step
        if (last - first) // step + 1 > sum(first <= s <= last for s in on_grid):
            runs.append((first, last))
    return runs


def _reals(column: Real, size: int) -> list[Label]:
    low, high = column.ends
    edges = column.edges or equal_edges(low, high, int(column.bins or DEFAULT_BINS))
    bins = [Label(_number(a), _number(b), "bin") for a, b in pairwise(edges)]
    wanted = size - len(column.special) - column.missing
    if len(bins) > wanted and column.decimals is not None:
        unit = 10.0**-column.decimals
        taken = [bisect_right(edges, s) - 1 for s in column.special]
        held = [round((b - a) / unit) - taken.count(i) for i, (a, b) in enumerate(pairwise(edges))]
        bins = [label for label, values in zip(bins, held, strict=True) if values > 0]
    return bins


def _moments(column: Datetime, arrow_type: str) -> list[Label]:
    """Bins of time on the column's own wall clock; a shift of the clock may move an edge by its hour."""
    texts = [column.ends[0], column.ends[1]] if column.edges is None else list(column.edges)
    moments = [Moment.parse(text) for text in texts]
    end = moments[-1].nanoseconds + (DAY if moments[-1].whole_day else 1)
    day = arrow_type.startswith("date") or (column.plain_date and not arrow_type.startswith("timestamp"))
    step = parse_step(column.step) if column.step else DAY if day else parse_step("1s")
    if column.edges is None:
        low = moments[0].nanoseconds
        cuts = equal_width(low, low + (end - 1 - low) // step * step, step, column.bins)
        cuts[-1] = end
    else:
        cuts = [*(moment.nanoseconds for moment in moments[:-1]), end]
    whole = day or all(cut % DAY == 0 for cut in cuts)
    back = DAY if whole else step
    ends = [(a, a + (b - 1 - a) // back * back) for a, b in pairwise(cuts)]
    return [Label(_clock_at(first, whole), _clock_at(last, whole), "bin") for first, last in ends]


def _clock_at(nanoseconds: int, whole_day: bool) -> str:
    text = write_moment(nanoseconds, whole_day, zoned=False)
    return text if whole_day else text.removesuffix(":00")


def _clock(text: str) -> str:
    return text


def _whole(value: int) -> str:
    return f"{value:,}" if abs(value) >= 10_000 else str(value)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and 10_000 <= abs(value) < 1e15 else f"{value:.6g}"
