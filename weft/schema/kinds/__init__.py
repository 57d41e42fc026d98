"""Registry of the kinds of column; each kind has its own file."""

from dataclasses import fields, replace
from typing import Any

from weft.schema.kinds.boolean import Boolean as Boolean
from weft.schema.kinds.category import Category as Category
from weft.schema.kinds.datetime import Datetime as Datetime
from weft.schema.kinds.derived import Derived as Derived
from weft.schema.kinds.duration import Duration as Duration
from weft.schema.kinds.identifier import Id as Id
from weft.schema.kinds.integer import Integer as Integer
from weft.schema.kinds.kind import Column as Column
from weft.schema.kinds.kind import ColumnError as ColumnError
from weft.schema.kinds.kind import format_alternatives
from weft.schema.kinds.kind import suggest_known_word as suggest_known_word
from weft.schema.kinds.real import Real as Real
from weft.schema.kinds.time_of_day import Time as Time
from weft.schema.kinds.unknown import Unknown as Unknown
from weft.schema.kinds.unknown import is_partial
from weft.values.text_numbers import Marker, write_marker

KINDS: dict[str, type[Column]] = {
    c.kind: c for c in (Boolean, Datetime, Time, Duration, Id, Integer, Real, Category, Derived)
}
"""All kinds by name, in the order in which a draft tries to recognise a column."""


def column_from_dict(name: str, entry: Any) -> Column:
    """Make a column from plain values; raise ColumnError for invalid keys."""
    if not isinstance(entry, dict):
        raise ColumnError(name, 'must be a table with a kind, such as kind = "category"')
    kind = entry.get("kind")
    if kind == Unknown.kind and len(entry) == 1:
        return Unknown(name)
    if not isinstance(kind, str) or kind not in KINDS:
        near = suggest_known_word(kind, KINDS) if isinstance(kind, str) else ""
        raise ColumnError(
            name,
            f"kind must be {format_alternatives([*KINDS, Unknown.kind])}.{near}",
            "kind" if "kind" in entry else None,
        )
    spelling = KINDS[kind].spelling
    known = {spelling.get(f.name, f.name): f.name for f in fields(KINDS[kind]) if f.name not in KINDS[kind].unspelled}
    for key in entry:
        if key != "kind" and key not in known:
            near = suggest_known_word(key, known) or f" Known keys are {', '.join(known)}."
            raise ColumnError(name, f'unknown key "{key}" for kind {kind}.{near}', key)
    if is_partial(entry):
        return Unknown(name, stated=tuple((key, _freeze_value(value)) for key, value in entry.items()))
    given = {known[key]: _freeze_value(value) for key, value in entry.items() if key != "kind"}
    if isinstance(given.get("missing"), tuple):
        if not given["missing"]:
            raise ColumnError(name, "missing must list at least one marker, or be true or false", "missing")
        given |= {"missing": True, "markers": given["missing"]}
    if given.get("other") is not None:
        given.setdefault("outside", "other")  # declaring the value implies the policy
    return KINDS[kind](name, **given)


def add_markers(column: Column, markers: tuple[Marker, ...]) -> Column:
    """Add markers of missing values to a column that allows them, except where it lists them as values."""
    known = {
        write_marker(value) for value in (*(column.listed or ()), *column.markers, *getattr(column, "special", ()))
    }
    added = tuple(marker for marker in dict.fromkeys(markers) if write_marker(marker) not in known)
    return replace(column, markers=(*column.markers, *added)) if column.missing and added else column


def _freeze_value(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_freeze_value(item) for item in value)
    # Native TOML dates are stored as text.
    return value.isoformat() if hasattr(value, "isoformat") else value
