"""Data frames: which of their types are declared, and which their library guessed from the rows.

A declared type is public (decision 002). A guessed one is not: one blank turns whole numbers into floats, one odd word
turns dates into text, and a column that happens to hold nothing has no type at all. No frame tells whether its types
were declared, so every type that a `read_csv`, a constructor or a parser of dates picks by itself counts as guessed:
truth values, numbers of 64 bits, text, dates and time stamps. Such a column has the schema's type, as in a CSV. The
values are read one by one in that type, so that no row changes how another is understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from weft.codec.conversion import adopt, understood
from weft.codec.types import index_type
from weft.errors import DataError
from weft.reading.frames import in_one, in_words, is_pandas, is_spark, pandas, texts
from weft.reading.objects import EXACT, exact_span, word, words_of
from weft.reading.reader import Batches, Reader
from weft.schema import Schema
from weft.schema.kinds import Column, ColumnError, Duration
from weft.values.instants import UNIT
from weft.values.markers import blanked
from weft.values.storage import decoded
from weft.values.text import is_text

_GUESSABLE = re.compile(r"\s*([+-]?(\.?[0-9]|inf|nan)|(true|false)\s*$)", re.IGNORECASE)
GUESSED_UNIT = "us"  # of guessed time stamps, whatever resolution the library found in them


def is_guessed(declared: pa.DataType) -> bool:
    """Whether libraries pick this type by themselves, from values."""
    return bool(
        declared in (pa.null(), pa.bool_(), pa.int64(), pa.uint64(), pa.float64())
        or is_text(declared)
        or pa.types.is_date(declared)
        or pa.types.is_timestamp(declared)
        or pa.types.is_time(declared)
        or pa.types.is_duration(declared)
    )


def frame_type(column: Column, declared: pa.DataType) -> pa.DataType:
    """Return the type in which a frame's column is read and released: its own if it is declared, else the schema's."""
    if pa.types.is_dictionary(declared):
        return pa.dictionary(declared.index_type, frame_type(column, declared.value_type), declared.ordered)
    if not is_guessed(declared):
        return declared
    _require_text(column, declared)
    own = column.arrow_type()
    if isinstance(column, Duration) and column.type is None:
        # Whether they are text, objects or lengths of time, and in which unit, may hang on a row; the step does not.
        return pa.duration(GUESSED_UNIT if column.fits_unit(GUESSED_UNIT) else "ns")
    if not (pa.types.is_date(own) or pa.types.is_timestamp(own)):
        return own
    zoned = pa.types.is_timestamp(declared) and declared.tz is not None
    if zoned and (pa.types.is_date(own) or own.tz is None):
        remedy = f'say which in the schema, as in timezone = "{declared.tz}" with date = false'
        raise ColumnError(column.name, f"its values have a time zone; {remedy}", "timezone")
    if column.type is None and pa.types.is_timestamp(own) and UNIT[own.unit] > UNIT[GUESSED_UNIT]:
        return pa.timestamp(GUESSED_UNIT, own.tz)
    return own


def _require_text(column: Column, declared: pa.DataType) -> None:
    """Refuse numbers, truth values, dates and times in place of text that is listed, or spelled in a format.

    A library that took 007 or TRUE for a number or a truth value has lost how it was written; with one odd word more it
    would have kept the text of all rows, and these would be read differently.
    """
    if is_text(declared) or pa.types.is_null(declared) or _as_written(column):
        return
    if column.text_format is not None or any(map(_may_be_guessed, column.listed or ())):
        raise ColumnError(
            column.name,
            f"its values are text in the schema, but {declared} in the frame, where nothing tells how they were "
            "written. Read the column as text (dtype=str), or leave out the format, or list its values as numbers",
            "type",
        )


def _as_written(column: Column) -> bool:
    """Whether a column is read in words, each value by itself: to find its values, or by values that were so found."""
    return column.as_written or "values" in column.paid


def _may_be_guessed(value: object) -> bool:
    """Whether a library that reads text may take a value for a number, a truth value or a time."""
    return isinstance(value, str) and _GUESSABLE.match(value) is not None


def held(array: pa.Array, column: Column, wanted: pa.DataType) -> pa.Array:
    """Return values of a frame in the type that `frame_type` said, those of a dictionary as plain ones."""
    array = decoded(array)
    wanted = wanted.value_type if pa.types.is_dictionary(wanted) else wanted
    if _as_written(column) and is_text(wanted):
        return blanked(words_of(array).cast(wanted), column.markers)
    _require_exact(array, column)
    array = blanked(array, column.markers) if is_text(wanted) else understood(array, column)
    # Ids are told apart as they stand: held to a type, two of them might become one.
    return array if array.type == wanted or not column.modelled else adopt(array, wanted, column)


def _require_exact(array: pa.Array, column: Column) -> None:
    """Refuse whole numbers that a guessed float has already merged with their neighbours, where each one matters."""
    if not pa.types.is_float64(array.type) or (column.modelled and column.largest < EXACT):
        return
    floats = array.fill_null(0.0).to_numpy(zero_copy_only=False)
    if (np.abs(floats) >= EXACT).any():
        raise DataError(
            f'column "{column.name}": whole numbers of 2^53 and more stand in a column of floats, which merges '
            "neighbours. Read it as text or as Int64"
        )


def open_arrow(source: Any, schema: Schema, batch_rows: int) -> Reader:
    """Open a polars frame, a pyarrow table or anything else that gives an Arrow stream; it can be read once."""
    name = f"the {type(source).__name__}"
    try:
        reader = pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise DataError(f"{name} is not a table; give a pandas, polars or Arrow table") from None
    fields = [field.remove_metadata() for field in reader.schema]
    types = {field.name: frame_type(schema.column(field.name), field.type) for field in fields if field.name in schema}

    def start(columns: Sequence[str]) -> Batches:
        wanted = [column for column in columns if column in types]
        try:
            for batch in reader:
                for at in range(0, batch.num_rows, batch_rows):
                    piece = batch.slice(at, batch_rows)
                    arrays = [held(piece.column(each), schema.column(each), types[each]) for each in wanted]
                    yield pa.RecordBatch.from_arrays(arrays, names=wanted), None
        except pa.ArrowException:
            raise DataError(f"{name} could not be read to its end") from None

    arrow = pa.schema([field.with_type(types.get(field.name, field.type)) for field in fields])
    return Reader(name, arrow, start, repeatable=False)


def open_spark_frame(frame: Any, schema: Schema, batch_rows: int) -> Reader:
    """Open a DataFrame of Spark; what its query does to rows is the caller's own: its rows are what is protected."""
    from weft.reading.spark import arrow_schema, check_stable, spark_reader

    check_stable(frame, "the DataFrame")
    declared = arrow_schema(frame)
    types = {each.name: frame_type(schema.column(each.name), each.type) for each in declared if each.name in schema}
    arrow = pa.schema([field.with_type(types.get(field.name, field.type)) for field in declared])
    return spark_reader(frame, "the DataFrame", batch_rows, arrow, partial(_held_batch, schema=schema, types=types))


