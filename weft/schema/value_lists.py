"""Lists of values that several columns share: in `[lists]` of the schema file, or in a file in the same folder.

Lists are resolved when the schema is read, so that columns and model files contain the values themselves.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.errors import SchemaError
from weft.schema.kinds.kind import ColumnError, suggest_known_word

_FORMS = 'must be values, such as ["a", "b"], or a file: "codes.txt", or {file = "codes.csv", column = "code"}'


class ListError(SchemaError):
    """Error for an invalid list."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f'list "{name}" {text}')
        self.name = name


def with_lists(document: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    """Return a schema document in which the columns contain the values of the lists that they name."""
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
        raise ColumnError(column, f'values names the list "{named}", which does not exist.{near}', "values")
    values = list(lists[named])
    if str(entry.get("type", "")).startswith(("int", "uint")) and all(isinstance(value, str) for value in values):
        try:
            values = [int(value) for value in values]
        except ValueError:
            raise ColumnError(column, f'the list "{named}" holds text, but type is {entry["type"]}', "type") from None
    return {**entry, "values": values}


def _read_list_values(name: str, given: Any, folder: Path | None) -> list[Any]:
    if isinstance(given, list | tuple):
        return list(given)
    entry = {"file": given} if isinstance(given, str) else given
    if not isinstance(entry, Mapping) or not set(entry) <= {"file", "column"} or not isinstance(entry.get("file"), str):
        raise ListError(name, _FORMS)
    if folder is None:  # a model file is self-contained and must not refer to other files
        raise ListError(name, "must contain the values themselves")
    file, column = str(entry["file"]), entry.get("column")
    try:
        text = (folder / file).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        told = "which cannot be read as UTF-8 text; put it in the folder of the schema"
        raise ListError(name, f'names the file "{file}", {told}') from None
    if column is None and not file.lower().endswith(".csv"):
        found = [line for line in text.replace("\r\n", "\n").split("\n") if line]
    else:
        found = _read_list_column(name, file, text, column)
    if not found:
        raise ListError(name, f'names the file "{file}", which contains no value')
    return found


def _read_list_column(name: str, file: str, text: str, column: Any) -> list[str]:
    try:
        header, *rows = [row for row in csv.reader(text.splitlines(keepends=True)) if row] or [[]]
    except csv.Error:
        raise ListError(name, f'names the file "{file}", which cannot be read as CSV') from None
    if column is not None and column not in header:
        near = suggest_known_word(str(column), header)
        raise ListError(name, f'names the column "{column}", which is not in the first line of "{file}".{near}')
    place = 0 if column is None else header.index(column)
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ListError(name, f'names the file "{file}", whose rows 1 and {number} differ in length')
    return list(dict.fromkeys(row[place] for row in rows if row[place]))
