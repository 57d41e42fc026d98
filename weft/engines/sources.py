"""What a table may be given as, and the door that opens each kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from weft.engines.database import open_duckdb
from weft.engines.feed import Batches, Feed
from weft.engines.files import open_files
from weft.engines.frames import is_pandas, is_polars, open_pandas, polars_schema
from weft.errors import DataError
from weft.schema import Schema

OPENERS: dict[str, Callable[[str, Schema, int], Feed]] = {"duckdb": open_duckdb}
"""Sources named by a prefix: `prefix:address`."""


def open_feed(source: Any, schema: Schema, batch_rows: int) -> Feed:
    """Open a data frame or other Arrow stream, file paths, or a `prefix:address`; no row is read yet."""
    if is_pandas(source):
        return open_pandas(source, schema, batch_rows)
    if hasattr(source, "__arrow_c_stream__"):
        return _open_object(source, schema, batch_rows)
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


def _open_object(source: Any, schema: Schema, batch_rows: int) -> Feed:
    name = f"the {type(source).__name__}"
    try:
        reader = pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise DataError(f"{name} is not a table; give a pandas, polars or Arrow table") from None
    declared = reader.schema
    arrow = polars_schema(declared, schema) if is_polars(source) else declared

    def start(columns: Sequence[str]) -> Batches:
        try:
            for batch in reader:
                for at in range(0, batch.num_rows, batch_rows):
                    piece = batch.slice(at, batch_rows)
                    yield piece if arrow is declared else piece.cast(arrow), None
        except pa.ArrowException:
            raise DataError(f"{name} could not be read to its end") from None

    return Feed(name, arrow, start, repeatable=False)
