"""Read tables for schema drafts and checks: text as written, other formats in their own types."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weft.drafting.draft import Draft, sketch_schema
from weft.errors import DataError
from weft.io.addresses import kind_of_address
from weft.io.byte_stream import STDIN
from weft.io.dialect import DEFAULT_DIALECT, NOT_UTF8, Dialect
from weft.io.file_faults import NO_HEADER, looks_like_a_row
from weft.io.formats.csv_files import CSV
from weft.io.frame_values import collect_lazy_frame, in_words, is_pandas, is_spark, write_value
from weft.io.table_files import Paths, find_files, require_known_format
from weft.schema import Schema
from weft.schema.column_names import require_distinct
from weft.values.text_numbers import is_utf8

_ONLY_BREAKS = r"^\s*[\r\n]\s*$"


def csv_text(path: str | PathLike[str], dialect: Dialect = DEFAULT_DIALECT) -> pa.Table:
    """Read a whole CSV file as text; raise DataError or SchemaError, without any value, if it cannot be drafted."""
    text = CSV.read_whole(path, dialect)
    if dialect.header is None:
        require_header(text, str(path))
    return fit_for_draft(text, str(path))


def require_header(text: pa.Table, name: str) -> None:
    """Refuse a file whose first line is a row: names look like values, or occur as values of their own columns."""
    if looks_like_a_row(text.column_names) or _comes_again(text):
        raise DataError(f"{name}: {NO_HEADER}")


def fit_for_draft(text: pa.Table, name: str) -> pa.Table:
    """Validate that a text table has rows, distinct names and valid UTF-8; `name` is used in messages."""
    require_distinct(text.column_names)
    if not text.num_rows:
        raise DataError(f"{name} has no rows, only column names; a draft needs some rows")
    for each, column in zip(text.column_names, text.columns, strict=True):
        if not all(map(is_utf8, column.chunks)):
            raise DataError(f'{name}, column "{each}": a value {NOT_UTF8}')
        if pc.any(pc.match_substring_regex(column, _ONLY_BREAKS)).as_py():
            raise DataError(f'{name}, column "{each}": a value consists only of a line break; remove it from the file')
    return text


def _comes_again(text: pa.Table) -> bool:
    pairs = zip(text.column_names, text.columns, strict=True)
    return any(name and pc.any(pc.equal(column, name)).as_py() for name, column in pairs)


def frame_table(source: Any) -> pa.Table:
    """Convert a pandas, polars, Spark or Arrow table to Arrow; object columns become text, as in a CSV file."""
    name = f"the {type(source).__name__}"
    try:
        source = collect_lazy_frame(source)
        if is_pandas(source):
            columns = [_convert_series(source.iloc[:, place]) for place in range(source.shape[1])]
            return pa.Table.from_arrays(columns, [str(each) for each in source.columns])
        if is_spark(source):
            source = source.toArrow()
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError):  # their messages may quote a value
        pass
    raise DataError(f"{name} is not a supported table; pass a pandas, polars, Spark or Arrow table, or a file")


def _convert_series(series: Any) -> pa.ChunkedArray | pa.Array:
    if series.dtype != object:
        return pa.array(series, from_pandas=True)
    return in_words(write_value, series.to_numpy(object), str(series.name))


_BATCH = 1 << 17


def draft_source(source: Any, dialect: Dialect = DEFAULT_DIALECT) -> str:
    """Draft a schema from files, standard input, a database table or a data frame, as TOML text."""
    return sketch_source(source, dialect).inline()


def sketch_source(source: Any, dialect: Dialect = DEFAULT_DIALECT) -> Draft:
    """Draft a schema from files, standard input, a database table or a data frame."""
    if not isinstance(source, str | os.PathLike | list | tuple):
        dialect.check((), "a table in memory")
        return sketch_schema(frame_table(source), f"the {type(source).__name__}", frame=True)
    if addressed := kind_of_address(source):
        database, address = addressed
        dialect.check((), database.name(address))
        reader = database.open(address, None, _BATCH)
        table = pa.Table.from_batches((batch for batch, _ in reader.start(reader.schema.names)), reader.schema)
        return (
            sketch_schema(fit_for_draft(table, reader.name), reader.name, DEFAULT_DIALECT)
            if database.written
            else sketch_schema(table, reader.name)
        )
    if str(source) == STDIN:
        dialect.check(CSV.dialect_options, "stdin")
        return sketch_schema(csv_text(STDIN, dialect), "stdin", dialect)
    paths = find_files(source)
    form = require_known_format(paths[0])
    dialect.check(form.dialect_options, str(paths[0]))
    name = paths[0].name.partition(".")[0]
    table = _concatenate_files([form.read_whole(path, dialect) for path in paths], paths)
    if form.is_typed:
        return sketch_schema(table, name)
    if form.names_in_first_line and dialect.header is None:
        require_header(table, str(paths[0]))
    return sketch_schema(fit_for_draft(table, str(paths[0])), name, dialect)


def source_schema(schema: Schema, source: Paths, dialect: Dialect = DEFAULT_DIALECT) -> pa.Schema:
    """Return the Arrow schema of a table as a codec expects it; no row is read."""
    if addressed := kind_of_address(source):
        database, address = addressed
        dialect.check((), database.name(address))
        return database.open(address, schema, _BATCH).schema
    path = find_files(source)[0]
    form = require_known_format(path)
    dialect.check(form.dialect_options, str(path))
    return form.read_columns(path, schema, dialect)


def _concatenate_files(tables: Sequence[pa.Table], paths: Sequence[os.PathLike[str]]) -> pa.Table:
    for path, table in zip(paths, tables, strict=True):
        if table.schema.names != tables[0].schema.names:
            raise DataError(f"{path} and {paths[0]} have different columns; pass files of one layout")
    try:
        return pa.concat_tables(tables)
    except pa.ArrowException:
        raise DataError(f"{paths[0]} and other files have different column types; pass files of one layout") from None