def _held_batch(batch: pa.RecordBatch, schema: Schema, types: dict[str, pa.DataType]) -> pa.RecordBatch:
    """Return a batch in these types; sent to Spark's workers."""
    names = batch.schema.names
    arrays = [held(batch.column(name), schema.column(name), types[name]) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def repeatable(source: Any) -> Any:
    """Return a stream of batches, which can be read once, as a table; anything else as it is."""
    return source.read_all() if isinstance(source, pa.RecordBatchReader) else source


def spans_of(source: Any) -> set[str]:
    """Return the columns of a data frame that hold lengths of time."""
    if is_pandas(source):
        return {str(name) for name, dtype in source.dtypes.items() if dtype.kind == "m"}
    if is_spark(source) or not hasattr(source, "__arrow_c_stream__"):
        return set()
    return {field.name for field in pa.RecordBatchReader.from_stream(source).schema if pa.types.is_duration(field.type)}


def open_pandas(frame: Any, schema: Schema, batch_rows: int) -> Reader:
    """Open a pandas data frame; its row labels are no column of the table, and columns without a schema stay unread."""
    names = [str(name) for name in frame.columns]
    places = {name: place for place, name in enumerate(names) if name in schema}
    types = {name: _type(frame.dtypes.iloc[place], schema.column(name)) for name, place in places.items()}

    def start(columns: Sequence[str]) -> Batches:
        wanted = [name for name in columns if name in places]
        for at in range(0, len(frame), batch_rows):
            piece = frame.iloc[at : at + batch_rows]
            arrays = [_values(piece.iloc[:, places[name]], schema.column(name), types[name]) for name in wanted]
            yield pa.RecordBatch.from_arrays(arrays, names=wanted), min(1.0, (at + batch_rows) / len(frame))

    arrow = pa.schema([pa.field(name, types.get(name, pa.null())) for name in names])
    return Reader("the DataFrame", arrow, start, rows=len(frame), repeatable=False)


def _type(dtype: Any, column: Column) -> pa.DataType:
    """Return the Arrow type of a pandas column: from its dtype if that is declared, else from the schema."""
    pd = pandas()
    if isinstance(dtype, pd.CategoricalDtype):
        # Its categories are values of the rows, as often as not: neither their number nor their type is public.
        return pa.dictionary(index_type(column), _type(dtype.categories.dtype, column), bool(dtype.ordered))
    if isinstance(dtype, pd.StringDtype) or dtype.kind == "O":
        return frame_type(column, pa.string())
    return frame_type(column, _array(pd.Series([], dtype=dtype), column).type)


def _values(series: Any, column: Column, wanted: pa.DataType) -> pa.Array:
    """Return a piece of a pandas column in the wanted type; a dictionary's as plain values."""
    if not isinstance(series.dtype, pandas().CategoricalDtype):
        return held(_array(series, column, wanted), column, wanted)
    codes = series.cat.codes.to_numpy().astype(np.int64)
    categories = _array(pandas().Series(series.cat.categories), column, wanted.value_type)
    return held(categories.take(pa.array(codes, mask=codes < 0)), column, wanted)


def _array(series: Any, column: Column, wanted: pa.DataType | None = None) -> pa.Array:
    """Return a pandas column as Arrow has it; objects as the text that a CSV would hold, fit to be read as `wanted`."""
    if isinstance(series.dtype, pandas().StringDtype):
        return texts(series, column.name, is_id=not column.modelled)
    if series.dtype == object:
        write = _writing(column, wanted)
        return in_words(write, series.to_numpy(object), column.name, is_id=not column.modelled)
    with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        array = in_one(pa.array(series, from_pandas=True))
        if not isinstance(array.type, pa.BaseExtensionType):  # periods, intervals
            return array
    raise DataError(f'column "{column.name}": its dtype {series.dtype} cannot be read; take another')


def _writing(column: Column, wanted: pa.DataType | None) -> Callable[[Any], str]:
    """Return how an object is written to be read as `wanted`."""
    if wanted is not None and pa.types.is_duration(wanted):
        return exact_span
    number = wanted is not None and not (is_text(wanted) or pa.types.is_boolean(wanted))
    form = column.text_format if wanted is not None and is_text(wanted) else None
    return lambda value: word(value, number, form)
