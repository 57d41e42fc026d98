"""CSV on the Web (CSVW): the metadata file of a CSV file."""

from collections.abc import Mapping
from typing import Any

from weft.drafting.exchange.column_metadata import JSON_TYPES, describe_columns, find_table, parse_bounds
from weft.schema.schema import Schema

NAME = "CSVW"
_CONTEXT = "http://www.w3.org/ns/csvw"
_WHOLE = (
    *("integer", "int", "long", "short", "byte", "gYear"),
    *("nonNegativeInteger", "positiveInteger", "negativeInteger", "nonPositiveInteger"),
    *("unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte"),
)
_KINDS = dict.fromkeys(_WHOLE, "integer") | {
    **dict.fromkeys(("number", "decimal", "double", "float"), "real"),
    "boolean": "boolean",
    **dict.fromkeys(("date", "datetime", "dateTime", "dateTimeStamp"), "datetime"),
    "time": "time",
}


def recognises(document: Mapping[str, Any]) -> bool:
    """Return whether a document has this format."""
    tables = document.get("tables")
    grouped = isinstance(tables, list) and any("tableSchema" in each for each in tables if isinstance(each, dict))
    return _CONTEXT in str(document.get("@context", "")) or "tableSchema" in document or grouped


def read(document: Mapping[str, Any], source: str, table: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the top-level keys and the column entries of the schema."""
    tables = document.get("tables", [document])
    named = {str(each.get("url")): each.get("tableSchema") for each in tables if isinstance(each, dict)}
    schema = find_table(named, source, table)
    columns = [each for each in schema.get("columns", []) if isinstance(each, dict) and not each.get("virtual")]
    return {}, {name: _make_entry(column) for column in columns if (name := _get_column_name(column))}


def _get_column_name(column: Mapping[str, Any]) -> str:
    """Return the title of a column, which is its name in the CSV header, or else its name."""
    titles = column.get("titles")
    titles = next(iter(titles.values()), None) if isinstance(titles, dict) else titles
    titles = titles[0] if isinstance(titles, list) and titles else titles
    found = titles if isinstance(titles, str) else column.get("name")
    return found if isinstance(found, str) else ""


def _make_entry(column: Mapping[str, Any]) -> dict[str, Any]:
    given = column.get("datatype")
    told = given if isinstance(given, dict) else {"base": given}
    kind = _KINDS.get(str(told.get("base")))
    if kind is None:
        return {"kind": "unknown"}
    ends = (told.get(f"{end}Inclusive", told.get(f"{end}imum")) for end in ("min", "max"))
    entry: dict[str, Any] = {"kind": kind} | parse_bounds(kind, *ends)
    blanks = column.get("null", "")
    words = [word for word in (blanks if isinstance(blanks, list) else [blanks]) if isinstance(word, str) and word]
    if column.get("required") is not True:
        entry["missing"] = words or True
    return entry


def write(schema: Schema, table: str) -> dict[str, Any]:
    """Return the metadata of one table."""
    columns = []
    for each in describe_columns(schema):
        kind: Any = JSON_TYPES.get(each.sort, "string")
        if each.values is not None:
            whole = all(type(value) is int for value in each.values)
            # CSVW supports no list of values: write them as a pattern.
            words = ("".join(f"\\{s}" if s in r"\.^$*+?()[]{}|-" else s for s in str(value)) for value in each.values)
            kind = "integer" if whole else {"base": "string", "format": "|".join(words)}
        elif each.low is not None and each.sort in ("integer", "real", "date"):
            kind = {"base": kind, "minimum": each.low, "maximum": each.high}
        columns.append({"name": each.name, "titles": each.name, "datatype": kind, "required": not each.missing})
    return {"@context": _CONTEXT, "url": table, "tableSchema": {"columns": columns}}
