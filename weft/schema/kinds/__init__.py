"""The kinds of column: one file each, and this list."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from weft.schema.kinds.base import Column, ColumnError, either, suggestion
from weft.schema.kinds.boolean import Boolean
from weft.schema.kinds.category import Category
from weft.schema.kinds.datetime import Datetime
from weft.schema.kinds.derived import Derived
from weft.schema.kinds.duration import Duration
from weft.schema.kinds.id import Id
from weft.schema.kinds.integer import Integer
from weft.schema.kinds.real import Real
from weft.schema.kinds.time import Time
from weft.values.markers import Marker, written

__all__ = [
    "KINDS",
    "Boolean",
    "Category",
    "Column",
    "ColumnError",
    "Datetime",
    "Derived",
    "Duration",
    "Id",
    "Integer",
    "Real",
    "Time",
    "column_from_dict",
    "marked",
    "suggestion",
]

KINDS: dict[str, type[Column]] = {
    c.kind: c for c in (Boolean, Datetime, Time, Duration, Id, Integer, Real, Category, Derived)
}
"""Every kind by name, in the order in which a draft asks them whether they recognise a column."""


def column_from_dict(name: str, entry: Any) -> Column:
    """Make a column from plain values, refusing keys that its kind does not know."""
    if not isinstance(entry, dict):
        raise ColumnError(name, 'must be a table with a kind, such as kind = "category"')
    kind = entry.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        near = suggestion(kind, KINDS) if isinstance(kind, str) else ""
        raise ColumnError(name, f"kind must be {either(KINDS)}.{near}", "kind" if "kind" in entry else None)
    spelling = KINDS[kind].spelling
    known = {spelling.get(f.name, f.name): f.name for f in fields(KINDS[kind]) if f.name not in KINDS[kind].unspelled}
    for key in entry:
        if key != "kind" and key not in known:
            near = suggestion(key, known) or f" Known are {', '.join(known)}."
            raise ColumnError(name, f'unknown key "{key}" for kind {kind}.{near}', key)
    given = {known[key]: _plain(value) for key, value in entry.items() if key != "kind"}
    if isinstance(given.get("missing"), tuple):
        if not given["missing"]:
            raise ColumnError(name, "missing must list at least one marker, or be true or false", "missing")
        given |= {"missing": True, "markers": given["missing"]}
    if given.get("other") is not None:
        given.setdefault("outside", "other")  # declaring the value is declaring the policy
    return KINDS[kind](name, **given)


def marked(column: Column, markers: tuple[Marker, ...]) -> Column:
    """Return a column with more markers of missing values, if it may be missing; those that it lists stay values."""
    known = {written(value) for value in (*(column.listed or ()), *column.markers, *getattr(column, "special", ()))}
    added = tuple(marker for marker in dict.fromkeys(markers) if written(marker) not in known)
    return replace(column, markers=(*column.markers, *added)) if column.missing and added else column


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    # TOML has dates of its own; they are kept as the text a person would write.
    return value.isoformat() if hasattr(value, "isoformat") else value
