"""Data frames in and out: which of their types are declared, and which their library guessed from the rows.

A declared type is public (decision 002). A guessed one is not: one blank turns whole numbers into floats, and a
column that happens to hold nothing has no type at all. The types that pandas picks by itself (object, bool, int64,
uint64, float64) therefore say nothing here, and the schema's type is taken, as for a CSV. The values are read one
by one in that type, so that no row changes how another is understood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.engines.feed import Batches, Feed
from weft.errors import DataError
from weft.schema import Schema
from weft.schema.columns import Category, Column, Datetime, Id, Integer
from weft.schema.conversion import adopt
from weft.schema.text import is_text
from weft.schema.types import arrow_type, index_type

Objects = NDArray[np.object_]

_GUESSED = ("object", "bool", "int64", "uint64", "float64")
_EXACT = 2**53  # up to here a float tells whole numbers apart


def is_pandas(source: Any) -> bool:
    """Whether an object is a pandas data frame, told without importing pandas."""
    return _is_frame(source, "pandas")


def is_polars(source: Any) -> bool:
    """Whether an object is a polars data frame, told without importing polars."""
    return _is_frame(source, "polars")


def _pandas() -> Any:
    return import_module("pandas")  # only where a frame shows that it is there


def _is_frame(source: Any, library: str) -> bool:
    kinds = type(source).__mro__
    return any(kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == library for kind in kinds)


def open_pandas(frame: Any, schema: Schema, batch_rows: int) -> Feed:
    """Open a pandas data frame; its row labels are no column of the table, and columns without a schema stay unread."""
    names = [str(name) for name in frame.columns]
    places = {name: place for place, name in enumerate(names) if name in schema}
    types = {name: _type(frame.dtypes.iloc[place], schema.column(name)) for name, place in places.items()}

    def start(columns: Sequence[str]) -> Batches:
        wanted = [name for name in columns if name in places]
        for at in range(0, len(frame), batch_rows):
            piece = frame.iloc[at : at + batch_rows]
            arrays = [_array(piece.iloc[:, places[name]], schema.column(name), types[name]) for name in wanted]
            yield pa.RecordBatch.from_arrays(arrays, names=wanted), min(1.0, (at + batch_rows) / len(frame))

    arrow = pa.schema([pa.field(name, types.get(name, pa.null())) for name in names])
    return Feed("the DataFrame", arrow, start, rows=len(frame), repeatable=False)


def _type(dtype: Any, column: Column) -> pa.DataType:
    """Return the Arrow type of a pandas column: from its dtype if that is declared, else from the schema."""
    pd = _pandas()
    if isinstance(dtype, pd.CategoricalDtype):
        # Its categories are values of the rows, as often as not: neither their number nor their type is public.
        return pa.dictionary(index_type(column), _type(dtype.categories.dtype, column), bool(dtype.ordered))
    if isinstance(dtype, pd.StringDtype):
        own = arrow_type(column)
        return own if is_text(own) else pa.string()
    if not _is_guessed(dtype):
        return _declared(pd.Series([], dtype=dtype), column).type
    return arrow_type(column)


def _is_guessed(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.name in _GUESSED


def _array(series: Any, column: Column, wanted: pa.DataType) -> pa.Array:
    """Return a piece of a pandas column in the wanted type; a dictionary's as plain values."""
    pd = _pandas()
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        wanted = wanted.value_type
        codes = series.cat.codes.to_numpy().astype(np.int64)
        dtype = dtype.categories.dtype
        raw = _raw(pd.Series(series.cat.categories), column, wanted).take(pa.array(codes, mask=codes < 0))
    else:
        raw = _raw(series, column, wanted)
    # Ids are told apart as they stand: held to a type, two of them might become one.
    if isinstance(column, Id) or not (_is_guessed(dtype) or isinstance(dtype, pd.StringDtype)):
        return raw
    return adopt(raw, wanted, column)


def _raw(series: Any, column: Column, wanted: pa.DataType) -> pa.Array:
    pd = _pandas()
    if isinstance(series.dtype, pd.StringDtype):
        return _texts(series)
    if series.dtype == object:
        number = not (is_text(wanted) or pa.types.is_boolean(wanted))
        form = column.format if isinstance(column, Datetime) and is_text(wanted) else None
        return _texts(_each(lambda value: _word(value, number, form), series.to_numpy(object)))
    return _declared(series, column)


