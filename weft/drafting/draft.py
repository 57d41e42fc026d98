"""Draft a schema from a table, for review by a person.

Its facts are read from private rows. Each one is marked in `from_data`, and a schema that still has marks is refused
wherever the guarantee depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weft.drafting.guesses import accepts_rows, guess_column, guess_frame, guess_written
from weft.io.dialect import Dialect
from weft.schema.column_names import likely_units, require_distinct
from weft.schema.kinds.draft_facts import COMMON, Guess
from weft.schema.schema_file import write_column, write_entry, write_key

_HEADER = """\
# Schema of {name}, drafted from the table itself. Review it before use: `weft schema review` steps through it.
#
# A schema states what is publicly known about each column. The facts below were read from private rows, so
# releasing anything made with them could reveal, for example, the highest age of a person. They are listed in
# from_data of each column. For each fact: replace it by what you know without looking at the rows (a code book, a
# law, common sense: range = [0, 120]), then remove its name from from_data. Once no from_data is left, the schema
# is public, and so is everything that depends only on it.
#
# If one person can have several rows, set unit to the id column that identifies the person (rows without an id are
# dropped), and rows_per_unit to the maximum rows per person. Choose it without looking: a larger bound adds noise.
"""
_REPEATS = "# This may be {names}: the same id occurs in several rows. If so, remove the # from both lines.\n"


@dataclass(frozen=True)
class Draft:
    """A drafted schema: its heading, and a comment and an entry per column (None if the column is left out)."""

    head: str
    columns: tuple[tuple[str, str, Mapping[str, Any] | None], ...]

    def inline(self) -> str:
        """Return the schema as one TOML text."""
        return self._text({}, {})

    def apart(self, folder: str) -> tuple[str, dict[str, list[str]]]:
        """Return the schema with long value lists moved to files of a folder: the text, and the lines of each file."""
        files: dict[str, list[str]] = {}
        names: dict[str, str] = {}
        for _, name, entry in self.columns:
            values = [] if entry is None else entry.get("values", [])
            if len(values) <= COMMON or not all(map(_one_in_a_line, values)):
                continue
            stem = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_") or "values"
            taken = {file.lower() for file in files}
            number = next(n for n in range(1, len(files) + 3) if _number_file_name(stem, n).lower() not in taken)
            names[name] = _number_file_name(stem, number).removesuffix(".txt")
            files[_number_file_name(stem, number)] = values
        return self._text(names, {name: f"{folder}/{name}.txt" for name in names.values()}), files

    def _text(self, names: Mapping[str, str], lists: Mapping[str, str]) -> str:
        parts = [self.head]
        if lists:
            told = "# Lists of values, one per line, in separate files: review them too.\n"
            parts.append(told + "[lists]\n" + "".join(write_entry(write_key(key), file) for key, file in lists.items()))
        for comment, name, entry in self.columns:
            if entry is None:
                parts.append(comment)
                continue
            shown = {**entry, "values": names[name]} if name in names else entry
            parts.append(comment + write_column(name, shown))
        return "\n".join(parts)


def draft(data: pa.Table, name: str, dialect: Dialect | None = None) -> str:
    """Return a valid, commented TOML schema that can encode this table; `name` is used in the heading.

    With a dialect, the columns are text as stored in a file, and their types are guessed from the rows.
    """
    return sketch_schema(data, name, dialect).inline()


def sketch_schema(data: pa.Table, name: str, dialect: Dialect | None = None, *, frame: bool = False) -> Draft:
    """Draft the schema of a table; `frame` is true if the table was a data frame."""
    require_distinct(data.column_names)
    columns: list[tuple[str, str, Mapping[str, Any] | None]] = []
    people = []
    for field, column in zip(data.schema, data.columns, strict=True):
        found = _guess_column(field.name, column, dialect, frame) if field.name else None
        if found is not None:
            columns.append((f"# {found.reason}\n", field.name, found.entry))
            people += [field.name] if found.repeats else []
            continue
        why = f"{_one_line(field.name)}, no kind supports {field.type}" if field.name else "a column without a name"
        columns.append((f"# Left out: {why}.\n", field.name, None))
    skipped = any(entry is None for _, _, entry in columns)
    head = (
        _HEADER.format(name=name)
        + _suggest_privacy_unit(people)
        + ("\n" + write_entry("extra_columns", "ignore") if skipped else "")
    )
    return Draft(head, tuple(columns))


def _guess_column(name: str, column: pa.ChunkedArray, dialect: Dialect | None, frame: bool) -> Guess | None:
    if dialect is not None:
        return guess_written(column, name, dialect)
    if frame:
        return guess_frame(column, name)
    found = guess_column(column, name)
    return found if found is not None and accepts_rows(name, found.entry, column, None) else None


def _suggest_privacy_unit(people: Sequence[str]) -> str:
    """Suggest the privacy unit, in comments: rows do not show whether an id identifies a person."""
    likely = likely_units(people)
    told = _REPEATS.format(names=" or ".join(map(_one_line, likely))) if likely else ""
    unit = write_entry("unit", likely[0] if likely else "person_id")
    return f"{told}# {unit}# {write_entry('rows_per_unit', 5)}"


def _one_in_a_line(value: Any) -> bool:
    """Return whether a value can be stored in one line and read back unchanged."""
    return isinstance(value, str) and bool(value) and value.splitlines() == [value] and not value.startswith("\ufeff")


def _number_file_name(stem: str, number: int) -> str:
    return f"{stem}.txt" if number == 1 else f"{stem}_{number}.txt"


def _one_line(text: str) -> str:
    return " ".join(text.split())
