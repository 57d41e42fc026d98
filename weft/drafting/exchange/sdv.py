"""SDV metadata in JSON, of one or several tables: `columns`, each with an `sdtype`."""

from collections.abc import Mapping
from typing import Any

from weft.errors import SchemaError

NAME = "SDV metadata"


def recognises(document: Mapping[str, Any]) -> bool:
    """Return whether a document has this format."""
    tables = document.get("tables")
    columns = next(iter(tables.values()), {}) if isinstance(tables, dict) else document
    listed = columns.get("columns") if isinstance(columns, dict) else None
    return isinstance(listed, dict) and any("sdtype" in entry for entry in listed.values() if isinstance(entry, dict))


def read(document: Mapping[str, Any], source: str, table: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the top-level keys and the column entries of the schema."""
    found = _find_table_metadata(document, source, table)
    return {}, {name: _convert_entry(entry) for name, entry in found["columns"].items()}


def _find_table_metadata(document: Mapping[str, Any], source: str, table: str | None) -> Mapping[str, Any]:
    tables = document.get("tables")
    if not isinstance(tables, dict):
        return document
    if table is None and len(tables) == 1:
        table = next(iter(tables))
    if table not in tables or "columns" not in tables[table]:
        raise SchemaError(f"{source} has the tables {', '.join(tables)}; name one with --table")
    return dict(tables[table])


def _convert_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    kind = entry.get("sdtype")
    if kind == "categorical":
        return {"kind": "category"}
    if kind == "boolean":
        return {"kind": "boolean"}
    if kind == "datetime":
        form = entry.get("datetime_format")
        return {"kind": "datetime"} | ({"format": form} if isinstance(form, str) and "%" in form else {})
    if kind == "numerical":
        whole = str(entry.get("computer_representation", "")).lower().startswith(("int", "uint"))
        return {"kind": "integer" if whole else "real"}
    # Ids, and types that SDV generates: names, addresses, phone numbers.
    return {"kind": "id"} if kind is not None else {"kind": "unknown"}
