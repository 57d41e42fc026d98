"""Check a schema before any budget is spent."""

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
WIDE_BIN = 10  # possible values per bin of equal width above which a warning is given


@dataclass(frozen=True)
class SchemaFinding:
    """A finding about a column, or about the whole schema if `column` is None."""

    level: Literal["info", "warning"]
    column: str | None
    text: str


def review_schema(schema: Schema, arrow_schema: pa.Schema | None = None) -> list[SchemaFinding]:
    """Check a schema against the types of a table (default: those of a CSV); raise SchemaError if they do not fit.

    Privacy: only the schema is read, never the rows.
    """
    codec = Codec(schema, csv_arrow_schema(schema) if arrow_schema is None else arrow_schema)
    findings = []
    for column in schema.columns:
        if not column.read:
            findings.append(SchemaFinding("info", column.name, "derived: computed from other columns, never measured"))
        elif not column.modelled:
            findings.append(SchemaFinding("info", column.name, "id: generated, not modelled"))
        else:
            part = codec.part_of(column.name)
            if isinstance(part, ColumnGroup):
                size = part.domain.shape[0]
                others = " and ".join(f'"{name}"' for name in part.columns if name != column.name) or "itself alone"
                counted_in = f"one attribute of {format_count(size, 'combination')} with {others}"
                findings.append(SchemaFinding("info", column.name, f"{column.kind}: {counted_in}"))
            elif column.name not in codec.domain:
                size = 0
                findings.append(SchemaFinding("info", column.name, f"{column.kind}: computed, not measured"))
            else:
                size = codec.domain.size(column.name)
                after = "".join(f' after "{name}"' for name in column.made_from)
                findings.append(SchemaFinding("info", column.name, f"{column.kind}{after}: {size:,} codes"))
            if size > MAX_CODES_WITHOUT_WARNING:
                advice = "use fewer bins, or fewer values and set other"
                findings.append(SchemaFinding("warning", column.name, f"{size:,} codes: mostly noise; {advice}"))
            if (wide := _wide_bins(column)) is not None:
                findings.append(SchemaFinding("warning", column.name, wide))
            if size == 1:
                findings.append(SchemaFinding("warning", column.name, "only one code: there is nothing to model"))
        if column.from_data:
            findings.append(SchemaFinding("warning", column.name, _describe_unreviewed(column.from_data)))
    ids = likely_units([column.name for column in schema.columns if column.read and not column.modelled])
    if ids and schema.unit is None:
        findings.append(SchemaFinding("warning", None, f"the privacy unit is one row; {_suggest_unit(ids)}"))
    for i, form in enumerate(codec.forms, 1):
        told = f"rule {i}: {form.rule}: {form.text}; input rows that break it are {form.policy}"
        findings.append(SchemaFinding("info", None, told))
    findings.append(SchemaFinding("info", None, f"about 10^{codec.domain.log10_size():.0f} possible records"))
    return findings


def _wide_bins(column: Column) -> str | None:
    """Return a warning if bins of equal width are many values wide: skewed values may all fall into one bin."""
    if not isinstance(column, Integer | Real) or not isinstance(column.bins, int):
        return None
    low, high = column.ends
    grain = column.step if isinstance(column, Integer) else 10.0 ** -(column.decimals or 0)
    if (high - low) / grain < WIDE_BIN * column.bins:
        return None
    return (
        f"its {column.bins} bins are of equal width, too coarse for skewed values such as counts or amounts of money: "
        "omit bins to measure it as finely as the budget allows"
    )


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
