"""What a person should know about a schema before paying for anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from weft.display import format_count
from weft.encoding.codec import Codec
from weft.encoding.column_groups import ColumnGroup
from weft.io.text_to_types import csv_arrow_schema
from weft.schema.column_names import likely_units
from weft.schema.kinds import Column, Integer, Real
from weft.schema.schema import Schema

MAX_CODES_WITHOUT_WARNING = 10_000
WIDE_BIN = 10
"""Possible values in each bin of equal width from which a check warns."""


@dataclass(frozen=True)
class SchemaFinding:
    """One thing worth telling, about a column or (None) about the whole."""

    level: Literal["info", "warning"]
    column: str | None
    text: str


def review_schema(schema: Schema, arrow_schema: pa.Schema | None = None) -> list[SchemaFinding]:
    """Check a schema against a table's types (None: those it would give a CSV); SchemaError if they do not fit.

    Only public facts are read and told: the schema's, never the rows'.
    """
    codec = Codec(schema, csv_arrow_schema(schema) if arrow_schema is None else arrow_schema)
    findings = []
    for column in schema.columns:
        if not column.read:
            findings.append(SchemaFinding("info", column.name, "derived: follows from others, never measured"))
        elif not column.modelled:
            findings.append(SchemaFinding("info", column.name, "id: made anew, not modelled"))
        else:
            part = codec.part_of(column.name)
            if isinstance(part, ColumnGroup):
                size = part.domain.shape[0]
                counted_in = (
                    f"one attribute of {format_count(size, 'combination')} with "
                    f"{_name_other_columns(part, column.name)}"
                )
                findings.append(SchemaFinding("info", column.name, f"{column.kind}: {counted_in}"))
            elif column.name not in codec.domain:
                size = 0
                findings.append(SchemaFinding("info", column.name, f"{column.kind}: computed, not measured"))
            else:
                size = codec.domain.size(column.name)
                after = "".join(f' after "{name}"' for name in column.made_from)
                findings.append(SchemaFinding("info", column.name, f"{column.kind}{after}: {size:,} codes"))
            if size > MAX_CODES_WITHOUT_WARNING:
                advice = "take fewer bins, or fewer values and an other"
                findings.append(SchemaFinding("warning", column.name, f"{size:,} codes drown in noise; {advice}"))
            if (wide := _wide_bins(column)) is not None:
                findings.append(SchemaFinding("warning", column.name, wide))
            if size == 1:
                findings.append(SchemaFinding("warning", column.name, "only one code: nothing can be learned"))
        if column.from_data:
            findings.append(SchemaFinding("warning", column.name, _describe_unreviewed(column.from_data)))
    ids = likely_units([column.name for column in schema.columns if column.read and not column.modelled])
    if ids and schema.unit is None:
        findings.append(SchemaFinding("warning", None, f"each row is protected on its own; {_suggest_unit(ids)}"))
    findings += [SchemaFinding("info", None, rule) for rule in rule_lines(codec)]
    findings.append(SchemaFinding("info", None, f"about 10^{codec.domain.log10_size():.0f} possible records"))
    return findings


def _wide_bins(column: Column) -> str | None:
    """Warn of bins of equal width that are many values wide: where values crowd, all rows fall into one of them."""
    if not isinstance(column, Integer | Real) or not isinstance(column.bins, int):
        return None
    low, high = column.ends
    grain = column.step if isinstance(column, Integer) else 10.0 ** -(column.decimals or 0)
    if (high - low) / grain < WIDE_BIN * column.bins:
        return None
    return (
        f"its {column.bins} bins are of equal width, and swallow what is skewed, as counts and money are: leave "
        "bins out, and it is counted as finely as the budget allows"
    )


def rule_lines(codec: Codec) -> list[str]:
    """Say of each rule what it was compiled to, and what happens to input rows that break it."""
    return [
        f"rule {i}: {form.rule}: {form.text}; input rows that break it are {form.policy}"
        for i, form in enumerate(codec.forms, 1)
    ]


def _name_other_columns(part: ColumnGroup, name: str) -> str:
    return " and ".join(f'"{other}"' for other in part.columns if other != name) or "itself alone"


def _describe_unreviewed(facts: Sequence[str]) -> str:
    if len(facts) == 1:
        return f"{facts[0]} was read from private rows; confirm it from public knowledge, then remove the mark"
    listed = f"{', '.join(facts[:-1])} and {facts[-1]}"
    return f"{listed} were read from private rows; confirm them from public knowledge, then remove the marks"


def _suggest_unit(ids: Sequence[str]) -> str:
    if len(ids) == 1:
        return f'if "{ids[0]}" repeats for a person, set unit = "{ids[0]}" and rows_per_unit'
    listed = ", ".join(f'"{name}"' for name in ids[:5]) + (", ..." if len(ids) > 5 else "")
    return f"if one of {listed} repeats for a person, set unit to its name, and rows_per_unit"
