"""Review a drafted schema: list the facts that were read from private rows, and accept, edit or remove each one."""

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import SchemaError
from weft.schema.kinds import KINDS, column_from_dict
from weft.schema.schema_file import header_of, key_of, write_entry
from weft.schema.value_lists import with_lists


def set_keys(text: str, column: str, changes: Mapping[str, Any]) -> str:
    """Return the text with keys of a column's table set to new values, or removed (None); other lines are unchanged.

    >>> print(set_keys('[columns.n]  # a count\\nkind = "integer"\\nrange = [3, 8]\\n', "n", {"range": [0, 9]}), end="")
    [columns.n]  # a count
    kind = "integer"
    range = [0, 9]
    """
    lines = text.splitlines(keepends=True)
    first, end = _find_column_table(lines, column)
    return _set_entries(lines, changes, first + 1, end)


def set_top(text: str, changes: Mapping[str, Any]) -> str:
    """Return the text with top-level keys, before the first table, set to new values or removed (None).

    >>> print(set_top('unit = "who"\\n[columns.n]\\n', {"unit": "person", "rows_per_unit": 3}), end="")
    unit = "person"
    rows_per_unit = 3
    [columns.n]
    """
    lines = text.splitlines(keepends=True)
    end = next((number for number, line in enumerate(lines) if header_of(line) is not None), len(lines))
    return _set_entries(lines, changes, 0, end)


def without_item(text: str, name: str, index: int) -> str:
    """Return the text without the table [[name]] at this index.

    >>> without_item("[[rules]]\\na = 1\\n[[rules]]\\nb = 2\\n", "rules", 0)
    '[[rules]]\\nb = 2\\n'
    """
    lines = text.splitlines(keepends=True)
    headers = [(number, header) for number, line in enumerate(lines) if (header := header_of(line)) is not None]
    items = [place for place, (_, header) in enumerate(headers) if header == (name,)]
    if not 0 <= index < len(items):
        raise SchemaError(f"there is no table at this index in {name}")
    later = [number for number, header in headers[items[index] + 1 :] if header[:1] != (name,) or header == (name,)]
    del lines[headers[items[index]][0] : later[0] if later else len(lines)]
    return "".join(lines)


def _set_entries(lines: list[str], changes: Mapping[str, Any], first: int, end: int) -> str:
    places = {key: (start, stop) for key, start, stop in _iterate_entries(lines, first, end)}
    last = max((stop for _, stop in places.values()), default=first)
    for key in sorted(changes, key=lambda key: places.get(key, (last, last)), reverse=True):
        start, stop = places.get(key, (last, last))
        lines[start:stop] = [] if changes[key] is None else write_entry(key, changes[key]).splitlines(keepends=True)
    return "".join(lines)


def _find_column_table(lines: list[str], column: str) -> tuple[int, int]:
    """Return the first line of a column's table, and the line after it."""
    headers = [(number, header) for number, line in enumerate(lines) if (header := header_of(line)) is not None]
    for place, (number, header) in enumerate(headers):
        if header == ("columns", column):
            return number, headers[place + 1][0] if place + 1 < len(headers) else len(lines)
    raise SchemaError(f'column "{column}" has no table of its own; write it as a table such as [columns.age]')


def _iterate_entries(lines: list[str], first: int, end: int) -> Iterator[tuple[str, int, int]]:
    """Yield each key of a table, its first line, and the line after its value."""
    number = first
    while number < end:
        key, stop = key_of(lines[number]), number + 1
        if key is not None:
            while not _is_complete_toml("".join(lines[number:stop])) and stop < end:
                stop += 1
            yield key, number, stop
        number = stop


def _is_complete_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


MEANINGS = {
    "kind": "the kind of the column, and how its values are written",
    "range": "the smallest and the largest possible value",
    "values": "all possible values",
    "missing": "whether a value may be missing, and how a missing value is written",
    "outside": "how a value outside the schema is treated",
    "step": "the distance between possible values",
    "special": "special values, each with a code of its own",
    "decimals": "digits after the point",
    "format": "how dates and times are written",
    "pattern": "how ids are written",
    "edges": "the edges of the bins",
}

