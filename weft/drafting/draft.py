"""A first schema, guessed from a file, for a person to review.

What it holds was read from private rows. Each such fact is marked in `from_data`, and a schema that still
carries a mark is refused where it matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from weft.drafting.guesses import guess
from weft.schema.naming import likely_units, require_distinct
from weft.schema.toml import write_column, write_entry
from weft.values.markers import Marker

_HEADER = """\
# Schema of {name}, drafted from the file itself. Review it before use.
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


def draft(
    data: pa.Table,
    name: str,
    words: Mapping[str, pa.ChunkedArray] | None = None,
    *,
    declared: bool = True,
    markers: Mapping[str, Sequence[Marker]] | None = None,
) -> str:
    """Return a commented TOML schema that loads, and into which this table encodes; `name` is for the heading.

    `words` are columns as written, where words in them such as NA were taken for missing values. `declared` says
    whether the table's types are the source's own; those of a CSV are guesses from its rows. `markers` are those of
    missing values that a column holds.
    """
    require_distinct(data.column_names)
    parts, people, skipped = [], [], False
    for field, column in zip(data.schema, data.columns, strict=True):
        written = (words or {}).get(field.name)
        found = guess(column, field.name, written, declared=declared) if field.name else None
        if found is not None:
            if found.entry.get("missing") is True and (markers or {}).get(field.name):
                found = replace(found, entry=found.entry | {"missing": list((markers or {})[field.name])})
            parts.append(f"# {found.reason}\n" + write_column(field.name, found.entry))
            people += [field.name] if found.repeats else []
            continue
        skipped = True
        why = (
            f"{_one_line(field.name)}, for its type {field.type} has no kind"
            if field.name
            else "a column without a name"
        )
        parts.append(f"# Left out: {why}.\n")
    extra = [write_entry("extra_columns", "ignore")] if skipped else []
    return "\n".join([_HEADER.format(name=name) + _unit(people), *extra, *parts])


def _unit(people: Sequence[str]) -> str:
    """Write a suggestion for the privacy unit: as comments, for no row tells whether an id is a person's."""
    likely = likely_units(people)
    told = _REPEATS.format(names=" or ".join(map(_one_line, likely))) if likely else ""
    unit = write_entry("unit", likely[0] if likely else "person_id")
    return f"{told}# {unit}# {write_entry('rows_per_unit', 5)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
