"""Probes: encodings of unknown columns by the shape of each value, or on a public grid.

Privacy: a probe is an ordinary attribute. Its codes are a public list, fixed in advance or computed from released
answers, and each row has exactly one code. A measurement of it is therefore a one-way marginal, with its sensitivity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from weft.values.timestamps import UNIT, name_step, parse_span


def select_precision_facts(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that shapes add to a column with a declared type: the precision of its values."""
    return {key: value for key, value in entry.items() if key in ("decimals", "step", "missing")}


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
    "d": (
        *_ROUND_COUNTS,
        1500,
        2000,
        3000,
        5000,
        7500,
        10_000,
        20_000,
        36_500,
    ),  # up to a hundred years; longer durations are clipped
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
