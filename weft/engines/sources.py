"""Open tables from all kinds of sources: data frames, files and addresses."""

import os
from pathlib import Path
from typing import Any

from weft.engines.frames import open_arrow, open_pandas, open_spark_frame
from weft.errors import SourceError
from weft.io.addresses import kind_of_address, without_credentials
from weft.io.byte_stream import STDIN
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.io.formats import format_of
from weft.io.frame_values import is_pandas, is_spark
from weft.io.reader import Reader
from weft.io.table_files import find_files, open_files
from weft.schema import Schema


def source_name(source: Any) -> str:
    """Return the name of a table in records: its file name, its address, or the type of the object."""
    if isinstance(source, str):
        named = without_credentials(source)
        return named or ("stdin" if source == STDIN else Path(source).name or source)
    if isinstance(source, os.PathLike):
        return Path(source).name
    if isinstance(source, list | tuple) and source:
        return source_name(source[0]) + (" and others" if len(source) > 1 else "")
    return f"a {type(source).__name__}"


def table_identity(source: Any) -> str | None:
    """Return the full path or address that identifies a table, as far as names can; None for an object in memory.

    It is for comparison in memory: records hold a salted hash of it (`weft.privacy.journal.fingerprint_table`).
    """
    if isinstance(source, str) and (address := without_credentials(source)) is not None:
        return address
    if isinstance(source, str) and source == STDIN:
        return None
    if isinstance(source, str | os.PathLike):
        return str(Path(source).resolve())
    if isinstance(source, list | tuple):
        return "\n".join(sorted(str(Path(each).resolve()) for each in source))
    return None


def is_written(source: Any) -> bool:
    """Whether the cells of a named table are text that the schema interprets."""
    if found := kind_of_address(source):
        return found[0].written
    form = None if source == STDIN else format_of(find_files(source)[0])
    return form is None or not form.is_typed


def names_are_in_file(source: Any) -> bool:
    """Whether a table's column names come from a first line, so that a row could be mistaken for them."""
    if not isinstance(source, str | os.PathLike | list | tuple):
        # A frame may have been read from a file without a header; labels other than text were set explicitly.
        return not is_spark(source) and all(isinstance(name, str) for name in getattr(source, "columns", ("",)))
    if kind_of_address(source) or source == STDIN:
        return False
    form = format_of(find_files(source)[0])
    return form is not None and form.names_in_first_line


def open_reader(source: Any, schema: Schema, batch_rows: int, dialect: Dialect = DEFAULT_DIALECT) -> Reader:
    """Open a data frame or other Arrow stream, file paths, or a `prefix:address`; no row is read yet."""
    if not dialect.plain and not isinstance(source, str | os.PathLike | list | tuple):
        raise SourceError("a dialect describes a file and has no effect on a table in memory; leave it out")
    if is_pandas(source):
        return open_pandas(source, schema, batch_rows)
    if is_spark(source):
        return open_spark_frame(source, schema, batch_rows)
    if hasattr(source, "__arrow_c_stream__"):
        return open_arrow(source, schema, batch_rows)
    if found := kind_of_address(source):
        kind, address = found
        dialect.check((), source_name(source))
        return kind.open(address, schema, batch_rows)
    if isinstance(source, list | tuple) and any(map(kind_of_address, source)):
        raise SourceError("a database table cannot be combined with other sources; name it alone")
    if isinstance(source, str | os.PathLike | list | tuple):
        return open_files(source, schema, batch_rows, dialect)
    raise SourceError(f"cannot read a {type(source).__name__}; give a pandas, polars, Spark or Arrow table, or a path")
