"""Read data frames, and distinguish declared types from types that a library inferred from the rows.

A declared type is public (decision 002). An inferred type is not: one blank turns integers into floats, one odd word
turns dates into text, and a column without values has no type at all. A frame does not record whether its types were
declared, so every type that `read_csv`, a constructor or a date parser chooses by itself counts as inferred: truth
values, 64-bit numbers, text, dates and time stamps. Such a column takes the schema's type, as in a CSV file.

Privacy: no row affects how another row is read. Values are read one by one, and in ids and columns whose kind no schema
states, each value is first replaced by its canonical spelling (`weft.values.canonical`), which is the same under every
inference. Dates have no canonical spelling, because their notation is lost: the schema determines whether a column
holds dates or text, and any other type is refused. Decision 022.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import DataError, WeftError
from weft.io.frame_values import (
    exact_span,
    import_pandas,
    in_one,
    in_words,
    is_pandas,
    is_polars,
    is_spark,
    make_text_column,
    write_value,
)
from weft.io.reader import Batches, Reader
from weft.schema import Schema
from weft.schema.kinds import Column, ColumnError, Datetime, Duration, Id, Time
from weft.schema.type_conversion import adopt_type, index_type, interpret_values
from weft.values.canonical import (
    EXACT,
    INEXACT,
    NULL_WORDS,
    canonical_words,
    has_ambiguous_numbers,
    require_exact_floats,
)
from weft.values.storage import decode_dictionary
from weft.values.text_numbers import blank_marked_values, is_text
from weft.values.timestamps import UNIT

_GUESSABLE = re.compile(r"\s*([+-]?(\.?[0-9]|inf|nan)|(true|false)\s*$)", re.IGNORECASE)
GUESSED_UNIT = "us"  # unit of inferred time stamps, whichever the library chose


BYTES = "it holds bytes, not text. Read the table with its encoding, such as latin-1, or decode the column"


def is_bytes(declared: pa.DataType) -> bool:
    """Return whether a type holds bytes."""
    types = pa.types
    return bool(types.is_binary(declared) or types.is_large_binary(declared) or types.is_binary_view(declared))


def is_guessed(declared: pa.DataType) -> bool:
    """Whether libraries infer this type from values."""
    return bool(
        declared in (pa.null(), pa.bool_(), pa.int64(), pa.uint64(), pa.float64())
        or pa.types.is_decimal(declared)  # DuckDB for large numbers; precision and scale follow the rows
        or is_text(declared)
        or pa.types.is_date(declared)
        or pa.types.is_timestamp(declared)
        or pa.types.is_time(declared)
        or pa.types.is_duration(declared)
    )


def frame_type(column: Column, declared: pa.DataType, *, objects: bool = False) -> pa.DataType:
    """Return the type in which a frame's column is read and released: its own if it is declared, else the schema's.

    `objects`: whether the column holds Python objects, which are converted one by one, regardless of the type.
    """
    if pa.types.is_dictionary(declared):
        return pa.dictionary(declared.index_type, frame_type(column, declared.value_type), declared.ordered)
    if is_bytes(declared):  # what a reader makes of a whole column if one cell is not valid text
        raise DataError(f'column "{column.name}": {BYTES}')
    if not is_guessed(declared):
        return declared
    if not objects:
        _require_type(column, declared)
    own = column.arrow_type()
    if isinstance(column, Duration) and column.type is None:
        # Whether they are text, objects or durations, and their unit, may depend on a single row; the step does not.
        return pa.duration(GUESSED_UNIT if column.fits_unit(GUESSED_UNIT) else "ns")
    if not (pa.types.is_date(own) or pa.types.is_timestamp(own)):
        return own
    zoned = pa.types.is_timestamp(declared) and declared.tz is not None
    if zoned and (pa.types.is_date(own) or own.tz is None):
        remedy = f'state it in the schema, as in timezone = "{declared.tz}" with date = false'
        raise _make_type_error(column, f"its values have a time zone; {remedy}", "timezone")
    if column.type is None and pa.types.is_timestamp(own) and UNIT[own.unit] > UNIT[GUESSED_UNIT]:
        return pa.timestamp(GUESSED_UNIT, own.tz)
    return own


def _require_type(column: Column, declared: pa.DataType) -> None:
    """Refuse a type from which the values of a column cannot be read one by one.

    A library that parsed 007 or TRUE as a number or a truth value has lost the notation; one more row with an odd word
    would have kept the text of all rows. The same holds for parsed dates, whose format the frame does not record.
    """
    if pa.types.is_boolean(declared) and not column.as_written and not pa.types.is_boolean(column.arrow_type()):
        raise _make_type_error(column, 'it has truth values in the frame. Set kind = "boolean" or read as text', "kind")
    if isinstance(column, Id) and pa.types.is_temporal(declared):
        raise _make_type_error(column, f"it is an id, but {declared} in the frame. Convert it to text", "type")
    if is_canonical(column) or not column.read:
        return
    if needs_dates(column) and is_text(declared):
        raise _make_type_error(column, TEXT_FOR_DATES, "format")
    if is_text(declared):
        return
    if pa.types.is_null(declared):
        if any(value in NULL_WORDS for value in column.listed or ()):
            raise _make_type_error(column, "it has no type in the frame. Read it as text (dtype=str)", "type")
        return
    if column.text_format is not None or any(map(may_be_guessed, column.listed or ())):
        raise _make_type_error(
            column,
            f"its values are text in the schema, but {declared} in the frame, which does not record how they were "
            "written. Read the column as text (dtype=str), or leave out the format, or list its values as numbers",
            "type",
        )
    known = isinstance(column, Duration) and pa.types.is_duration(declared)
    if pa.types.is_temporal(declared) and not known and not pa.types.is_temporal(column.arrow_type()):
        raise _make_type_error(column, f"it is {declared} in the frame, but {column.kind} in the schema", "type")
    if isinstance(column, Time) and not pa.types.is_time(declared):
        raise _make_type_error(column, f"it is {declared} in the frame, but a time of day in the schema", "type")


def _make_type_error(column: Column, told: str, key: str) -> ColumnError:
    """Return the error for a type that a single row may have caused: private, like every refusal due to rows."""
    error = ColumnError(column.name, told, key)
    error.private = True
    return error


TEXT_FOR_DATES = (
    "it is text in the frame and holds dates in the schema, which does not state how they are written. Set a format, "
    'as in format = "%Y-%m-%d", convert the column with its format (pd.to_datetime(column, format=...)), or give the '
    "path of the file"
)


def needs_dates(column: Column) -> bool:
    """Whether a column must hold dates in a frame: without a format, text cannot be interpreted."""
    return isinstance(column, Datetime) and column.format is None and not is_canonical(column)


def is_canonical(column: Column) -> bool:
    """Whether a column is read in canonical spelling: for discovery, or because its kind or values were discovered."""
    return column.as_written or "values" in column.paid or "kind" in column.paid


def may_be_guessed(value: object) -> bool:
    """Whether a library that reads text may parse a value as a number, a truth value or a time."""
    return isinstance(value, str) and _GUESSABLE.match(value) is not None


def convert_frame_values(array: pa.Array, column: Column, wanted: pa.DataType, *, java: bool = False) -> pa.Array:
    """Return decoded values in the type of `frame_type`; `java`: from Spark, which reads 1d as a number."""
    array = decode_dictionary(array)
    wanted = wanted.value_type if pa.types.is_dictionary(wanted) else wanted
    if is_guessed(array.type) and (not column.modelled or is_canonical(column)):
        array = blank_marked_values(_write_canonical(array, column, java), column.markers)
        if is_text(wanted):
            return array.cast(wanted)
        # Ids are compared by their spelling: converted to another type, two of them might become one.
        return adopt_type(interpret_values(array, column), wanted, column) if column.modelled else array
    if not column.modelled:
        return blank_marked_values(array, column.markers)
    if array.type == pa.float64():  # inferred: with an odd word in the column, such values would be the text "nan"
        array = pc.if_else(pc.is_nan(array), None, array)
    if column.largest >= EXACT:
        require_exact_floats(array, column.name)
    if is_text(wanted):
        if is_text(array.type) and "" not in (column.listed or ()):
            array = array.cast(pa.large_string())
            array = pc.if_else(pc.equal(array, ""), None, array)
        array = blank_marked_values(array, column.markers)
    else:
        numbers = is_text(array.type) and not pa.types.is_temporal(wanted) and column.number_format is None
        array = interpret_values(_write_canonical(array, column, java) if numbers else array, column)
    return array if array.type == wanted else adopt_type(array, wanted, column)


def _write_canonical(array: pa.Array, column: Column, java: bool) -> pa.Array:
    """Return canonical spellings; DataError if a value's spelling would depend on the reader."""
    require_exact_floats(array, column.name)
    if has_ambiguous_numbers(array):
        raise DataError(
            f'column "{column.name}": it is text, and some of it may be numbers in a notation that file readers '
            "interpret differently, such as 1,234 or more digits than a float holds. Give the path of the file instead "
            "of a data frame, convert the column to numbers, or state its values in a schema"
        )
    return canonical_words(array, java=java)


