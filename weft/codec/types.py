"""Arrow types of columns: declared by the source, which is public, or else from the schema; never from the rows."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from weft.schema.columns import Boolean, Category, Column, ColumnError, Datetime, Id, Integer, Real
from weft.values.instants import UNIT, parse_step

_DECIMAL = re.compile(r"decimal(?:128)?\((\d{1,2}), ?(\d{1,2})\)")
_STAMP = re.compile(r"timestamp\[(s|ms|us|ns), ?tz=([^\]]+)\]")


def arrow_type(column: Column) -> pa.DataType:
    """Return the type of a column whose source declares none: its own `type`, or the plain one of its kind."""
    if column.type is not None:
        return _named(column)
    match column:
        case Boolean():
            return pa.bool_()
        case Integer():
            return pa.uint64() if max(*column.ends, *column.special) >= 2**63 else pa.int64()
        case Real():
            return pa.float64()
        case Datetime():
            return _moment(column)
        case Category():
            return _listed(column)
        case Id():
            return pa.string()
    raise ColumnError(column.name, f"kind {column.kind} has no type", "kind")


def released_type(column: Column, declared: pa.DataType) -> pa.DataType:
    """Return the type in which a column of this declared type is released.

    Arrow's null type declares nothing (it is what a library makes of a column that happens to be all missing), so
    the schema's type stands in for it. The index of a dictionary grows until it can tell all the schema's values
    apart, whichever of them the rows hold.
    """
    if pa.types.is_null(declared):
        return arrow_type(column)
    if pa.types.is_dictionary(declared):
        room = int(np.iinfo(declared.index_type.to_pandas_dtype()).max) + 1
        index = declared.index_type if room >= _places(column) else index_type(column)
        return pa.dictionary(index, released_type(column, declared.value_type), declared.ordered)
    return declared


def index_type(column: Column) -> pa.DataType:
    """Return the smallest signed index for a dictionary of the column's possible values."""
    return next(size for size in (pa.int8(), pa.int16(), pa.int32()) if _places(column) <= 2 ** (size.bit_width - 1))


def _places(column: Column) -> int:
    match column:
        case Category():
            return len(column.values)
        case Boolean():
            return 2
    return 2**31  # drawn values and ids: as many as a block has rows


def _listed(column: Category) -> pa.DataType:
    first = column.values[0]
    if isinstance(first, bool):
        return pa.bool_()
    if isinstance(first, int):
        return pa.uint64() if max(int(v) for v in column.values) >= 2**63 else pa.int64()
    return pa.float64() if isinstance(first, float) else pa.string()


def _moment(column: Datetime) -> pa.DataType:
    if column.format is not None:
        return pa.string()  # stays text, and is written back in the same format
    if column.plain_date:
        return pa.date32()
    step = parse_step(column.step or "1s")
    return pa.timestamp(next(unit for unit, size in UNIT.items() if step % size == 0), column.timezone)


def _named(column: Column) -> pa.DataType:
    name = column.type or ""
    if found := _DECIMAL.fullmatch(name):
        try:
            return pa.decimal128(int(found[1]), int(found[2]))
        except ValueError:
            pass
    if found := _STAMP.fullmatch(name):
        return pa.timestamp(found[1], found[2])
    try:
        return pa.type_for_alias(name)
    except ValueError:
        raise ColumnError(
            column.name,
            f'unknown type "{name}"; write one such as "int32", "float64", "string", "date32", "timestamp[us]" '
            'or "decimal128(10, 2)"',
            "type",
        ) from None
