"""Probes: encodings of unknown columns by the shape of each value, or on a public grid, and ranges found on it.

Privacy: a probe is an ordinary attribute. Its codes are a public list, fixed in advance or computed from released
answers, and each row has exactly one code. A measurement of it is therefore a one-way marginal, with its sensitivity.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.marginals.marginal import Array
from weft.schema import Schema
from weft.schema.kinds import Column, Unknown, column_from_dict
from weft.schema.kinds.kind import Coder, Label, make_single_label
from weft.values.text_numbers import is_text
from weft.values.text_shapes import SHAPES, shapes_of
from weft.values.timestamps import UNIT, name_span, name_step, parse_span, parse_step


def get_declared_kind(arrow_type: pa.DataType) -> dict[str, Any]:
    """Return the kind that a declared type determines, if any."""
    if pa.types.is_boolean(arrow_type):
        return {"kind": "boolean"}
    if pa.types.is_integer(arrow_type):
        return {"kind": "integer"}
    if pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type):
        return {"kind": "real"}
    if pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type):
        return {"kind": "datetime"}
    if pa.types.is_time(arrow_type):
        return {"kind": "time", "step": "1s"}
    if pa.types.is_duration(arrow_type):
        return {"kind": "duration"}
    return {}


def find_finest_unit(arrow_type: pa.DataType) -> int:
    """Return the unit of durations in nanoseconds; the unit of text is one second."""
    return UNIT[arrow_type.unit if pa.types.is_duration(arrow_type) else "s"]


def require_steps(entries: Mapping[str, Mapping[str, Any]], types: Callable[[Schema], pa.Schema]) -> None:
    """Refuse a stated step of durations that is finer than the unit of the type in which they are read."""
    spans = {n: entry for n, entry in entries.items() if entry.get("kind") == "duration" and "step" in entry}
    told = {n: {key: entry[key] for key in ("kind", "step", "type") if key in entry} for n, entry in spans.items()}
    columns = tuple(column_from_dict(n, {**entry, "range": ["0d", "1d"]}) for n, entry in told.items())
    if columns:
        read = types(Schema(columns, extra_columns="ignore"))
        for column in columns:
            column.coder(get_plain_type(read.field(column.name).type), nan=False)


def get_plain_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type of the values, without dictionary encoding."""
    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


def holds_text(arrow_type: pa.DataType) -> bool:
    """Return whether a type stores text, or only nulls, where text may follow."""
    return is_text(get_plain_type(arrow_type)) or pa.types.is_null(get_plain_type(arrow_type))


MARKED = (-9999, -999, -99, -9, -8, -7, 88, 99, 777, 888, 999, 9999, 99999, 999999)
"""Whole numbers that commonly represent missing answers."""

MARKED_DAYS = ("1900-01-01", "1970-01-01", "9999-12-31")  # dates that commonly represent missing answers
LAST_NANOSECOND = "2262"  # year in which nanoseconds since 1970 exceed 64 bits
YEARS = range(1900, 2101)

_MANTISSAS = (1, 2, 5)  # the cells within each power of ten: few, since the noise of a tail grows with their number
_EACH = 20
_YEAR_STEP = 5
_OLD_YEARS = (1700, 1750, 1800, 1850, 1875)
_NATURAL_ENDS = (24, 32, 60, 367)  # hours, days of a month, minutes, days of a year: a range should end there exactly

_PARTS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_CLOCK = (1, 2, 5, 10, 15, 20, 30, 45)
_ROUND_COUNTS = (1, 2, 3, 5, 7, 10, 14, 21, 30, 45, 60, 90, 120, 180, 270, 365, 500, 730, 1000)
_SPANS = {
    **dict.fromkeys(("us", "ms"), _PARTS),
    **dict.fromkeys(("s", "min"), _CLOCK),
    "h": (1, 2, 3, 4, 6, 8, 12, 18),
    # Up to a hundred years; longer durations are clipped.
    "d": (*_ROUND_COUNTS, 1500, 2000, 3000, 5000, 7500, 10_000, 20_000, 36_500),
}


