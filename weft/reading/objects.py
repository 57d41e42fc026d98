"""Cells that are Python objects, as workbooks, JSON and statistics packages give them, in the words of a CSV.

Each object is written by itself, so that what stands in other rows decides nothing; the schema's types are then read
from the words as they are from a text file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.errors import DataError
from weft.reading.columns import finished
from weft.schema import Schema
from weft.values.instants import UNIT
from weft.values.lengths import clock, exact, nanoseconds
from weft.values.text import is_text

EXACT = 2**53
"""Up to here a float tells whole numbers apart."""

_MOMENTS = (-62_135_337_600, 253_402_041_600)
"""Seconds since 1970 of what Python calls a moment, two days within its first and last year in every time zone."""


def word(value: Any, number: bool = False, form: str | None = None) -> str:
    """Write a Python object as a CSV would hold it: a date in a format, a truth value as a number if one is wanted."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(int(value)) if number else str(bool(value)).lower()
    if isinstance(value, float | np.floating) and abs(float(value)) < EXACT and value == int(value):
        return str(int(value))
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    if isinstance(value, timedelta | np.timedelta64) and (length := nanoseconds(value)) is not None:
        return clock(length)
    return value.strftime(form) if form is not None and isinstance(value, date) else str(value)


def exact_span(value: Any) -> str:
    """Write a length of time in microseconds, or nanoseconds if it has some, and anything else as `word` does.

    >>> exact_span(timedelta(days=-1, microseconds=5)), exact_span(np.timedelta64(7, "h")), exact_span("1:30:00")
    ('-86399999995us', '25200000000us', '1:30:00')
    """
    length = nanoseconds(value)
    return word(value) if length is None else exact(length)


def words_of(array: pa.Array) -> pa.Array:
    """Return the values of an array as `word` writes each of them, had they come as objects; not a number is none.

    A library keeps a column in one type until a single row does not fit it, and then all as objects: written in one
    way only, no row changes how another looks.
    """
    if is_text(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.large_string())
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)
    elif pa.types.is_timestamp(array.type):
        array = _within_reach(array)
    coded = array.dictionary_encode()
    if pa.types.is_duration(array.type):
        each = UNIT[array.type.unit]
        words = [clock(length * each) for length in coded.dictionary.cast(pa.int64()).to_pylist()]
    else:
        words = [word(value) for value in coded.dictionary.to_pylist()]
    return pa.array(words, pa.large_string()).take(coded.indices)


def _within_reach(array: pa.Array) -> pa.Array:
    """Return moments, null where Python has none so far away."""
    moments = array.cast(pa.int64())
    second = UNIT["s"] // UNIT[array.type.unit]
    low, high = (bound * second for bound in _MOMENTS)
    if low < -(2**63) or high > 2**63 - 1:
        return array
    near = pc.and_(pc.greater_equal(moments, low), pc.less_equal(moments, high))
    return pc.if_else(near, array, None)


def text_batch(columns: Mapping[str, Sequence[Any]], name: str, schema: Schema | None = None) -> pa.RecordBatch:
    """Return columns of objects as text: dates in the format that the schema gives for them."""
    arrays = []
    for each, cells in columns.items():
        form = schema.column(each).text_format if schema is not None and each in schema else None
        arrays.append(_texts(cells, f'{name}, column "{each}"', form))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def typed_batch(columns: Mapping[str, Sequence[Any]], name: str, schema: Schema) -> pa.RecordBatch:
    """Return columns of objects in the types that the schema declares."""
    known = {each: cells for each, cells in columns.items() if each in schema}
    return finished(text_batch(known, name, schema), schema, name)


def _texts(cells: Sequence[Any], where: str, form: str | None) -> pa.Array:
    try:
        words = np.frompyfunc(lambda value: _cell(value, form), 1, 1)(_objects(cells))
        return pa.array(words, pa.string())
    except (ValueError, ArithmeticError, TypeError):
        pass
    raise DataError(f"{where}: a cell holds neither text nor a number, a date or a truth value. Take it out")


def _cell(value: Any, form: str | None) -> str | None:
    if value is None or value != value:  # not a number
        return None
    if isinstance(value, dict | list | tuple | bytes):
        raise TypeError
    return word(value, form=form)


def _objects(cells: Sequence[Any]) -> NDArray[np.object_]:
    made = np.empty(len(cells), object)
    made[:] = cells
    return made
