"""Text read before there is a schema: types are guessed from the rows, so that a draft can be made of them.

What comes of it agrees with what `weft.reading` reads by the draft: a blank field is missing, and a column of digits
that a number would not keep (01014) is text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from weft.errors import DataError
from weft.reading.csv import csv_names, text_table
from weft.reading.dialect import PLAIN, Dialect
from weft.reading.faults import NO_HEADER, NOT_UTF8, header_fault, looks_like_a_row
from weft.reading.stream import STDIN
from weft.schema.naming import require_distinct
from weft.values.markers import Marker, blanked, written
from weft.values.number_format import NumberFormat
from weft.values.text import is_text, is_utf8


@dataclass(frozen=True)
class Untyped:
    """A table of text in guessed types."""

    table: pa.Table
    words: Mapping[str, pa.ChunkedArray]
    """As written: the columns of numbers, dates or booleans where words such as NA stand for missing values."""
    markers: Mapping[str, list[Marker]] = field(default_factory=dict)
    """Declared markers of missing values that each column holds."""


def guess_csv(path: str | PathLike[str], dialect: Dialect = PLAIN) -> Untyped:
    """Read a whole CSV file; DataError or SchemaError, quoting nothing, if it is not fit for a draft."""
    if str(path) != STDIN:
        if fault := header_fault(path, dialect):
            raise fault
        if dialect.header is None and looks_like_a_row(csv_names(path, dialect)):
            raise DataError(f"{path}: {NO_HEADER}")
    text = text_table(path, dialect)
    if dialect.header is None and _comes_again(text):
        raise DataError(f"{path}: {NO_HEADER}")
    return guess_text(text, str(path), dialect)


def guess_text(text: pa.Table, name: str, dialect: Dialect = PLAIN) -> Untyped:
    """Guess the types of a table of text; messages call it by its name."""
    require_distinct(text.column_names)
    if not text.num_rows:
        raise DataError(f"{name} has no rows, only column names; a draft needs some")
    for each, column in zip(text.column_names, text.columns, strict=True):
        if not all(map(is_utf8, column.chunks)):
            raise DataError(f'{name}, column "{each}": a value {NOT_UTF8}')
    plain: list[pa.ChunkedArray] = []
    markers: dict[str, list[Marker]] = {}
    for each, column in zip(text.column_names, text.columns, strict=True):
        found = _present(column, dialect.missing)
        markers |= {each: found} if found else {}
        plain.append(_blank(column, found, dialect.number_format))
    kept = pa.Table.from_arrays(plain, names=text.column_names)
    guessed = _guessed(kept)
    if guessed is None:
        raise DataError(f"{name}: the file cannot be read as CSV")
    columns, words = [], {}
    for each, typed, shown in zip(kept.column_names, guessed.columns, kept.columns, strict=True):
        stays = is_text(typed.type) or _only_text_keeps(typed.type, shown)
        columns.append(shown if stays else typed)
        if not stays and shown.null_count < typed.null_count:
            words[each] = shown
    return Untyped(pa.Table.from_arrays(columns, names=kept.column_names), words, markers)


def _comes_again(text: pa.Table) -> bool:
    """Whether what the first line has for the name of a column is also a value of it."""
    pairs = zip(text.column_names, text.columns, strict=True)
    return any(name and pc.any(pc.equal(column, name)).as_py() for name, column in pairs)


def _present(column: pa.ChunkedArray, markers: tuple[Marker, ...]) -> list[Marker]:
    """Return the markers that a column holds."""
    if not markers:
        return []
    held = set(pc.unique(pc.ascii_trim_whitespace(column)).to_pylist())
    return [marker for marker in markers if written(marker) in held]


def _blank(column: pa.ChunkedArray, markers: list[Marker], form: NumberFormat | None) -> pa.ChunkedArray:
    """Return a column with null for blanks and markers, and numbers with a decimal comma in plain digits."""
    chunks = [blanked(chunk, ["", *markers]) for chunk in column.chunks]
    made = pa.chunked_array(chunks, pa.string())
    if form is None:
        return made
    plain = pa.chunked_array([form.plain(chunk).cast(pa.string()) for chunk in chunks], pa.string())
    return made if pc.any(pc.equal(plain, "?")).as_py() else plain


def _guessed(text: pa.Table) -> pa.Table | None:
    """Return a table of text in the types that Arrow guesses for a CSV file of it; None if it cannot."""
    places = [str(place) for place in range(text.num_columns)]  # a column may have no name
    sink = pa.BufferOutputStream()
    try:
        pyarrow.csv.write_csv(text.rename_columns(places), sink)
        guessed = pyarrow.csv.read_csv(
            pa.BufferReader(sink.getvalue()), parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True)
        )
    except pa.ArrowException:
        return None
    return guessed.rename_columns(text.column_names)


def _only_text_keeps(kind: pa.DataType, text: pa.ChunkedArray) -> bool:
    """Whether the guessed type would lose what is written: leading noughts, digits beyond a number's, all of it."""
    if pa.types.is_integer(kind):
        return bool(pc.any(pc.match_substring_regex(text, r"^\s*0[0-9]+\s*$")).as_py())
    if pa.types.is_floating(kind):
        return bool(pc.all(pc.match_substring_regex(text, "^[0-9]+$")).as_py())
    return bool(pa.types.is_null(kind) or pa.types.is_time(kind))
