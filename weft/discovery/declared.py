"""What a declared type says of a column, before anything is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from weft.schema import Schema
from weft.schema.kinds import column_from_dict
from weft.values.instants import UNIT
from weft.values.text import is_text


def measures(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what shapes tell of a column whose type is declared: how finely its values are told."""
    return {key: value for key, value in entry.items() if key in ("decimals", "step", "missing")}


def declared_kind(arrow_type: pa.DataType) -> dict[str, Any]:
    """Return the kind that a declared type is, if it says so."""
    if pa.types.is_boolean(arrow_type):
        return {"kind": "boolean"}
    if pa.types.is_integer(arrow_type):
        return {"kind": "integer"}
    if pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type):
        return {"kind": "real"}
    if pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type):
        return {"kind": "datetime"}
    if pa.types.is_time(arrow_type):
        return {"kind": "time", "step": "1s"}
    if pa.types.is_duration(arrow_type):
        return {"kind": "duration"}
    return {}


def finest(arrow_type: pa.DataType) -> int:
    """Return the nanoseconds in one unit of lengths of time; in text they are told in seconds."""
    return UNIT[arrow_type.unit if pa.types.is_duration(arrow_type) else "s"]


def require_steps(entries: Mapping[str, Mapping[str, Any]], types: Callable[[Schema], pa.Schema]) -> None:
    """Refuse a stated step of lengths of time that is finer than the type in which a schema of them has them read."""
    spans = {n: entry for n, entry in entries.items() if entry.get("kind") == "duration" and "step" in entry}
    told = {n: {key: entry[key] for key in ("kind", "step", "type") if key in entry} for n, entry in spans.items()}
    columns = tuple(column_from_dict(n, {**entry, "range": ["0d", "1d"]}) for n, entry in told.items())
    if columns:
        read = types(Schema(columns, extra_columns="ignore"))
        for column in columns:
            column.coder(plain(read.field(column.name).type), nan=False)


def plain(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type of the values, however they are stored."""
    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


def holds_text(arrow_type: pa.DataType) -> bool:
    """Whether a type holds text, or nothing at all, in which text may come."""
    return is_text(plain(arrow_type)) or pa.types.is_null(plain(arrow_type))
