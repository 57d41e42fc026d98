"""Schemas of several tables on the studio's pages: a first guess from names, forms of keys and links, and a diagram."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tomli_w

from weft.errors import SchemaError

WIDE, TALL, APART = 190, 44, 90
"""Size of a box of the diagram, and the room between two boxes in a row."""

Names = Mapping[str, Sequence[str]]
"""The columns of each table."""


@dataclass(frozen=True)
class TableShown:
    """A table of the form."""

    name: str
    columns: Sequence[str]
    key: str
    link: str
    """Column that refers to the parent; empty for a root."""
    parent: str
    time: str
    most: str
    """Contribution bound; empty if it is not stated."""
    left: int = 0
    top: int = 0


def guess_database(tables: Names) -> str:
    """Return a first schema of related tables, from the names of tables and columns alone."""
    keys = {name: _guess_key(name, columns) for name, columns in tables.items()}
    parents = {name: list(_guess_parents(name, columns, keys)) for name, columns in tables.items()}
    used = {parent for found in parents.values() for _, parent in found}
    keys = {name: key if name in used else "" for name, key in keys.items()}  # a key that no table needs is a column
    form: dict[str, str] = {}
    for number, name in enumerate(tables):
        # Of several parents, the one that has most parents itself is the nearest.
        column, parent = max(parents[name], key=lambda found: len(parents[found[1]]), default=("", ""))
        form |= {f"key-{number}": keys[name], f"link-{number}": column, f"parent-{number}": parent}
    tops = [name for name in tables if keys[name] and not parents[name]]
    named = sorted(tops, key=lambda name: -sum(parent == name for each in parents.values() for _, parent in each))
    return change_links(tomli_w.dumps({"tables": {name: {} for name in tables}}), form | {"root": (*named, "")[0]})


def _guess_key(table: str, columns: Sequence[str]) -> str:
    one = table.lower().removesuffix("s")
    likely = ("id", table.lower(), one, *(f"{name}{end}" for name in (table.lower(), one) for end in ("_id", "id")))
    return next((column for column in columns if column.lower() in likely), "")


def _guess_parents(table: str, columns: Sequence[str], keys: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for other, key in keys.items():
        one = other.lower().removesuffix("s")
        likely = {other.lower(), one, f"{other.lower()}_id", f"{one}_id", *([] if key == "id" else [key.lower()])}
        column = next((each for each in columns if each.lower() in likely and each != keys[table]), None)
        if key and other != table and column is not None:
            yield column, other


def change_links(text: str, form: Mapping[str, str]) -> str:
    """Return the schema with root, keys, links, times and contribution bounds as in a form; the rest is kept."""
    document = _parse(text)
    document = {"root": form.get("root", ""), **{key: value for key, value in document.items() if key != "root"}}
    names = list(document["tables"])
    keys = {name: form.get(f"key-{number}", "") for number, name in enumerate(names)}
    for number, (name, entry) in enumerate(document["tables"].items()):
        public = [other for other in names if document["tables"][other].get("public")]
        links = {column: to for column, to in _links(entry).items() if to.partition(".")[0] in public}
        column, parent = form.get(f"link-{number}", ""), form.get(f"parent-{number}", "")
        most = form.get(f"most-{number}", "").strip()
        if bool(column) != bool(parent):
            raise SchemaError(f"{name}: choose both the column that refers to another table, and that table")
        if most and not most.isdigit():
            raise SchemaError(f"{name}: the maximum number of rows must be a whole number")
        if column and not keys[parent]:
            raise SchemaError(f"{name} refers to {parent}: choose the key of {parent}")
        facts = {
            "key": keys[name],
            "foreign_keys": links | ({column: f"{parent}.{keys[parent]}"} if column else {}),
            "max_children": int(most or 0) if column else 0,
            "time": form.get(f"time-{number}", ""),
        }
        kept = {key: value for key, value in entry.items() if key not in facts}
        document["tables"][name] = {key: value for key, value in facts.items() if value} | kept
    return tomli_w.dumps(document if document["root"] else {"tables": document["tables"]})


def list_tables(text: str, tables: Names) -> list[TableShown]:
    """Return the tables of a schema with their places in the diagram: each right of the table that it refers to."""
    entries = _parse(text)["tables"]
    links = {}
    for name, entry in entries.items():
        found = [(column, target.partition(".")[0]) for column, target in _links(entry).items()]
        links[name] = next((link for link in found if not entries.get(link[1], {}).get("public")), ("", ""))
    made, filled = [], dict[int, int]()
    for name, entry in entries.items():
        column, parent = links[name]
        depth, above = 0, parent
        while above and depth < len(entries):  # a cycle is refused, and drawn
            depth, above = depth + 1, links.get(above, ("", ""))[1]
        row = filled[depth] = filled.get(depth, -1) + 1
        place = depth * (WIDE + APART), row * (TALL + 26)
        most, time = str(entry.get("max_children", "")), entry.get("time", "")
        made.append(TableShown(name, tables.get(name, ()), entry.get("key", ""), column, parent, time, most, *place))
    return made


def read_root(text: str) -> str:
    """Return the column that identifies the person, as TABLE.COLUMN; empty if it is not chosen."""
    document = _parse(text)
    key = document["tables"].get(document.get("root"), {}).get("key")
    return f"{document['root']}.{key}" if key else ""


def _links(entry: Mapping[str, Any]) -> dict[str, str]:
    given = entry.get("foreign_keys", {})
    if isinstance(given, Mapping):
        return dict(given)
    pairs = (str(each).partition("->") for each in given)
    return {column.strip(): target.strip() for column, _, target in pairs}


def _parse(text: str) -> dict[str, Any]:
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError):
        raise SchemaError("the schema is not TOML: correct it as a file, below") from None
    if not isinstance(document.get("tables"), dict):
        raise SchemaError("the schema needs sections such as [tables.patients]")
    return document
