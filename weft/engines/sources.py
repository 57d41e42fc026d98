"""What a table may be given as, and the door that opens each kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from weft.engines.database import open_duckdb
from weft.engines.feed import Batches, Feed
from weft.engines.files import open_files
from weft.errors import DataError
from weft.schema import Schema

OPENERS: dict[str, Callable[[str, Schema, int], Feed]] = {"duckdb": open_duckdb}
"""Sources named by a prefix: `prefix:address`."""


def open_feed(source: Any, schema: Schema, batch_rows: int) -> Feed:
    """Open a data frame or other Arrow stream, file paths, or a `prefix:address`; no row is read yet."""
    if hasattr(source, "__arrow_c_stream__"):
        return _open_object(source, batch_rows)
    if isinstance(source, str):
        prefix, colon, address = source.partition(":")
        if colon and prefix in OPENERS:
            return OPENERS[prefix](address, schema, batch_rows)
    if isinstance(source, str | os.PathLike | list | tuple):
        return open_files(source, schema, batch_rows)
    raise DataError(
        f"cannot read a table from a {type(source).__name__}; give a pandas, polars or Arrow table, or the path "
        "of a CSV or Parquet file"
    )


def _open_object(source: Any, batch_rows: int) -> Feed:
    name = f"the {type(source).__name__}"
    if hasattr(source, "reset_index"):
        source = source.reset_index(drop=True)  # the row labels of pandas are no column of the table
    try:
        reader = pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise DataError(_fault(source, name)) from None

    def start(columns: Sequence[str]) -> Batches:
        try:
            for batch in reader:
                for at in range(0, batch.num_rows, batch_rows):
                    yield batch.slice(at, batch_rows), None
        except pa.ArrowException:
            raise DataError(f"{name} could not be read to its end") from None

    return Feed(name, reader.schema, start, repeatable=False)


def _fault(frame: Any, name: str) -> str:
    """Say why Arrow cannot take an object, without its own text, which quotes values."""
    columns = [str(column) for column in getattr(frame, "columns", ())]
    for column in columns:
        if columns.count(column) > 1:
            return f'column "{column}": {name} has several columns of this name; rename them'
    for column, given in zip(columns, getattr(frame, "columns", ()), strict=True):
        try:
            pa.RecordBatchReader.from_stream(frame[[given]])
        except Exception:  # noqa: BLE001 (whatever its library raises, this is the column)
            return f'column "{column}": it holds values of more than one type; make them one type'
    return f"{name} is not a table; give a pandas, polars or Arrow table"
