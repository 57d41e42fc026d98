"""The tables that drafts and checks of a schema read: text in guessed types, other files in their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from weft.drafting.draft import Draft, sketch
from weft.drafting.frames import frame_table
from weft.drafting.untyped import csv_text, fit_for_draft
from weft.errors import DataError
from weft.reading.addresses import kind_of_address
from weft.reading.csv import check_columns, csv_arrow_schema, csv_names, text_table
from weft.reading.dialect import PLAIN, Dialect
from weft.reading.excel import excel_names, excel_text
from weft.reading.faults import explained, readable_file
from weft.reading.files import Paths, find, kind_of
from weft.reading.jsonl import jsonl_text
from weft.reading.stats import stats_names, stats_text
from weft.reading.stream import STDIN, opened
from weft.reading.typed import arrow_batches, arrow_schema, parquet_batches, parquet_schema
from weft.schema import Schema

_BATCH = 1 << 17


def draft_source(source: Any, dialect: Dialect = PLAIN) -> str:
    """Draft a schema from files, from standard input, from a table of a database, or from a data frame."""
    return sketch_source(source, dialect).inline()


def sketch_source(source: Any, dialect: Dialect = PLAIN) -> Draft:
    """Return the draft of files, of standard input, of a table of a database or of a frame before it is written."""
    if not isinstance(source, str | os.PathLike | list | tuple):
        dialect.check(None, "a table in memory")
        return sketch(frame_table(source), f"the {type(source).__name__}")
    if addressed := kind_of_address(source):
        database, address = addressed
        dialect.check(None, database.name(address))
        reader = database.open(address, None, _BATCH)
        table = pa.Table.from_batches((batch for batch, _ in reader.start(reader.schema.names)), reader.schema)
        return (
            sketch(fit_for_draft(table, reader.name), reader.name, PLAIN)
            if database.written
            else sketch(table, reader.name)
        )
    if str(source) == STDIN:
        dialect.check("csv", "stdin")
        return sketch(csv_text(STDIN, dialect), "stdin", dialect)
    paths = find(source)
    kind = kind_of(paths[0])
    dialect.check(kind, str(paths[0]))
    name = paths[0].name.partition(".")[0]
    if kind in ("parquet", "arrow"):
        return sketch(_joined([_declared(path, kind) for path in paths], paths), name)
    if kind == "csv" and len(paths) == 1:
        return sketch(csv_text(paths[0], dialect), name, dialect)
    text = _joined([_text(path, kind, dialect) for path in paths], paths)
    return sketch(fit_for_draft(text, str(paths[0])), name, dialect)


def source_schema(schema: Schema, source: Paths, dialect: Dialect = PLAIN) -> pa.Schema:
    """Return the columns and types of a table as a codec sees them; no row is looked at."""
    if addressed := kind_of_address(source):
        database, address = addressed
        dialect.check(None, database.name(address))
        return database.open(address, schema, _BATCH).schema
    path = find(source)[0]
    kind = kind_of(path)
    dialect.check(kind, str(path))
    with readable_file(path):
        if kind in ("parquet", "arrow"):
            return parquet_schema(path)[0] if kind == "parquet" else arrow_schema(path)
        if kind == "jsonl" or (kind == "csv" and not dialect.named):
            return csv_arrow_schema(schema)
        if kind == "csv":
            with explained(path, dialect):
                names = csv_names(path, dialect)
                check_columns(schema, names, str(path))
                return csv_arrow_schema(schema, names)
        return csv_arrow_schema(schema, excel_names(path, dialect.sheet) if kind == "excel" else stats_names(path))


def _declared(path: Path, kind: str) -> pa.Table:
    with readable_file(path):
        arrow = parquet_schema(path)[0] if kind == "parquet" else arrow_schema(path)
        read = parquet_batches if kind == "parquet" else arrow_batches
        return pa.Table.from_batches(read(path, arrow.names, _BATCH), arrow)


def _text(path: Path, kind: str, dialect: Dialect) -> pa.Table:
    if kind == "csv":
        return text_table(path, dialect)
    with readable_file(path):
        if kind == "jsonl":
            with opened(path, dialect) as stream:
                return jsonl_text(stream)
        return excel_text(path, dialect.sheet) if kind == "excel" else stats_text(path)


def _joined(tables: Sequence[pa.Table], paths: Sequence[os.PathLike[str]]) -> pa.Table:
    """Return the rows of several files, which must have the same columns."""
    for path, table in zip(paths, tables, strict=True):
        if table.schema.names != tables[0].schema.names:
            raise DataError(f"{path} has other columns than {paths[0]}; give files of one layout")
    try:
        return pa.concat_tables(tables)
    except pa.ArrowException:
        raise DataError(f"{paths[0]} and its fellows have columns of other types; give files of one layout") from None
