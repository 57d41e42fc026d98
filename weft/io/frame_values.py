"""Recognise data frames without importing their libraries, and convert their objects to the text of CSV cells."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.errors import DataError
from weft.io.text_to_types import convert_batch
from weft.schema import Schema
from weft.values.canonical import EXACT
from weft.values.timestamps import count_nanoseconds, write_clock, write_length

Objects = NDArray[np.object_]


def is_spark(source: Any) -> bool:
    """Whether an object is a Spark DataFrame."""
    return _is_instance_of(source, "pyspark")


def is_pandas(source: Any) -> bool:
    """Whether an object is a pandas data frame."""
    return _is_instance_of(source, "pandas")


def is_polars(source: Any) -> bool:
    """Whether an object is a polars data frame."""
    return _is_instance_of(source, "polars")


def collect_lazy_frame(source: Any) -> Any:
    """Return the result of a polars LazyFrame, whose rows are what is protected; anything else unchanged."""
    return source.collect() if _is_instance_of(source, "polars", "LazyFrame") else source


def _is_instance_of(source: Any, library: str, name: str = "DataFrame") -> bool:
    kinds = type(source).__mro__
    return any(kind.__name__ == name and kind.__module__.partition(".")[0] == library for kind in kinds)


def import_pandas() -> Any:
    """Return pandas."""
    return import_module("pandas")  # called only for a pandas frame, so it is installed


def in_words(write: Callable[[Any], str], values: Objects, name: str, *, is_id: bool = False) -> pa.Array:
    """Return the objects of a pandas column as text, each converted independently; null if missing."""
    return make_text_column(_apply_to_present(write, values, name), name, is_id=is_id)


def make_text_column(words: Any, name: str, *, is_id: bool = False) -> pa.Array:
    """Return a text column; invalid text is replaced, so that no schema lists it, and refused in an id."""
    try:
        return in_one(pa.array(words, pa.large_string(), from_pandas=True))
    except UnicodeEncodeError:  # half a surrogate pair
        if is_id:
            raise DataError(
                f'column "{name}": an id is invalid text (half a surrogate pair): two persons could become one. Fix it'
            ) from None
        whole = _apply_to_present(
            lambda word: word.encode("utf-8", "replace").decode("utf-8"), np.asarray(words, object), name
        )
        return pa.array(whole, pa.large_string(), from_pandas=True)


def in_one(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return an array in one chunk."""
    return array.unify_dictionaries().combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _apply_to_present(write: Callable[[Any], str], values: Objects, name: str) -> Objects:
    words = np.full(len(values), None, object)
    try:
        present = ~import_pandas().isna(values)
        words[present] = np.frompyfunc(write, 1, 1)(values[present])
    except (ValueError, ArithmeticError):  # 5,000 digits, a time before the year 1, a signalling NaN
        raise DataError(f'column "{name}": an object cannot be written as text: its value is out of range') from None
    return words


def write_value(value: Any, number: bool = False, form: str | None = None) -> str:
    """Return a Python object as the text of a CSV cell: dates in a format, truth values as 0 or 1 if `number`."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(int(value)) if number else str(bool(value)).lower()
    if isinstance(value, float | np.floating):
        value = float(value)
        if abs(value) < EXACT and value == int(value):
            return str(int(value))
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    if isinstance(value, timedelta | np.timedelta64) and (length := count_nanoseconds(value)) is not None:
        return write_clock(length)
    return value.strftime(form) if form is not None and isinstance(value, date) else str(value)


def exact_span(value: Any) -> str:
    """Return a duration in microseconds, or nanoseconds if it has some, and anything else as `write_value` does.

    >>> exact_span(timedelta(days=-1, microseconds=5)), exact_span(np.timedelta64(7, "h")), exact_span("1:30:00")
    ('-86399999995us', '25200000000us', '1:30:00')
    """
    length = count_nanoseconds(value)
    return write_value(value) if length is None else write_length(length)


def text_batch(columns: Mapping[str, Sequence[Any]], name: str, schema: Schema | None = None) -> pa.RecordBatch:
    """Return columns of objects as text, with dates in the schema's format."""
    arrays = []
    for each, cells in columns.items():
        form = schema.column(each).text_format if schema is not None and each in schema else None
        arrays.append(_write_cells(cells, f'{name}, column "{each}"', form))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def make_typed_batch(columns: Mapping[str, Sequence[Any]], name: str, schema: Schema) -> pa.RecordBatch:
    """Return columns of objects in the schema's types."""
    known = {each: cells for each, cells in columns.items() if each in schema}
    return convert_batch(text_batch(known, name, schema), schema, name)


def _write_cells(cells: Sequence[Any], where: str, form: str | None) -> pa.Array:
    try:
        words = np.frompyfunc(lambda value: _write_cell(value, form), 1, 1)(_make_object_array(cells))
        return pa.array(words, pa.string())
    except (ValueError, ArithmeticError, TypeError):
        pass
    raise DataError(f"{where}: a cell is neither text nor a number, a date or a truth value. Remove it")


def _write_cell(value: Any, form: str | None) -> str | None:
    if value is None or value != value:  # NaN
        return None
    if isinstance(value, dict | list | tuple | bytes):
        raise TypeError
    return write_value(value, form=form)


def _make_object_array(cells: Sequence[Any]) -> NDArray[np.object_]:
    made = np.empty(len(cells), object)
    made[:] = cells
    return made
