"""What a table may be given as, and the door that opens each kind."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from weft.engines.frames import open_arrow, open_pandas, open_spark_frame
from weft.errors import DataError
from weft.files import format_of
from weft.reading.addresses import kind_of_address, without_credentials
from weft.reading.dialect import PLAIN, Dialect
from weft.reading.files import find, open_files
from weft.reading.frames import is_pandas, is_spark
from weft.reading.reader import Reader
from weft.reading.stream import STDIN
from weft.schema import Schema


def source_name(source: Any) -> str:
    """Return what a record calls a table: the name of its file, its address, or the kind of object."""
    if isinstance(source, str):
        named = without_credentials(source)
        return named or ("stdin" if source == STDIN else Path(source).name or source)
    if isinstance(source, os.PathLike):
        return Path(source).name
    if isinstance(source, list | tuple) and source:
        return source_name(source[0]) + (" and others" if len(source) > 1 else "")
    return f"a {type(source).__name__}"


def fingerprint(source: Any) -> str | None:
    """Return what tells a named table from others in a record, without its place; None for an object in memory.

    Runs on tables with the same fingerprint asked the same table, as far as names can tell.
    """
    if isinstance(source, str) and (address := without_credentials(source)) is not None:
        named = address
    elif isinstance(source, str) and source == STDIN:
        return None
    elif isinstance(source, str | os.PathLike):
        named = str(Path(source).resolve())
    elif isinstance(source, list | tuple):
        named = "\n".join(sorted(str(Path(each).resolve()) for each in source))
    else:
        return None
    return hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def is_written(source: Any) -> bool:
    """Whether the cells of a named table are text until a schema says what they mean."""
    if found := kind_of_address(source):
        return found[0].written
    first = find(source)[0] if source != STDIN else None
    return first is None or format_of(first) not in ("parquet", "arrow")


def open_reader(source: Any, schema: Schema, batch_rows: int, dialect: Dialect = PLAIN) -> Reader:
    """Open a data frame or other Arrow stream, file paths, or a `prefix:address`; no row is read yet."""
    if not dialect.plain and not isinstance(source, str | os.PathLike | list | tuple):
        raise DataError("a dialect says how a file is written, and nothing of a table in memory; leave it out")
    if is_pandas(source):
        return open_pandas(source, schema, batch_rows)
    if is_spark(source):
        return open_spark_frame(source, schema, batch_rows)
    if hasattr(source, "__arrow_c_stream__"):
        return open_arrow(source, schema, batch_rows)
    if found := kind_of_address(source):
        kind, address = found
        dialect.check(None, source_name(source))
        return kind.open(address, schema, batch_rows)
    if isinstance(source, list | tuple) and any(map(kind_of_address, source)):
        raise DataError("a table of a database is read by itself; name it alone")
    if isinstance(source, str | os.PathLike | list | tuple):
        return open_files(source, schema, batch_rows, dialect)
    raise DataError(
        f"cannot read a table from a {type(source).__name__}; give a pandas, polars, Spark or Arrow table, or the "
        "path of a file"
    )
