"""Column descriptions in terms that every metadata format supports."""

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.errors import SchemaError
from weft.schema.kinds import Category, Column, Datetime, Integer, Real, Time
from weft.schema.schema import Schema

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?")


JSON_TYPES = {name: name for name in ("integer", "boolean", "date", "datetime", "time")} | {"real": "number"}
"""Types of columns as Frictionless and CSVW name them; others are strings."""


def find_table(named: Mapping[str, Any], source: str, table: str | None) -> Mapping[str, Any]:
    """Return the schema of a table, by default of the only one; SchemaError if there is none."""
    found = named.get(table) if table is not None else next(iter(named.values())) if len(named) == 1 else None
    if not isinstance(found, dict):
        raise SchemaError(f"{source} has the tables {', '.join(named)}; name one that has a schema with --table")
    return found


@dataclass(frozen=True)
class Described:
    """A column of a released table."""

    name: str
    sort: str  # kind of the column; "date" for dates without time
    missing: bool
    values: tuple[Any, ...] | None = None
    low: Any = None
    high: Any = None
    format: str | None = None  # text format, as a strptime pattern


def describe_columns(schema: Schema) -> list[Described]:
    """Describe the columns of a table released with this schema."""
    return [_describe_column(column) for column in schema.columns if column.in_table]


def _describe_column(column: Column) -> Described:
    if isinstance(column, Category):
        return Described(column.name, "category", column.missing, values=column.values)
    if isinstance(column, Integer | Real | Datetime | Time) and column.after is None:
        low, high = column.extent
        day = isinstance(column, Datetime) and column.plain_date
        form = column.format if isinstance(column, Datetime | Time) else None
        if form is not None and "%" not in form:
            return Described(column.name, "integer", column.missing)  # seconds since 1970
        return Described(column.name, "date" if day else column.kind, column.missing, None, low, high, form)
    return Described(column.name, column.kind, column.missing)


def parse_bounds(kind: str, low: Any, high: Any) -> dict[str, Any]:
    """Return the range if both ends are given and valid for the kind, otherwise an empty entry."""
    if low is None or high is None:
        return {}
    ends = [_parse_bound(kind, low), _parse_bound(kind, high)]
    return {} if None in ends else {"range": ends}


def _parse_bound(kind: str, value: Any) -> Any:
    try:
        if kind == "integer":
            return int(str(value)) if float(value) == int(float(value)) else None
        if kind == "real":
            return float(value)
        if kind == "datetime" and _DATE.fullmatch(str(value)):
            dt.datetime.fromisoformat(str(value))
            return str(value).replace("T", " ")
        return str(value) if kind == "time" and re.fullmatch(r"\d{2}:\d{2}(:\d{2})?", str(value)) else None
    except (ValueError, OverflowError):
        return None