def _declared(series: Any, column: Column) -> pa.Array:
    try:
        return _in_one(pa.array(series, from_pandas=True))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise DataError(f'column "{column.name}": its dtype {series.dtype} cannot be read; take another') from None


def _texts(words: Any) -> pa.Array:
    try:
        return _in_one(pa.array(words, pa.large_string(), from_pandas=True))
    except UnicodeEncodeError:  # half a surrogate pair: no text, and so unknown to every schema
        whole = _each(lambda word: word.encode("utf-8", "replace").decode("utf-8"), np.asarray(words, object))
        return pa.array(whole, pa.large_string(), from_pandas=True)


def _in_one(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.unify_dictionaries().combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _each(write: Callable[[Any], str], values: Objects) -> Objects:
    """Apply a function to the values that are not missing."""
    words = np.full(len(values), None, object)
    present = ~_pandas().isna(values)
    words[present] = np.frompyfunc(write, 1, 1)(values[present])
    return words


def _word(value: Any, number: bool, form: str | None) -> str:
    """Write a Python object as a CSV would hold it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(int(value)) if number else str(bool(value)).lower()
    if isinstance(value, float | np.floating) and abs(float(value)) < _EXACT and value == int(value):
        return str(int(value))
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    return value.strftime(form) if form is not None and isinstance(value, date) else str(value)


def polars_schema(arrow: pa.Schema, schema: Schema) -> pa.Schema:
    """Return the types in which a polars frame is read: its own, but text as the schema has it.

    Polars makes a column without a value Null, which the schema's type replaces, and any other text a view: with
    one type for both, a column of text is the same whether or not it holds one.
    """
    fields = []
    for field in arrow.remove_metadata():
        text = field.name in schema and pa.types.is_string_view(field.type)
        own = arrow_type(schema.column(field.name)) if text else field.type
        fields.append(field.remove_metadata().with_type(own if is_text(own) else field.type))
    return pa.schema(fields)


def to_pandas(table: pa.Table, dtypes: Mapping[str, Any], schema: Schema) -> Any:
    """Return a release as a pandas frame: in the dtypes that were declared, and else those of the schema.

    Whole numbers that may be missing are floats in pandas's own types, drawn missing or not; where a float would
    not tell them apart they are Int64 or UInt64.
    """
    pd = _pandas()
    table = table.unify_dictionaries()
    series = {name: _series(table.column(name), dtypes[name], schema.column(name)) for name in table.column_names}
    return pd.DataFrame(series, columns=table.column_names)


def _series(values: pa.ChunkedArray, dtype: Any, column: Column) -> Any:
    pd = _pandas()
    if not isinstance(dtype, np.dtype | pd.CategoricalDtype):
        return values.to_pandas(types_mapper=lambda _: dtype)
    if column.missing and pa.types.is_boolean(values.type):
        return values.to_pandas().astype(object)
    if not (column.missing and pa.types.is_integer(values.type)):
        return values.to_pandas()
    if _largest(column) <= _EXACT:
        return values.to_pandas().astype(np.float64)
    unsigned = pa.types.is_uint64(values.type)
    return values.to_pandas(types_mapper=lambda _: pd.UInt64Dtype() if unsigned else pd.Int64Dtype())


def _largest(column: Column) -> int:
    if isinstance(column, Integer):
        return max(abs(int(value)) for value in (*column.ends, *column.special))
    listed = column.values if isinstance(column, Category) else ()
    return max((abs(value) for value in listed if isinstance(value, int)), default=0)


def to_polars(table: pa.Table, dtypes: Mapping[str, Any]) -> Any:
    """Return a release as a polars frame; an Enum stays one if it has a place for every value of the schema."""
    import polars as pl

    frame: Any = pl.from_arrow(table)
    for name, dtype in dtypes.items():
        if isinstance(dtype, pl.Enum) and name in table.column_names:
            chunks = table.column(name).chunks
            values = {value for chunk in chunks for value in chunk.dictionary.to_pylist()}
            if values <= set(dtype.categories):
                frame = frame.with_columns(pl.col(name).cast(dtype))
    return frame
