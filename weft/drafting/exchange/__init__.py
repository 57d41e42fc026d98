"""Import schemas from data dictionaries and metadata files, and export them.

Metadata is written by a person, so each fact is public. Facts that a format does not state are left out.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from weft.drafting.exchange import croissant, csvw, dictionary, frictionless, sdv
from weft.errors import SchemaError
from weft.schema.schema import Schema
from weft.schema.schema_file import write_toml

Entries = dict[str, dict[str, Any]]

EXPORTS: Mapping[str, Callable[[Schema, str], dict[str, Any]]] = {
    "frictionless": frictionless.write,
    "csvw": csvw.write,
    "croissant": croissant.write,
}
"""Export functions by format; arguments are the schema and the table name."""

_READ = (sdv, csvw, frictionless)
_KNOWN = "SDV metadata, Frictionless, CSVW, or a CSV with the columns column, description, type, values"


def read_metadata(path: Path, table: str | None = None) -> tuple[str, str]:
    """Return the TOML schema read from a metadata file, and its format; raise SchemaError if the format is unknown."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise SchemaError(f"{path} cannot be read as UTF-8 text") from None
    if not text.lstrip().startswith(("{", "[")):
        return _write_schema_text(dictionary.read(text, str(path)), dictionary.NAME, path), dictionary.NAME
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise SchemaError(f"{path}{line}: not JSON") from None
    for form in _READ:
        if isinstance(document, dict) and form.recognises(document):
            return _write_schema_text(form.read(document, str(path), table), form.NAME, path), form.NAME
    raise SchemaError(f"{path} has an unknown format; expected {_KNOWN}")


def _write_schema_text(found: tuple[dict[str, Any], Entries], form: str, path: Path) -> str:
    top, columns = found
    if not columns:
        raise SchemaError(f"{path} describes no columns")
    left = "Facts that it does not state are left out: add them, or leave them to discovery."
    head = f"# Read from {path.name} ({form}). {left}\n"
    return head + "\n" + write_toml({**top, "columns": columns})