@dataclass(frozen=True)
class ShapeLook(Column):
    """Probe for the shapes of the values of a column."""

    kind: ClassVar[str] = "shape"
    as_written: ClassVar[bool] = True
    policies: ClassVar[tuple[str, ...]] = ("refuse", "clip")

    def plain_type(self) -> pa.DataType:
        """Return the text type: values are read as written."""
        return pa.string()

    def coder(self, arrow_type: pa.DataType, nan: bool) -> Coder:
        """Return a coder with one code per shape."""
        return _ShapeCoder()

    def labels(self, arrow_type: pa.DataType, size: int) -> list[Label]:
        """Return the label of each shape."""
        return [make_single_label(shape.sort, "value") for shape in SHAPES]


class _ShapeCoder:
    """Coder with one code per shape."""

    size = len(SHAPES)

    def encode(self, array: pa.Array) -> NDArray[np.int64]:
        return shapes_of(array)

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """Return nulls: a probe is only measured."""
        return pa.nulls(len(codes), pa.string())


def shape_look(name: str) -> Column:
    """Return the shape probe of a column."""
    return ShapeLook(name, outside="clip", missing=False)


@dataclass(frozen=True)
class GridLook:
    """Probe of a number or time on a public grid: the column, the edges of its cells, and its special values."""

    column: Column
    edges: Sequence[Any]
    special: Sequence[Any]

    def read(self, table: Array) -> tuple[Array, list[tuple[Any, int]], int]:
        """Return the counts of the cells, of the special values, and of missing values.

        A special value that is the only value of a cell has no code of its own; its count is that of the cell.
        """
        bins = len(self.edges) - 1
        cells, coded = np.array(table[:bins]), [v for v in self.special if not self.is_cell(v)]
        apart = list(zip(coded, table[bins : bins + len(coded)].tolist(), strict=True))
        for value in self.special:
            if self.is_cell(value):
                place = self.edges.index(value)
                apart.append((value, int(cells[place])))
                cells[place] = 0
        return cells, apart, int(table[-1])

    @property
    def zero(self) -> int:
        """Cell that begins at zero; the first one if there is none, as for dates."""
        return next((place for place, edge in enumerate(self.edges) if edge in (0, "0d")), 0)

    def is_cell(self, value: Any) -> bool:
        """Return whether a special value is the only value of a cell."""
        return isinstance(value, int) and value in self.edges and value + 1 in self.edges


_NOT_LOOKED_AT = ("decimals", "outside", "bins", "scale")  # facts on the synthetic table, not used on a public grid


def grid_look(name: str, entry: Mapping[str, Any], arrow_type: pa.DataType) -> GridLook:
    """Return the grid probe of a column of numbers, dates or durations; the grid covers the type."""
    entry = {key: value for key, value in entry.items() if key not in _NOT_LOOKED_AT}
    if entry["kind"] == "datetime":
        edges: list[Any] = [f"{year}-01-01" for year in YEARS]
        nanoseconds = pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns"
        special: list[Any] = [day for day in MARKED_DAYS if not nanoseconds or day < LAST_NANOSECOND]
    elif entry["kind"] == "duration":
        unit = find_finest_unit(arrow_type)
        edges, special = span_edges(unit), []
        entry["step"] = name_step(unit)
    elif entry["kind"] == "integer":
        low, high = _get_type_limits(arrow_type)
        edges = [edge for edge in whole_edges() if low < edge < high]
        edges = [low, *edges, high]
        special = [value for value in MARKED if low < value < high]
        entry.pop("type", None)  # the grid exceeds the exact range of floats
    else:
        edges, special = real_edges(), [float(value) for value in MARKED]
        if pa.types.is_decimal(arrow_type):
            digits, most = arrow_type.scale, 10.0 ** (arrow_type.precision - arrow_type.scale)
            edges = sorted({round(edge, digits) for edge in edges if abs(edge) < most})
            special = [value for value in special if edges[0] < value < edges[-1]]
    look = GridLook(Unknown(name), edges, special)
    coded = [value for value in special if not look.is_cell(value)]
    told = {**entry, "edges": edges, "special": coded, "missing": entry.get("missing", True), "outside": "clip"}
    return replace(look, column=column_from_dict(name, told))


def whole_edges() -> list[int]:
    """Return the grid edges of whole numbers: every small number, several per power of ten, and years in fives.

    >>> [edge for edge in whole_edges() if 18 <= edge <= 1910]
    [18, 19, 20, 24, 32, 50, 60, 100, 200, 367, 500, 1000, 1700, 1750, 1800, 1850, 1875, 1900, 1905, 1910]
    """
    above = [m * 10**k for k in range(1, 18) for m in _MANTISSAS]
    sizes = sorted({*range(_EACH), *_NATURAL_ENDS, *(edge for edge in above if edge >= _EACH), 10**18})
    return [-edge for edge in reversed(sizes[1:])] + sorted({*sizes, *_OLD_YEARS, *YEARS[::_YEAR_STEP]})