def _open_stream(source: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(source)
    except Exception:  # noqa: BLE001 (a lazy query runs here, and its error message may quote a row)
        told = "is not a table that Arrow can read; give a pandas, polars or Arrow table of plain types"
        raise DataError(f"the {type(source).__name__} {told}") from None


def open_arrow(source: Any, schema: Schema, batch_rows: int) -> Reader:
    """Open a polars frame, a pyarrow table or any other Arrow stream, to be read once."""
    name = f"the {type(source).__name__}"
    reader = _open_stream(source)
    fields = [field.remove_metadata() for field in reader.schema]
    types = {field.name: frame_type(schema.column(field.name), field.type) for field in fields if field.name in schema}

    def start(columns: Sequence[str]) -> Batches:
        wanted = [column for column in columns if column in types]
        try:
            for batch in reader:
                for at in range(0, batch.num_rows, batch_rows):
                    piece = batch.slice(at, batch_rows)
                    arrays = [
                        convert_frame_values(piece.column(each), schema.column(each), types[each]) for each in wanted
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, names=wanted), None
        except WeftError:
            raise
        except Exception:  # noqa: BLE001 (a lazy query runs here, and its error message may quote a row)
            raise DataError(f"{name} could not be read to its end") from None

    arrow = pa.schema([field.with_type(types.get(field.name, field.type)) for field in fields])
    return Reader(name, arrow, start, repeatable=False)


def open_spark_frame(frame: Any, schema: Schema, batch_rows: int) -> Reader:
    """Open a Spark DataFrame; its query is the caller's responsibility: the rows of its result are protected."""
    from weft.io.spark_source import arrow_schema, check_stable, spark_reader

    check_stable(frame, "the DataFrame")
    # Which of 32-bit and 64-bit integers Spark infers depends on the rows.
    fields = [field.with_type(pa.int64()) if field.type == pa.int32() else field for field in arrow_schema(frame)]
    types = {each.name: frame_type(schema.column(each.name), each.type) for each in fields if each.name in schema}
    arrow = pa.schema([field.with_type(types.get(field.name, field.type)) for field in fields])
    return spark_reader(
        frame, "the DataFrame", batch_rows, arrow, partial(_convert_batch_types, schema=schema, types=types)
    )


def _convert_batch_types(batch: pa.RecordBatch, schema: Schema, types: dict[str, pa.DataType]) -> pa.RecordBatch:
    """Return a batch in these types; runs on Spark's workers."""
    names = batch.schema.names
    arrays = [convert_frame_values(batch.column(name), schema.column(name), types[name], java=True) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def make_repeatable(source: Any) -> Any:
    """Return a stream of batches, which can be read only once, as a table; anything else unchanged."""
    return source.read_all() if isinstance(source, pa.RecordBatchReader) else source


def find_ambiguous_types(source: Any) -> dict[str, pa.DataType]:
    """Return columns whose type loses the notation: dates, times, durations, truth values (Arrow also parses 1, 0)."""
    if is_pandas(source):
        types = {str(name): _get_declared_type(dtype) for name, dtype in source.dtypes.items()}
    elif is_spark(source):
        from weft.io.spark_source import arrow_schema

        types = {field.name: field.type for field in arrow_schema(source)}
    elif hasattr(source, "__arrow_c_stream__"):
        with _open_stream(source) as stream:
            types = {field.name: field.type for field in stream.schema}
    else:
        return {}
    plain = {name: each.value_type if pa.types.is_dictionary(each) else each for name, each in types.items()}
    return {n: each for n, each in plain.items() if pa.types.is_temporal(each) or pa.types.is_boolean(each)}


def _get_declared_type(dtype: Any) -> pa.DataType:
    pd = import_pandas()
    dtype = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    with suppress(pa.ArrowException, TypeError, ValueError):
        return pa.array(pd.Series([], dtype=dtype), from_pandas=True).type
    return pa.null()


def open_pandas(frame: Any, schema: Schema, batch_rows: int) -> Reader:
    """Open a pandas data frame; its index is not a column, and columns that are not in the schema are not read."""
    names = [str(name) for name in frame.columns]
    places = {name: place for place, name in enumerate(names) if name in schema}
    types = {name: _infer_arrow_type(frame.dtypes.iloc[place], schema.column(name)) for name, place in places.items()}

    def start(columns: Sequence[str]) -> Batches:
        wanted = [name for name in columns if name in places]
        for at in range(0, len(frame), batch_rows):
            piece = frame.iloc[at : at + batch_rows]
            arrays = [_convert_values(piece.iloc[:, places[name]], schema.column(name), types[name]) for name in wanted]
            yield pa.RecordBatch.from_arrays(arrays, names=wanted), min(1.0, (at + batch_rows) / len(frame))

    arrow = pa.schema([pa.field(name, types.get(name, pa.null())) for name in names])
    return Reader("the DataFrame", arrow, start, rows=len(frame), repeatable=False)


def _infer_arrow_type(dtype: Any, column: Column) -> pa.DataType:
    """Return the Arrow type of a pandas column: from its dtype if that is declared, else from the schema."""
    pd = import_pandas()
    if isinstance(dtype, pd.CategoricalDtype):
        # Its categories are often values of the rows: neither their number nor their type is public.
        return pa.dictionary(index_type(column), _infer_arrow_type(dtype.categories.dtype, column), bool(dtype.ordered))
    if isinstance(dtype, pd.ArrowDtype) and is_bytes(dtype.pyarrow_dtype):
        return frame_type(column, dtype.pyarrow_dtype)
    if isinstance(dtype, pd.StringDtype) or dtype.kind == "O":
        return frame_type(column, pa.string(), objects=not isinstance(dtype, pd.StringDtype))
    return frame_type(column, _convert_series_to_arrow(pd.Series([], dtype=dtype), column).type)


def _convert_values(series: Any, column: Column, wanted: pa.DataType) -> pa.Array:
    """Return a slice of a pandas column in the wanted type, decoded if that is a dictionary."""
    if not isinstance(series.dtype, import_pandas().CategoricalDtype):
        return convert_frame_values(_convert_series_to_arrow(series, column, wanted), column, wanted)
    codes = series.cat.codes.to_numpy().astype(np.int64)
    categories = _convert_series_to_arrow(import_pandas().Series(series.cat.categories), column, wanted.value_type)
    return convert_frame_values(categories.take(pa.array(codes, mask=codes < 0)), column, wanted)


def _convert_series_to_arrow(series: Any, column: Column, wanted: pa.DataType | None = None) -> pa.Array:
    """Return a pandas column as an Arrow array; objects as the text of CSV cells, for conversion to `wanted`."""
    if isinstance(series.dtype, import_pandas().StringDtype):
        return make_text_column(series, column.name, is_id=isinstance(column, Id))
    if series.dtype == object:
        strict = not column.modelled or is_canonical(column)
        write = partial(_decode_bytes, _choose_writer(column, wanted), column.name, strict)
        return in_words(write, series.to_numpy(object), column.name, is_id=isinstance(column, Id))
    with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        array = in_one(pa.array(series, from_pandas=True))
        if not isinstance(array.type, pa.BaseExtensionType):  # periods, intervals
            return array
    raise DataError(f'column "{column.name}": its dtype {series.dtype} cannot be read; convert it to another')


def _decode_bytes(write: Callable[[Any], str], name: str, strict: bool, value: Any) -> str:
    """Write an object as text, bytes as their UTF-8 text: for one invalid cell a reader returns a column of bytes.

    Bytes that are not UTF-8 are a value outside the schema; without one (`strict`) they are refused.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        value = bytes(value).decode(errors="replace")
        if strict and "\ufffd" in value:
            raise DataError(f'column "{name}": {BYTES}')
    return write(value)


def _choose_writer(column: Column, wanted: pa.DataType | None) -> Callable[[Any], str]:
    if wanted is not None and pa.types.is_duration(wanted):
        return exact_span
    number = wanted is not None and not (is_text(wanted) or pa.types.is_boolean(wanted))
    form = column.text_format if wanted is not None and is_text(wanted) else None
    if needs_dates(column):
        return partial(_write_unless, str, f'column "{column.name}": {TEXT_FOR_DATES}')
    if not column.modelled or is_canonical(column):
        return partial(_write_unless, _AMBIGUOUS_OBJECTS, f'column "{column.name}": {_AMBIGUOUS}')
    if form is not None or any(map(may_be_guessed, column.listed or ())):
        told = f'column "{column.name}": its values are text in the schema, and some are other objects in the frame'
        return partial(_write_unless, _PARSED_OBJECTS, f"{told}. Read the column as text (dtype=str)")
    if not pa.types.is_boolean(column.arrow_type()):
        told = f'column "{column.name}": some of its values are truth values. Set kind = "boolean"'
        return partial(_write_unless, (bool, np.bool_), told)
    return lambda value: write_value(value, number)


def _write_unless(refused: type | tuple[type, ...], told: str, value: Any) -> str:
    """Return an object as text; refuse these types, and floats too large to represent an integer exactly."""
    if isinstance(value, refused):
        raise DataError(told)
    if isinstance(value, float | np.floating) and EXACT <= abs(float(value)) < np.inf:
        raise DataError(f"{told.partition(': ')[0]}: {INEXACT}")
    return write_value(value)


_AMBIGUOUS = (
    "some of its values are dates, times or truth values, and a data frame does not record how they were written. "
    'Set the kind of the column, as in fit(frame, {"seen": "datetime", "smoker": "boolean"}), or give the path of '
    "the file"
)
_AMBIGUOUS_OBJECTS = (bool, np.bool_, date, time, timedelta, np.datetime64, np.timedelta64)
_PARSED_OBJECTS = (*_AMBIGUOUS_OBJECTS, int, float, np.number, Decimal)


def frame_maker(data: Any, schema: Schema) -> Callable[[pa.Table], Any]:
    """Return the function that converts a pyarrow Table to the kind of frame of `data`."""
    if is_pandas(data):
        dtypes = {str(name): dtype for name, dtype in data.dtypes.items()}
        labels = {str(name): name for name in data.columns}
        return lambda table: to_pandas(table, dtypes, schema).rename(columns=labels)
    if is_polars(data):
        dtypes = dict(data.schema)
        return lambda table: to_polars(table, dtypes, schema)
    if is_spark(data):
        session = data.sparkSession
        return lambda table: session.createDataFrame(table)
    return as_is


def as_is(table: pa.Table) -> pa.Table:
    """Return a table unchanged."""
    return table


def widen_found_moments(table: pa.Table, schema: Schema) -> pa.Table:
    """Return time stamps whose unit was discovered in microseconds or finer, like all other time stamps of frames.

    Some libraries infer the unit of a frame from its rows, so it is not used. A `type` stated in the schema is kept.
    """
    for place, field in enumerate(table.schema):
        kind, column = field.type, schema.column(field.name)
        if pa.types.is_timestamp(kind) and "type" in column.paid and UNIT[kind.unit] > UNIT[GUESSED_UNIT]:
            wide = field.with_type(pa.timestamp(GUESSED_UNIT, kind.tz))
            table = table.set_column(place, wide, table.column(place).cast(wide.type))
    return table


def to_pandas(table: pa.Table, dtypes: Mapping[str, Any], schema: Schema) -> Any:
    """Return a release as a pandas frame: in the declared dtypes, or else the schema's.

    With numpy dtypes, integers that may be missing are floats, whether or not values are missing; if floats cannot
    represent them exactly, they are Int64 or UInt64.
    """
    pd = import_pandas()
    table = widen_found_moments(table, schema).unify_dictionaries()
    series = {name: _make_series(table.column(name), dtypes[name], schema.column(name)) for name in table.column_names}
    return pd.DataFrame(series, columns=table.column_names)


def _make_series(values: pa.ChunkedArray, dtype: Any, column: Column) -> Any:
    """Return a released column in the family of its dtype: Arrow, pandas nullable, or numpy."""
    pd = import_pandas()
    if isinstance(dtype, pd.ArrowDtype):
        return values.to_pandas(types_mapper=pd.ArrowDtype)
    if isinstance(dtype, pd.StringDtype) and dtype.na_value is pd.NA:
        return values.to_pandas(types_mapper=lambda kind: dtype if is_text(kind) else _find_nullable_dtype(kind))
    if isinstance(dtype, pd.api.extensions.ExtensionDtype) and hasattr(dtype, "numpy_dtype"):
        return values.to_pandas(types_mapper=_find_nullable_dtype)
    if pa.types.is_date(values.type):  # pandas has no date type
        return values.to_pandas(date_as_object=False).astype(f"datetime64[{GUESSED_UNIT}]")
    if column.missing and pa.types.is_boolean(values.type):
        return values.to_pandas().astype(object)
    if not (column.missing and pa.types.is_integer(values.type)):
        return values.to_pandas()
    if column.largest <= EXACT:
        return values.to_pandas().astype(np.float64)
    return values.to_pandas(types_mapper=_find_nullable_dtype)


def _find_nullable_dtype(kind: pa.DataType) -> Any:
    pd = import_pandas()
    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    if is_text(kind):
        return pd.StringDtype(na_value=pd.NA)
    if not (pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)):
        return None
    name = str(np.dtype(kind.to_pandas_dtype()))
    return pd.api.types.pandas_dtype(name.replace("uint", "UInt") if name[0] == "u" else name.capitalize())


def to_polars(table: pa.Table, dtypes: Mapping[str, Any], schema: Schema) -> Any:
    """Return a release as a polars frame; an Enum gets the schema's values, as its own may come from rows."""
    import polars as pl

    frame: Any = pl.from_arrow(widen_found_moments(table, schema))
    for name, dtype in dtypes.items():
        column = schema.column(name) if name in schema else None
        if isinstance(dtype, pl.Enum) and column is not None and column.listed is not None:
            frame = frame.with_columns(pl.col(name).cast(pl.Enum([str(value) for value in column.listed])))
    return frame
