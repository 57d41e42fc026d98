"""What was found privately fills what was left open; what somebody has said of a column stays as it is."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from weft.drafting.editing import set_keys, set_top
from weft.drafting.review import FOUND
from weft.errors import SchemaError

_WITH = {"values": ("values", "other", "outside"), "range": ("range", "outside")}
"""What comes with a fact that was found: where values go that lie beyond it."""


def filled(text: str, found: str) -> str:
    """Return the schema with what was found of its open columns; rules, units and all that was said stay.

    What the search cost goes with it: costs of several searches add up.
    """
    mine, theirs = tomllib.loads(text), tomllib.loads(found)
    changes = _changes(mine, theirs)
    for column, keys in changes.items():
        text = set_keys(text, column, keys)
    if changes and "discovery" in theirs:
        before = mine.get("discovery", {"epsilon": 0.0, "delta": 0.0})
        text = set_top(text, {"discovery": {key: before[key] + theirs["discovery"][key] for key in before}})
    return text


def fills(text: str, found: str) -> list[str]:
    """Return the columns of a schema that are open, and of which something was found."""
    try:
        return list(_changes(tomllib.loads(text), tomllib.loads(found)))
    except (ValueError, SchemaError):
        return []


def _changes(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    columns, known = mine.get("columns", {}), theirs.get("columns", {})
    every = {name: _filling(entry, known[name]) for name, entry in columns.items() if name in known}
    return {name: keys for name, keys in every.items() if keys}


def _filling(entry: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that a column lacks, and of which it was found what they are."""
    kind = entry.get("kind")
    if found.get("kind") == "unknown":
        return {}
    if kind == "unknown":
        return dict.fromkeys(entry) | dict(found)
    if kind != found.get("kind") or any(key in entry for key in ("edges", "after", "pieces")):
        return {}
    paid = [key for key in FOUND.get(str(kind), ())[1:] if key not in entry and key in found.get("paid", ())]
    keys = {key: found[key] for fact in paid for key in _WITH[fact] if key in found and key not in entry}
    return keys | {"paid": [*entry.get("paid", ()), *paid]} if paid else {}