def real_edges() -> list[float]:
    """Return the grid edges of real numbers: several per power of ten, on both sides of zero."""
    positive = [float(f"{m}e{k}") for k in range(-6, 16) for m in _MANTISSAS] + [1e16]
    return [-edge for edge in reversed(positive)] + [0.0, *positive]


def span_edges(unit: int) -> list[str]:
    """Return the grid edges of durations on both sides of zero; `unit` is in nanoseconds.

    >>> [edge for edge in span_edges(10**9) if edge.endswith("h")]
    ['-18h', '-12h', '-8h', '-6h', '-4h', '-3h', '-2h', '-1h', '1h', '2h', '3h', '4h', '6h', '8h', '12h', '18h']
    """
    sizes = [f"{size}{name}" for name, each in _SPANS.items() for size in each]
    kept = [size for size in sizes if parse_span(size) % unit == 0]
    return [*(f"-{size}" for size in reversed(kept)), "0d", *kept]


def _get_type_limits(arrow_type: pa.DataType) -> tuple[int, int]:
    """Return the minimum and maximum of an integer type, limited to 10^18 in magnitude."""
    if pa.types.is_integer(arrow_type):
        info = np.iinfo(arrow_type.to_pandas_dtype())
        return max(int(info.min), -(10**18)), min(int(info.max), 10**18 - 1)
    return -(10**18) + 1, 10**18 - 1


MIN_SUM_DEVIATIONS = 5.5  # threshold of a special value, in standard deviations of the noise
NEAR = 4.0  # threshold of a count that is tested alone
FAR = 4.5  # threshold of a run of cells anywhere on a grid, in standard deviations of the noise of its sum
CLOSE = 3.0  # threshold of a run within `PAD` cells of those already found to contain rows
SHARP = 5.0  # deviations of the noise above which the last cell may show that a range ends there
DROP, SILENT = 0.2, 2.5  # the next cell is below this ratio to it, and below these deviations of the noise
PAD = 6  # number of cells added beyond an end that is not sharp: two powers of ten
PAD_YEARS = 2  # the same for dates
MAX_PADS = 2  # maximum number of times that cells are added, the second time only if these seem to contain rows
_STEPS = ("1d", "1h", "1min", "1s", "1ms", "1us")

FINE = 1000  # minimum number of steps in the longest duration; a schema may state a coarser step


def estimate_extent(counts: Array, sigma: float, zero: int = 0, pad: int = PAD) -> tuple[int, int]:
    """Estimate the first and the last cell that contain rows; when in doubt, wider.

    The sums of runs of 1, 2, 4, ... cells are tested, up to all cells: a tail may exceed the noise only as a whole. If
    no run does, the run with the largest score is returned, which is usually right even with few rows. Beyond an end
    where counts do not drop sharply, the tail is continued by `pad` cells, but not across the cell `zero`.

    >>> estimate_extent(np.array([0, 3, 90, 200, 90, 0, 0, 1]), 10.0)
    (2, 4)
    >>> estimate_extent(np.array([200, 90, 40, 20, 15, 10, 0, 0, 0, 0, 0, 0]), 10.0)
    (0, 8)
    """
    cells = np.asarray(counts, np.float64)
    end = len(cells) - 1
    found = _find_filled_runs(cells, FAR * sigma) or [_find_likeliest_run(cells)]
    last = _extend(cells, sigma, max(first for first, _ in found), zero, pad)
    first = end - _extend(cells[::-1], sigma, max(end - last for _, last in found), end - zero, pad)
    return min(first, last), max(first, last)


def _extend(cells: Array, sigma: float, last: int, zero: int, pad: int) -> int:
    """Return the last cell that contains rows, starting from one that is certainly needed.

    Runs beyond it are tested in turn until none exceeds the threshold; then a tail that does not end sharply is
    continued.
    """
    while more := (
        _find_filled_runs(cells[last + 1 :], FAR * sigma)
        or _find_filled_runs(cells[last + 1 : last + 1 + PAD], CLOSE * sigma)
    ):
        last += max(first for first, _ in more) + 1
    for _ in range(MAX_PADS):
        beyond = cells[last + 1 : min(last + pad, zero if last <= zero else len(cells)) + 1]
        sharp = len(beyond) and cells[last] > SHARP * sigma and beyond[0] < min(DROP * cells[last], SILENT * sigma)
        if sharp or not len(beyond):
            break
        last += len(beyond)
        if beyond.sum() < 2 * sigma * math.sqrt(len(beyond)):
            break
    return last


