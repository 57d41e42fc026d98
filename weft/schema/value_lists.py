"""Lists of values that columns of a schema share: in its `[lists]`, or in a file beside it.

A list is read when the schema is, and each column then holds the values themselves: so does a model file, which needs
no other file.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.errors import SchemaError
from weft.schema.kinds.kind import ColumnError, suggest_known_word

_FORMS = 'must be values, such as ["a", "b"], or a file: "codes.txt", or {file = "codes.csv", column = "code"}'


class ListError(SchemaError):
    """A fault in one of the lists."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f'list "{name}" {text}')
        self.name = name


def with_lists(document: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    """Return a schema's document without its lists, their values in the columns that name them."""
    lists, columns = document.get("lists", {}), document.get("columns", {})
    if not isinstance(lists, Mapping):
        raise SchemaError('lists must be a table such as [lists], with lines such as codes = ["a", "b"]')
    rest = {key: value for key, value in document.items() if key != "lists"}
    if not isinstance(columns, Mapping):
        return rest
    read = {name: _read_list_values(name, given, folder) for name, given in lists.items()}
    made = {name: _resolve_list(name, entry, read) for name, entry in columns.items()}
    return rest | ({"columns": made} if "columns" in document else {})


def _resolve_list(column: str, entry: Any, lists: Mapping[str, Sequence[Any]]) -> Any:
    named = entry.get("values") if isinstance(entry, Mapping) else None
    if not isinstance(named, str):
        return entry
    if named not in lists:
        near = (
            suggest_known_word(named, lists) or ' Write [lists] and a line such as codes = ["a", "b"], or "codes.txt"'
        )
        raise ColumnError(column, f'values names the list "{named}", which is not there.{near}', "values")
    values = list(lists[named])
    if str(entry.get("type", "")).startswith(("int", "uint")) and all(isinstance(value, str) for value in values):
        try:
            values = [int(value) for value in values]
        except ValueError:
            raise ColumnError(column, f'the list "{named}" holds texts, but type is {entry["type"]}', "type") from None
    return {**entry, "values": values}


def _read_list_values(name: str, given: Any, folder: Path | None) -> list[Any]:
    if isinstance(given, list | tuple):
        return list(given)
    entry = {"file": given} if isinstance(given, str) else given
    if not isinstance(entry, Mapping) or not set(entry) <= {"file", "column"} or not isinstance(entry.get("file"), str):
        raise ListError(name, _FORMS)
    if folder is None:  # a model file holds its values itself, and may name no other file
        raise ListError(name, "must hold the values themselves")
    file, column = str(entry["file"]), entry.get("column")
    try:
        text = (folder / file).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        told = "which cannot be read as UTF-8 text; put it beside the schema"
        raise ListError(name, f'names the file "{file}", {told}') from None
    if column is None and not file.lower().endswith(".csv"):
        found = [line for line in text.replace("\r\n", "\n").split("\n") if line]
    else:
        found = _read_list_column(name, file, text, column)
    if not found:
        raise ListError(name, f'names the file "{file}", which holds no value')
    return found


def _read_list_column(name: str, file: str, text: str, column: Any) -> list[str]:
    try:
        header, *rows = [row for row in csv.reader(text.splitlines(keepends=True)) if row] or [[]]
    except csv.Error:
        raise ListError(name, f'names the file "{file}", which cannot be read as CSV') from None
    if column is not None and column not in header:
        near = suggest_known_word(str(column), header)
        raise ListError(name, f'names the column "{column}", which the first line of "{file}" does not.{near}')
    place = 0 if column is None else header.index(column)
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ListError(name, f'names the file "{file}", whose row {number} has not as many cells as its first')
    return list(dict.fromkeys(row[place] for row in rows if row[place]))
