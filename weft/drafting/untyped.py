"""CSV read before there is a schema: types are guessed from the rows, so that a draft can be made of them.

What comes of it agrees with what `weft.reading.csv` reads by the draft: a blank field is missing, and a column of
digits that a number would not keep (01014) is text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from weft.errors import DataError
from weft.reading.csv import csv_names
from weft.reading.dialect import Checked, unpacked
from weft.reading.faults import TO_UTF8, header_fault
from weft.schema.naming import require_distinct
from weft.values.text import is_text


@dataclass(frozen=True)
class Untyped:
    """A CSV file in guessed types."""

    table: pa.Table
    words: Mapping[str, pa.ChunkedArray]
    """As written: the columns of numbers, dates or booleans where words such as NA stand for missing values."""


def guess_csv(path: str | PathLike[str]) -> Untyped:
    """Read a whole CSV file; DataError or SchemaError, quoting nothing, if it is not fit for a draft."""
    names = csv_names(path)
    if fault := header_fault(path):
        raise fault
    require_distinct(names)
    guessed = _read(path, names, pyarrow.csv.ConvertOptions())
    if guessed is None or not guessed.num_rows:
        raise DataError(f"{path} has no rows, only column names; a draft needs some")
    for field in guessed.schema:
        if pa.types.is_binary(field.type):
            raise DataError(f'{path}, column "{field.name}": a value is not UTF-8 text; {TO_UTF8}')
    as_text = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(guessed.column_names, pa.string()), null_values=[""], strings_can_be_null=True
    )
    written = _read(path, names, as_text)
    assert written is not None
    columns, words = [], {}
    for name, typed, text in zip(guessed.column_names, guessed.columns, written.columns, strict=True):
        stays = is_text(typed.type) or _only_text_keeps(typed.type, text)
        columns.append(text if stays else typed)
        if not stays and text.null_count < typed.null_count:
            words[name] = text
    return Untyped(pa.Table.from_arrays(columns, names=guessed.column_names), words)


def _read(path: str | PathLike[str], names: Sequence[str], options: pyarrow.csv.ConvertOptions) -> pa.Table | None:
    """Read a file, or None if it has no line but its first; line breaks in values are for the review to see."""
    try:
        with pa.OSFile(str(path), "rb") as raw:
            Checked(unpacked(raw, path), path, [True] * len(names)).check()
        return pyarrow.csv.read_csv(
            path, convert_options=options, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True)
        )
    except (pa.ArrowException, OSError) as error:
        if "Empty CSV" in str(error):
            return None
    # Arrow's own text may quote the file, and is not chained to what is raised here.
    raise DataError(f"{path}: the file cannot be read as CSV")


def _only_text_keeps(kind: pa.DataType, text: pa.ChunkedArray) -> bool:
    """Whether the guessed type would lose what is written: leading noughts, digits beyond a number's, all of it."""
    if pa.types.is_integer(kind):
        return bool(pc.any(pc.match_substring_regex(text, r"^\s*0[0-9]+\s*$")).as_py())
    if pa.types.is_floating(kind):
        return bool(pc.all(pc.match_substring_regex(text, "^[0-9]+$")).as_py())
    return bool(pa.types.is_null(kind) or pa.types.is_time(kind))