def _find_filled_runs(cells: Array, least: float) -> list[tuple[int, int]]:
    """Return the first and last cell of each run of 1, 2, 4, ... cells with a score above the threshold."""
    return [
        (int(first), int(first) + length - 1)
        for length, scores in _iterate_run_scores(cells)
        for first in np.flatnonzero(scores > least)
    ]


def _find_likeliest_run(cells: Array) -> tuple[int, int]:
    best = [(float(scores.max()), int(scores.argmax()), length) for length, scores in _iterate_run_scores(cells)]
    _, first, length = max(best)
    return first, first + length - 1


def _iterate_run_scores(cells: Array) -> Iterator[tuple[int, Array]]:
    """Yield run lengths, and for each run of that length its sum divided by the square root of the length."""
    total = np.concatenate([[0.0], np.cumsum(cells)])
    length = 1
    while length <= len(cells):
        yield length, (total[length:] - total[:-length]) / math.sqrt(length)
        length *= 2


def include_zero(edges: Sequence[Any], cells: tuple[int, int]) -> tuple[int, int]:
    """Extend a range of positive numbers to 0 if it spans a power of ten: the cells below cost little.

    >>> include_zero([-1, 0, 1, 2, 5, 10, 20, 50], (3, 6))
    (1, 6)
    """
    first, last = cells
    return (edges.index(0), last) if 0 < 10 * edges[first] <= edges[last + 1] else cells


def number_range(edges: Sequence[Any], cells: tuple[int, int], whole: bool, decimals: int | None = None) -> list[Any]:
    """Return the range from the first to the last cell; for whole numbers, without the edge of the next cell.

    With `decimals`, the ends are rounded outwards, so that the range contains at least one such number, and limited to
    numbers that a float represents with these decimals.

    >>> number_range([0.0, 1e-6, 2e-6], (1, 1), False, 2)
    [0.0, 0.01]
    >>> number_range([0.0, 1.0, 1e16], (0, 1), False, 2)
    [0.0, 90071992547409.0]
    """
    first, last = cells
    low, high = edges[first], edges[last + 1]
    if whole:
        return [low, high - 1] if last + 2 < len(edges) else [low, high]
    if decimals is None:
        return [low, high]
    unit = 10**decimals
    most = float(2**53 // unit)
    if low >= most or high <= -most:
        low, high = (most / 2, most) if low >= most else (-most, -most / 2)
    ends = math.floor(max(low, -most) * unit) / unit, math.ceil(min(high, most) * unit) / unit
    return [max(ends[0], -most), min(ends[1], most)]


def found_range(entry: Mapping[str, Any], edges: Sequence[Any], cells: tuple[int, int], unit: int) -> dict[str, Any]:
    """Return the range of these cells for an entry; `unit` is the unit of durations in nanoseconds."""
    if entry["kind"] == "datetime":
        return {"range": [f"{edges[cells[0]][:4]}-01-01", f"{edges[cells[1]][:4]}-12-31"]}
    if entry["kind"] == "duration":
        return span_range(edges, cells, unit, entry.get("step"))
    cells = include_zero(edges, cells)
    return {"range": number_range(edges, cells, entry["kind"] == "integer", entry.get("decimals"))}


def span_range(edges: Sequence[str], cells: tuple[int, int], unit: int, step: str | None = None) -> dict[str, Any]:
    """Return the duration range of these cells, and its step (default: a thousandth of the longest, or the unit).

    >>> span_range(["0d", "1min", "6h"], (0, 1), 1000)
    {'range': ['0d', '6h'], 'step': '1s'}
    """
    low, high = parse_span(edges[cells[0]]), parse_span(edges[cells[1] + 1])
    longest = max(abs(low), abs(high))
    fine = next((each for each in _STEPS if longest >= FINE * parse_step(each) and parse_step(each) >= unit), None)
    size = parse_step(step) if step else parse_step(fine) if fine else unit
    return {"range": [name_span(low // size * size), name_span(-(-high // size) * size)], "step": name_step(size)}
