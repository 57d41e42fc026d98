"""Columns as the operands of a formula: how their values are read as numbers, and between which ends they lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.schema.kinds.base import Column, ColumnError, suggestion
from weft.schema.kinds.binned import Binned, Scale, small_decimal
from weft.schema.kinds.datetime import Datetime
from weft.schema.kinds.difference import bounds_of
from weft.schema.kinds.real import Real
from weft.values.exact import UNKNOWN, Interval, Numbers
from weft.values.instants import DAY, UNIT
from weft.values.storage import Carrier, Decimals, Integers, floats_of, missing_of
from weft.values.text import is_text, read_floats
from weft.values.written import TextIntegers

Reader = Callable[[pa.Array], Numbers]

_FIRST_HALF = ("January", "February", "March", "April", "May", "June")
MONTHS = (*_FIRST_HALF, "July", "August", "September", "October", "November", "December")

_PIECES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "monthname": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "weekday": lambda moments: pc.day_of_week(moments, count_from_zero=False, week_start=1),
    "hour": pc.hour,
}
_ENDS = {"quarter": (1, 4), "month": (1, 12), "monthname": (1, 12), "week": (1, 53), "day": (1, 31)} | {
    "weekday": (1, 7),
    "hour": (0, 23),
}


def plain_type(field: pa.Field) -> pa.DataType:
    """Return the type of a field's values."""
    return field.type.value_type if pa.types.is_dictionary(field.type) else field.type


def reader(column: Column, field: pa.Field) -> Reader | None:
    """Return what reads a column as numbers (a date as days); None if it holds none."""
    arrow_type = plain_type(field)
    if isinstance(column, Real) and (column.decimals is None or column.special) and not _exact(arrow_type):
        return _text_floats if is_text(arrow_type) else _floats
    if isinstance(column, Binned):
        if type(column).scale is Binned.scale:
            return None
        scale = column.scale(arrow_type, nan=not field.nullable)
        return _scaled(scale.carrier, scale.unit / DAY if scale.time else scale.unit)
    numbers = column.listed is None or all(not isinstance(value, str) for value in column.listed)
    if is_text(arrow_type):
        whole = column.listed is not None and all(type(value) is int for value in column.listed)
        return _scaled(TextIntegers(arrow_type), Fraction(1)) if whole else None
    return _typed(arrow_type) if numbers else None


def _typed(arrow_type: pa.DataType) -> Reader | None:
    if pa.types.is_boolean(arrow_type):
        return lambda array: _scaled(Integers(pa.int8()), Fraction(1))(array.cast(pa.int8()))
    if pa.types.is_integer(arrow_type):
        return _scaled(Integers(arrow_type), Fraction(1))
    if small_decimal(arrow_type):
        return _scaled(Decimals(arrow_type), Fraction(1, 10**arrow_type.scale))
    if pa.types.is_float32(arrow_type) or pa.types.is_float64(arrow_type):
        return _floats
    unit = moment_unit(arrow_type)
    return None if unit is None else _scaled(Integers(arrow_type), Fraction(unit, DAY))


def moment_unit(arrow_type: pa.DataType) -> int | None:
    """Return the nanoseconds in which a type counts moments; None if it counts none."""
    if pa.types.is_date32(arrow_type):
        return DAY
    if pa.types.is_date64(arrow_type):
        return UNIT["ms"]
    return UNIT[arrow_type.unit] if pa.types.is_timestamp(arrow_type) else None


def _exact(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow_type) or small_decimal(arrow_type))


def _scaled(carrier: Carrier, unit: Fraction) -> Reader:
    def read(array: pa.Array) -> Numbers:
        reading = carrier.read(array)
        whole = reading.values
        if whole.dtype == np.uint64 and (whole > np.uint64(2**63 - 1)).any():
            return Numbers(whole.astype(np.float64) * float(unit), None, reading.missing)
        return Numbers(whole.astype(np.int64), unit, reading.missing)

    return read


def _floats(array: pa.Array) -> Numbers:
    values = floats_of(array)
    return Numbers(np.nan_to_num(values), None, np.isnan(values))


def _text_floats(array: pa.Array) -> Numbers:
    values = read_floats(array)[0]
    return Numbers(np.nan_to_num(values), None, np.isnan(values))


def piece_reader(column: Column, field: pa.Field, piece: str) -> Reader | None:
    """Return what reads a piece of a column's dates, on the wall clock of its zone; None if it holds none."""
    arrow_type = plain_type(field)
    if moment_unit(arrow_type) is not None:
        moments: Callable[[pa.Array], pa.Array] = _moments
    elif isinstance(column, Datetime):
        moments = _held(column.scale(arrow_type))
    else:
        return None

    def read(array: pa.Array) -> Numbers:
        found = _PIECES[piece](moments(array)).cast(pa.int64())
        return Numbers(found.fill_null(1).to_numpy(zero_copy_only=False), Fraction(1), missing_of(found))

    return read


def _moments(array: pa.Array) -> pa.Array:
    return array.cast(pa.timestamp("ms")) if pa.types.is_date(array.type) else array


def _held(scale: Scale) -> Callable[[pa.Array], pa.Array]:
    """Return what reads dates in text and whole numbers as time stamps."""

    def read(array: pa.Array) -> pa.Array:
        reading = scale.carrier.read(array)
        unit = "ms" if scale.unit < UNIT["s"] else "s"
        values = np.where(reading.missing, 0, reading.values.astype(np.int64)) * int(scale.unit / UNIT[unit])
        return pa.array(values, mask=reading.missing).cast(pa.timestamp(unit))

    return read


def interval(column: Column, columns: Mapping[str, Column]) -> Interval:
    """Return where the values of a column may lie, from the schema alone; those of dates in days."""
    if isinstance(column, Binned):
        low, high = bounds_of(column, columns)
        time = isinstance(column, Datetime)
        return Interval(low / DAY, high / DAY) if time else Interval(low, high)
    listed = [
        Fraction(str(value)) for value in column.listed or () if isinstance(value, int | float) and value == value
    ]
    return Interval(min(listed), max(listed)) if listed else UNKNOWN


def piece_interval(piece: str, days: Interval) -> Interval:
    """Return where a piece of dates may lie that lie between these days."""
    if piece in _ENDS:
        return Interval(*map(Fraction, _ENDS[piece]))
    if days.low is None or days.high is None:
        return UNKNOWN
    return Interval(*(Fraction(1970 + round(end / 365 + more)) for end, more in ((days.low, -40), (days.high, 40))))


def sources_of(column: Column, columns: Mapping[str, Column], key: str) -> list[Column]:
    """Return the columns that one is made from; ColumnError if one is unknown, or made from this one."""
    waiting: list[tuple[str, tuple[str, ...]]] = [(name, (column.name,)) for name in column.made_from]
    while waiting:
        name, path = waiting.pop()
        if name not in columns:
            near = suggestion(name, columns) or " Name a column of the schema."
            raise ColumnError(column.name, f'{key} names "{name}", which is no column.{near}', key)
        if name in path:
            listed = ", ".join(f'"{each}"' for each in path)
            raise ColumnError(column.name, f"{listed} are made from one another in a circle; leave one out of it", key)
        waiting += [(each, (*path, name)) for each in columns[name].made_from]
    return [columns[name] for name in column.made_from]
