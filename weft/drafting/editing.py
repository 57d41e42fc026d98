"""Changes to a schema file in place: lines of one column's table, and nothing else of the text."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from weft.errors import SchemaError
from weft.schema.toml import header_of, key_of, write_entry


def set_keys(text: str, column: str, changes: Mapping[str, Any]) -> str:
    """Return the text with keys of a column's table set to other values, or taken out (None).

    >>> print(set_keys('[columns.n]  # a count\\nkind = "integer"\\nrange = [3, 8]\\n', "n", {"range": [0, 9]}), end="")
    [columns.n]  # a count
    kind = "integer"
    range = [0, 9]
    """
    lines = text.splitlines(keepends=True)
    first, end = _table(lines, column)
    return _set(lines, changes, first + 1, end)


def set_top(text: str, changes: Mapping[str, Any]) -> str:
    """Return the text with keys of the file itself, before its first table, set to other values or taken out (None).

    >>> print(set_top('unit = "who"\\n[columns.n]\\n', {"unit": "person", "rows_per_unit": 3}), end="")
    unit = "person"
    rows_per_unit = 3
    [columns.n]
    """
    lines = text.splitlines(keepends=True)
    end = next((number for number, line in enumerate(lines) if header_of(line) is not None), len(lines))
    return _set(lines, changes, 0, end)


def without_item(text: str, name: str, index: int) -> str:
    """Return the text without one of the tables [[name]].

    >>> without_item("[[rules]]\\na = 1\\n[[rules]]\\nb = 2\\n", "rules", 0)
    '[[rules]]\\nb = 2\\n'
    """
    lines = text.splitlines(keepends=True)
    headers = [(number, header) for number, line in enumerate(lines) if (header := header_of(line)) is not None]
    items = [place for place, (_, header) in enumerate(headers) if header == (name,)]
    if not 0 <= index < len(items):
        raise SchemaError(f"there is no such table in {name}")
    later = [number for number, header in headers[items[index] + 1 :] if header[:1] != (name,) or header == (name,)]
    del lines[headers[items[index]][0] : later[0] if later else len(lines)]
    return "".join(lines)


def _set(lines: list[str], changes: Mapping[str, Any], first: int, end: int) -> str:
    places = {key: (start, stop) for key, start, stop in _entries(lines, first, end)}
    last = max((stop for _, stop in places.values()), default=first)
    for key in sorted(changes, key=lambda key: places.get(key, (last, last)), reverse=True):
        start, stop = places.get(key, (last, last))
        lines[start:stop] = [] if changes[key] is None else write_entry(key, changes[key]).splitlines(keepends=True)
    return "".join(lines)


def _table(lines: list[str], column: str) -> tuple[int, int]:
    """Return the line of a column's header, and the one after its table."""
    headers = [(number, header) for number, line in enumerate(lines) if (header := header_of(line)) is not None]
    for place, (number, header) in enumerate(headers):
        if header == ("columns", column):
            return number, headers[place + 1][0] if place + 1 < len(headers) else len(lines)
    raise SchemaError(f'column "{column}" has no table of its own; write it as a table such as [columns.age]')


def _entries(lines: list[str], first: int, end: int) -> Iterator[tuple[str, int, int]]:
    """Yield each key of a table, the line that it begins in, and the one after its value."""
    number = first
    while number < end:
        key, stop = key_of(lines[number]), number + 1
        if key is not None:
            while not _whole("".join(lines[number:stop])) and stop < end:
                stop += 1
            yield key, number, stop
        number = stop


def _whole(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True
