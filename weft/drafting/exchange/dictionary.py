"""Data dictionary in CSV: one row per column, with its name, description, type and values.

Values are written `a|b|c`, with labels `1=yes; 2=no` (only the codes are kept), or as a range `0-120`.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from typing import Any

from weft.drafting.exchange.column_metadata import parse_bounds
from weft.errors import SchemaError

NAME = "data dictionary"
_NAMES = {
    "column": ("column", "name", "variable", "variable name", "field", "field name", "var"),
    "description": ("description", "label", "variable label", "meaning"),
    "type": ("type", "data type", "datatype", "kind", "format"),
    "values": ("values", "value labels", "codes", "categories", "allowed values", "range", "domain"),
    "missing": ("missing", "missing values", "missing codes"),
}
_KINDS = {
    "integer": ("int", "integer", "int64", "int32", "int16", "int8", "count", "whole number", "year", "long"),
    "real": ("real", "float", "float64", "number", "numeric", "double", "decimal", "continuous"),
    "boolean": ("bool", "boolean", "logical"),
    "datetime": ("date", "datetime", "timestamp", "datetime64[ns]"),
    "time": ("time",),
    "category": ("category", "categorical", "nominal", "ordinal", "factor", "code", "enum", "discrete"),
    "id": ("id", "identifier", "key"),
}
_NUMBER = r"[+-]?\d+(?:\.\d+)?"
_DATE = r"\d{4}-\d{2}-\d{2}"
_RANGE = re.compile(rf"\s*\[?\s*({_DATE}|{_NUMBER})\s*(?:\.\.+|-|\u2013|to|,)\s*({_DATE}|{_NUMBER})\s*\]?\s*")


def read(text: str, source: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the top-level keys and the column entries of the schema."""
    separator = max(",;\t", key=text.partition("\n")[0].count)
    try:
        rows = [row for row in csv.reader(text.splitlines(keepends=True), delimiter=separator, strict=True) if any(row)]
    except csv.Error:
        raise SchemaError(f"{source} is not valid CSV") from None
    places = _find_header_places(rows[0] if rows else [])
    if "column" not in places:
        raise SchemaError(f"{source}, line 1: expected a header with column, description, type and values")
    columns: dict[str, Any] = {}
    for number, row in enumerate(rows[1:], start=2):
        told = {key: row[place].strip() for key, place in places.items() if place < len(row)}
        name = told.get("column", "")
        if not name or name in columns:
            raise SchemaError(f"{source}, row {number}: the column name is missing or repeated")
        columns[name] = _parse_entry(told, f"{source}, row {number}")
    return {}, columns


def _find_header_places(header: Sequence[str]) -> dict[str, int]:
    words = [word.strip().lower().replace("_", " ") for word in header]
    found = {key: [words.index(name) for name in names if name in words] for key, names in _NAMES.items()}
    return {key: places[0] for key, places in found.items() if places}


def _parse_entry(told: Mapping[str, str], place: str) -> dict[str, Any]:
    word = told.get("type", "").lower()
    kind = next((kind for kind, words in _KINDS.items() if word in words), None)
    values = told.get("values", "")
    ends = _RANGE.fullmatch(values)
    entry: dict[str, Any] = {"kind": kind or "unknown"}
    if ends and kind in (None, "integer", "real", "datetime"):
        kind = kind or ("datetime" if "-" in ends[1][1:] else "real" if "." in ends[1] + ends[2] else "integer")
        entry = {"kind": kind} | parse_bounds(kind, ends[1], ends[2])
        if "range" not in entry:
            raise SchemaError(f"{place}: its values are not a valid range for type {word}")
    elif values and kind not in ("id", "boolean", "time"):
        entry = {"kind": "category", "values": _parse_codes(values, whole=kind == "integer")}
    if told.get("missing") and entry["kind"] not in ("id", "unknown"):
        entry["missing"] = _parse_codes(told["missing"], whole=False)
    return entry


def _parse_codes(text: str, whole: bool) -> list[Any]:
    sign = next((sign for sign in ("|", ";", "\n", ",") if sign in text), "|")
    words = [re.split(r"\s*[=:]\s*", word.strip(), maxsplit=1)[0] for word in text.split(sign) if word.strip()]
    words = list(dict.fromkeys(words))
    return [int(word) for word in words] if whole and all(re.fullmatch(r"[+-]?\d+", word) for word in words) else words
