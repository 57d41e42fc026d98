"""A first schema, guessed from a file, for a person to review.

What it holds was read from private rows. Each such fact is marked in `from_data`, and a schema that still
carries a mark is refused where it matters.
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
# A schema states what is publicly known about each column. What stands here was read from private rows, so
# releasing anything made with it could reveal, say, that someone has the highest age. Those facts are listed in
# each column's from_data. For each one: replace it by what you know without looking at the rows (a code book, a
# law, common sense: range = [0, 120]), then take its name out of from_data. Once no from_data is left, the schema
# is public and so is everything that depends on it alone.
#
# If one person can have several rows, name the id column that tells them apart (rows without an id are left out),
# and say how many rows of one person to keep: choose it without looking, for more of them cost more noise.
"""
_REPEATS = (
    "# Here that may be {names}: the same id comes back in several rows. Take the # away from both lines if so.\n"
)


@dataclass(frozen=True)
class Draft:
    """A drafted schema: its heading, and of each column a comment and an entry (None where it is left out)."""

    head: str
    columns: tuple[tuple[str, str, Mapping[str, Any] | None], ...]

    def inline(self) -> str:
        """Write the schema as one TOML text."""
        return self._text({}, {})

    def apart(self, folder: str) -> tuple[str, dict[str, list[str]]]:
        """Write the schema with its long lists of values in files of a folder: the text, and the lines of each file."""
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
            told = "# Lists of values, one a line, in files beside this one: review them too.\n"
            parts.append(told + "[lists]\n" + "".join(write_entry(write_key(key), file) for key, file in lists.items()))
        for comment, name, entry in self.columns:
            if entry is None:
                parts.append(comment)
                continue
            shown = {**entry, "values": names[name]} if name in names else entry
            parts.append(comment + write_column(name, shown))
        return "\n".join(parts)


def draft(data: pa.Table, name: str, dialect: Dialect | None = None) -> str:
    """Return a commented TOML schema that loads, and into which this table encodes; `name` is for the heading.

    With a dialect the columns are text, as a file holds it, and their types are guesses from its rows.
    """
    return sketch_schema(data, name, dialect).inline()


def sketch_schema(data: pa.Table, name: str, dialect: Dialect | None = None, *, frame: bool = False) -> Draft:
    """Return the draft of a table before it is written; `frame` says that it comes from a data frame."""
    require_distinct(data.column_names)
    columns: list[tuple[str, str, Mapping[str, Any] | None]] = []
    people = []
    for field, column in zip(data.schema, data.columns, strict=True):
        found = _guess_column(field.name, column, dialect, frame) if field.name else None
        if found is not None:
            columns.append((f"# {found.reason}\n", field.name, found.entry))
            people += [field.name] if found.repeats else []
            continue
        why = f"{_one_line(field.name)}, for no kind fits {field.type}" if field.name else "a column without a name"
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
    """Write a suggestion for the privacy unit: as comments, for no row tells whether an id is a person's."""
    likely = likely_units(people)
    told = _REPEATS.format(names=" or ".join(map(_one_line, likely))) if likely else ""
    unit = write_entry("unit", likely[0] if likely else "person_id")
    return f"{told}# {unit}# {write_entry('rows_per_unit', 5)}"


def _one_in_a_line(value: Any) -> bool:
    """Whether a value can stand in a line of its own, and be read again as it is."""
    return isinstance(value, str) and bool(value) and value.splitlines() == [value] and not value.startswith("\ufeff")


def _number_file_name(stem: str, number: int) -> str:
    return f"{stem}.txt" if number == 1 else f"{stem}_{number}.txt"


def _one_line(text: str) -> str:
    return " ".join(text.split())
