"""Text read before there is a schema, all columns as they are written, so that a draft can be made of them."""

from __future__ import annotations

from os import PathLike

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import DataError
from weft.reading.csv import csv_names, text_table
from weft.reading.dialect import PLAIN, Dialect
from weft.reading.faults import NO_HEADER, NOT_UTF8, header_fault, looks_like_a_row
from weft.reading.stream import STDIN
from weft.schema.naming import require_distinct
from weft.values.text import is_utf8

_ONLY_BREAKS = r"^\s*[\r\n]\s*$"


def csv_text(path: str | PathLike[str], dialect: Dialect = PLAIN) -> pa.Table:
    """Read a whole CSV file; DataError or SchemaError, quoting nothing, if it is not fit for a draft."""
    if str(path) != STDIN:
        if fault := header_fault(path, dialect):
            raise fault
        if dialect.header is None and looks_like_a_row(csv_names(path, dialect)):
            raise DataError(f"{path}: {NO_HEADER}")
    text = text_table(path, dialect)
    if dialect.header is None and _comes_again(text):
        raise DataError(f"{path}: {NO_HEADER}")
    return fit_for_draft(text, str(path))


def fit_for_draft(text: pa.Table, name: str) -> pa.Table:
    """Return a table of text that has rows, names and sound letters; messages call it by its name."""
    require_distinct(text.column_names)
    if not text.num_rows:
        raise DataError(f"{name} has no rows, only column names; a draft needs some")
    for each, column in zip(text.column_names, text.columns, strict=True):
        if not all(map(is_utf8, column.chunks)):
            raise DataError(f'{name}, column "{each}": a value {NOT_UTF8}')
        if pc.any(pc.match_substring_regex(column, _ONLY_BREAKS)).as_py():
            raise DataError(f'{name}, column "{each}": a value is nothing but a line break; take it out of the file')
    return text


def _comes_again(text: pa.Table) -> bool:
    """Whether what the first line has for the name of a column is also a value of it."""
    pairs = zip(text.column_names, text.columns, strict=True)
    return any(name and pc.any(pc.equal(column, name)).as_py() for name, column in pairs)
