"""The review of a draft: what is left of it, and what may be done about each fact that was read from private rows."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.drafting.editing import set_keys
from weft.errors import SchemaError
from weft.schema.kinds import KINDS, column_from_dict
from weft.schema.lists import with_lists

MEANINGS = {
    "kind": "what the column is, and how it is written",
    "range": "the smallest and the largest possible value",
    "values": "every value that is possible",
    "missing": "whether a value may be missing, and what stands for a missing one",
    "outside": "what becomes of a value that the schema does not know",
    "step": "the distance between possible values",
    "special": "values that stand apart, with a code of their own",
    "decimals": "digits after the point",
    "format": "how dates and times are written",
    "pattern": "how ids are written",
    "edges": "where bins begin and end",
}
"""What each fact says, in words."""

FOUND = {
    "category": ("kind", "values"),
    "integer": ("kind", "range"),
    "real": ("kind", "range"),
    "datetime": ("kind", "range"),
}
"""Facts that can be found privately, for a share of the budget, by the kind of their column."""


@dataclass(frozen=True)
class Fact:
    """Something that a draft says of a column and that was read from private rows."""

    column: str
    name: str
    value: Any
    """What the draft says (None: nothing, which was read from the rows too)."""
    kind: str

    @property
    def private(self) -> bool:
        """Whether it can be left out of the schema and found privately."""
        return self.name in FOUND.get(self.kind, ())


class Review:
    """A schema file under review. Each step gives its text anew; whatever nobody touched stays as it was."""

    def __init__(self, text: str, source: str = "draft", folder: Path | None = None) -> None:
        self.text, self._source, self._folder = text, source, folder
        self._columns()

    def facts(self, names: Collection[str] = (), columns: Collection[str] = ()) -> list[Fact]:
        """Return what is left to review: all of it, or these facts of these columns."""
        entries = self._columns()
        for column in columns:
            self.entry(column)
        left = []
        for column, entry in entries.items():
            for name in entry.get("from_data", ()):
                if (not names or name in names) and (not columns or column in columns):
                    left.append(Fact(column, name, entry.get(name), str(entry.get("kind"))))
        return left

    @property
    def beside(self) -> bool:
        """Whether lists of the schema stand in files beside it."""
        lists = tomllib.loads(self.text).get("lists", {})
        return isinstance(lists, dict) and not all(isinstance(each, list) for each in lists.values())

    def entry(self, column: str) -> Mapping[str, Any]:
        """Return what the schema says of a column."""
        entries = self._columns()
        if column not in entries:
            raise SchemaError(f'{self._source} has no column "{column}"')
        return entries[column]

    def accept(self, fact: Fact) -> None:
        """Take a fact for public: known without looking at the rows."""
        self._change(fact.column, {}, (fact.name,))

    def edit(self, column: str, **facts: Any) -> None:
        """Replace facts of a column by what is publicly known."""
        entry = dict(self.entry(column))
        changes: dict[str, Any] = dict(facts)
        if "kind" in facts and facts["kind"] != entry.get("kind"):
            known = _keys(str(facts["kind"]))
            changes |= {key: None for key in entry if key not in known and key != "from_data"}
        if "values" in facts:
            changes["other"] = None if entry.get("other") not in (*facts["values"], None) else entry.get("other")
        self._change(column, changes, tuple(facts), check=True)

    def make_private(self, fact: Fact) -> None:
        """Leave a fact out, so that it is found privately when the table is synthesised, for a share of the budget."""
        if not fact.private:
            raise SchemaError(f'column "{fact.column}": {fact.name} cannot be found privately; accept it, or edit it')
        if fact.name == "kind":
            entry = self.entry(fact.column)  # whatever was said of it goes with its kind
            self._change(fact.column, dict.fromkeys(entry) | {"kind": "unknown"}, tuple(entry.get("from_data", ())))
            return
        gone = {"values": ("values", "other", "outside"), "range": ("range", "step")}[fact.name]
        self._change(fact.column, dict.fromkeys(gone), gone)

    def _change(self, column: str, changes: Mapping[str, Any], known: Collection[str], check: bool = False) -> None:
        entry = self.entry(column)
        marks = [mark for mark in entry.get("from_data", ()) if mark not in known and changes.get(mark, "") is not None]
        if "kind" in changes and changes["kind"] in KINDS:
            marks = [mark for mark in marks if mark in _keys(str(changes["kind"]))]
        if "from_data" in entry:
            changes = {**changes, "from_data": marks or None}
        changed = {key: value for key, value in {**entry, **changes}.items() if value is not None}
        if check and not _partial(changed):
            document = with_lists({**tomllib.loads(self.text), "columns": {column: changed}}, self._folder)
            column_from_dict(column, document["columns"][column])
        self.text = set_keys(self.text, column, changes)

    def _columns(self) -> dict[str, dict[str, Any]]:
        try:
            document = tomllib.loads(self.text)
        except (ValueError, RecursionError):
            raise SchemaError(f"{self._source} is not TOML; `weft schema check` shows where") from None
        columns = document.get("columns")
        if not isinstance(columns, dict) or not all(isinstance(entry, dict) for entry in columns.values()):
            raise SchemaError(f"{self._source} has no tables such as [columns.age]; draft or import a schema first")
        return columns


def _keys(kind: str) -> tuple[str, ...]:
    if kind not in KINDS:
        raise SchemaError(f'"{kind}" is no kind of column; known are {", ".join(KINDS)}')
    return KINDS[kind].fact_names()


def _partial(entry: Mapping[str, Any]) -> bool:
    """Whether an entry leaves out what is then found privately."""
    needed = FOUND.get(str(entry.get("kind")), ())[1:]
    return bool(needed) and not any(key in entry for key in (*needed, "edges", "other", "after", "pieces"))