FOUND = {
    "category": ("kind", "values"),
    "integer": ("kind", "range"),
    "real": ("kind", "range"),
    "datetime": ("kind", "range"),
}
"""Facts that discovery can find, for a share of the budget, by the kind of the column."""


@dataclass(frozen=True)
class Fact:
    """A fact of a drafted column that was read from private rows."""

    column: str
    name: str
    value: Any  # value in the draft; None if the draft has none, which was read from the rows too
    kind: str

    @property
    def private(self) -> bool:
        """Whether the fact can be omitted from the schema and found by discovery."""
        return self.name in FOUND.get(self.kind, ())


class Review:
    """A schema file under review. Each step updates the text; lines that it does not concern are unchanged."""

    def __init__(self, text: str, source: str = "draft", folder: Path | None = None) -> None:
        self.text, self._source, self._folder = text, source, folder
        self._columns()

    def facts(self, names: Collection[str] = (), columns: Collection[str] = ()) -> list[Fact]:
        """Return the facts left to review, optionally only these facts of these columns."""
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
        """Whether value lists of the schema are in separate files."""
        lists = tomllib.loads(self.text).get("lists", {})
        return isinstance(lists, dict) and not all(isinstance(each, list) for each in lists.values())

    def entry(self, column: str) -> Mapping[str, Any]:
        """Return the schema entry of a column."""
        entries = self._columns()
        if column not in entries:
            raise SchemaError(f'{self._source} has no column "{column}"')
        return entries[column]

    def accept(self, fact: Fact) -> None:
        """Accept a fact as public: known without looking at the rows."""
        self._change(fact.column, {}, (fact.name,))

    def edit(self, column: str, **facts: Any) -> None:
        """Replace facts of a column by what is publicly known."""
        entry = dict(self.entry(column))
        changes: dict[str, Any] = dict(facts)
        if "kind" in facts and facts["kind"] != entry.get("kind"):
            known = _list_fact_keys(str(facts["kind"]))
            changes |= {key: None for key in entry if key not in known and key != "from_data"}
        if "values" in facts:
            changes["other"] = None if entry.get("other") not in (*facts["values"], None) else entry.get("other")
        self._change(column, changes, tuple(facts), check=True)

    def make_private(self, fact: Fact) -> None:
        """Omit a fact, so that discovery finds it during synthesis, for a share of the budget."""
        if not fact.private:
            raise SchemaError(f'column "{fact.column}": {fact.name} cannot be found by discovery; accept or edit it')
        if fact.name == "kind":
            entry = self.entry(fact.column)  # all other facts depend on the kind
            self._change(fact.column, dict.fromkeys(entry) | {"kind": "unknown"}, tuple(entry.get("from_data", ())))
            return
        gone = {"values": ("values", "other", "outside"), "range": ("range", "step")}[fact.name]
        self._change(fact.column, dict.fromkeys(gone), gone)

    def _change(self, column: str, changes: Mapping[str, Any], known: Collection[str], check: bool = False) -> None:
        entry = self.entry(column)
        marks = [mark for mark in entry.get("from_data", ()) if mark not in known and changes.get(mark, "") is not None]
        if "kind" in changes and changes["kind"] in KINDS:
            marks = [mark for mark in marks if mark in _list_fact_keys(str(changes["kind"]))]
        if "from_data" in entry:
            changes = {**changes, "from_data": marks or None}
        changed = {key: value for key, value in {**entry, **changes}.items() if value is not None}
        needed = FOUND.get(str(changed.get("kind")), ())[1:]  # facts that may be left to discovery
        complete = not needed or any(key in changed for key in (*needed, "edges", "other", "after", "pieces"))
        if check and complete:
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


def _list_fact_keys(kind: str) -> tuple[str, ...]:
    if kind not in KINDS:
        raise SchemaError(f'"{kind}" is not a kind of column; expected one of {", ".join(KINDS)}')
    return KINDS[kind].fact_names()
