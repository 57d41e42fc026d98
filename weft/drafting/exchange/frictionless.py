"""Frictionless Table Schema, alone or in a Data Package."""

from collections.abc import Mapping
from typing import Any

from weft.drafting.exchange.column_metadata import JSON_TYPES, describe_columns, find_table, parse_bounds
from weft.schema.schema import Schema

NAME = "Frictionless"
_KINDS = {told: kind for kind, told in JSON_TYPES.items()} | {"date": "datetime", "year": "integer"}
_TYPES = JSON_TYPES | {"duration": "duration"}


def recognises(document: Mapping[str, Any]) -> bool:
    """Return whether a document has this format."""
    return isinstance(document.get("fields"), list) or isinstance(document.get("resources"), list)


def read(document: Mapping[str, Any], source: str, table: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the top-level keys and the column entries of the schema."""
    schema = document
    if "fields" not in document:
        named = {str(r.get("name")): r.get("schema") for r in document["resources"] if isinstance(r, dict)}
        schema = find_table(named, source, table)
    blanks = [word for word in schema.get("missingValues", []) if isinstance(word, str) and word]
    fields = [
        field for field in schema.get("fields", []) if isinstance(field, dict) and isinstance(field.get("name"), str)
    ]
    return {}, {field["name"]: _convert_field(field, blanks) for field in fields}


def _convert_field(field: Mapping[str, Any], blanks: list[str]) -> dict[str, Any]:
    limits = field.get("constraints") if isinstance(field.get("constraints"), dict) else {}
    assert isinstance(limits, dict)
    kind = _KINDS.get(str(field.get("type")))
    listed = limits.get("enum") or [
        each.get("value") if isinstance(each, dict) else each for each in field.get("categories", [])
    ]
    entry: dict[str, Any]
    if listed:
        entry = {"kind": "category", "values": listed}
    elif kind is None:
        return {"kind": "id" if limits.get("unique") is True else "unknown"}
    else:
        entry = {"kind": kind} | parse_bounds(kind, limits.get("minimum"), limits.get("maximum"))
        form = field.get("format")
        if isinstance(form, str) and "%" in form:
            entry["format"] = form
    if limits.get("required") is not True:
        listed_blanks = [word for word in blanks if word not in entry.get("values", ())]
        entry["missing"] = listed_blanks or True
    return entry


def write(schema: Schema, table: str) -> dict[str, Any]:
    """Return a Data Package with one table."""
    fields = []
    for each in describe_columns(schema):
        field: dict[str, Any] = {"name": each.name, "type": _TYPES.get(each.sort, "string")}
        if each.format:
            field["format"] = each.format
        limits: dict[str, Any] = {} if each.missing else {"required": True}
        if each.values is not None:
            whole = all(type(value) is int for value in each.values)
            field["type"] = "integer" if whole else "number" if all(type(v) is float for v in each.values) else "string"
            limits["enum"] = list(each.values)
        if each.sort == "id" and schema.unit is None:
            limits["unique"] = True
        if each.low is not None:
            limits |= {"minimum": each.low, "maximum": each.high}
        fields.append(field | ({"constraints": limits} if limits else {}))
    made = {"fields": fields, "missingValues": [""]}
    name = table.partition(".")[0].lower()
    return {"name": name, "resources": [{"name": name, "path": table, "schema": made}]}
