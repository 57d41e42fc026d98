"""Compute the report's figures of values, which codes do not show: numbers, dates, rules, and rows per person."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.encoding import Codec, count_broken_rows
from weft.evaluation.metrics.number_summaries import (
    LEVELS,
    NumberComparison,
    Summary,
    compare_numbers,
    describe_numbers,
)
from weft.evaluation.report.report_codes import Floats
from weft.evaluation.report.report_figures import Agreement, Beside, NumberFigures, PeopleFigures, RuleFigures
from weft.schema import Schema
from weft.values.storage import decode_dictionary
from weft.values.text_numbers import is_text


def number_figures(schema: Schema, synth: pa.Table, real: pa.Table | None = None) -> tuple[NumberFigures, ...]:
    """Describe every column of numbers or dates. With `real`, compare both tables: PRIVATE."""
    if real is None:
        return tuple(_make_described_figures(found) for found in describe_numbers(synth, schema))
    return tuple(_make_compared_figures(found) for found in compare_numbers(real, synth, schema))


def rule_figures(codec: Codec, synth: pa.Table, real: pa.Table | None = None) -> tuple[RuleFigures, ...]:
    """Count the rows that break each rule. With `real` (PRIVATE), also private rows, for rules that keep them."""
    if not codec.forms:
        return ()
    after = count_broken_rows(synth, codec.schema)
    before = {} if real is None else count_broken_rows(real, codec.schema)
    return tuple(
        RuleFigures(
            str(form.rule),
            form.rule.columns,
            form.policy,
            count,
            before.get(named) if form.rule.policy == "keep" else None,
        )
        for form, (named, count) in zip(codec.forms, after.items(), strict=True)
    )


def _make_compared_figures(found: NumberComparison) -> NumberFigures:
    grain, share = _choose_grain([(grain, (a, b)) for grain, a, b in found.round_share])
    return NumberFigures(
        found.column,
        found.dates,
        found.means,
        found.sds,
        LEVELS,
        found.quantiles,
        found.wasserstein,
        grain,
        share,
        found.weekdays,
        found.months,
    )


def _make_described_figures(found: Summary) -> NumberFigures:
    grain, share = _choose_grain([(grain, (None, part)) for grain, part in found.round_share])
    return NumberFigures(
        found.column,
        found.dates,
        (None, found.mean),
        (None, found.sd),
        LEVELS,
        tuple((None, value) for value in found.quantiles),
        None,
        grain,
        share,
        tuple((None, share) for share in found.weekdays),
        tuple((None, share) for share in found.months),
    )


def _choose_grain(shares: Sequence[tuple[float, Beside]]) -> tuple[float | None, Beside]:
    """Return the grain with the most informative share of multiples: different in the tables, or near one half."""

    def tells(found: tuple[float, Beside]) -> float:
        before, after = found[1]
        seen = (after if before is None else before) or 0.0
        return seen * (1 - seen) + abs((after or 0.0) - seen)

    return max(shares, key=tells) if shares else (None, (None, None))


def people_figures(schema: Schema, synth: pa.Table, real: pa.Table | None = None) -> PeopleFigures | None:
    """Compare the number of rows per person and per-person constants; None if everyone has one row.

    PRIVATE with `real`. Numbers of rows are capped at the contribution bound, as when the model was fitted.
    """
    if schema.unit is None or schema.rows_per_unit == 1:
        return None
    sizes = [None if table is None else _count_person_rows(table, schema.unit) for table in (real, synth)]
    before, after = (None if found is None else _compute_size_shares(found, schema.rows_per_unit) for found in sizes)
    agree = [_measure_agreement(table, schema) for table in (real, synth)]
    return PeopleFigures(
        schema.unit,
        schema.rows_per_unit,
        None if sizes[0] is None else len(sizes[0]),
        0 if sizes[1] is None else len(sizes[1]),
        None if before is None else tuple(before.tolist()),
        () if after is None else tuple(after.tolist()),
        tuple(Agreement(name, agree[0].get(name), agree[1].get(name)) for name in schema.per_unit),
    )


def _count_person_rows(table: pa.Table, unit: str) -> Floats:
    """Return the number of rows of each person; rows without an identifier are ignored."""
    counts = pc.value_counts(_read_person_ids(table, unit).drop_null()).field("counts")
    return np.asarray(counts.to_numpy(zero_copy_only=False), np.float64)


def _compute_size_shares(sizes: Floats, most: int) -> Floats:
    """Compute the shares of people with 1, 2, ..., `most` rows."""
    held = np.minimum(sizes, most).astype(np.int64)
    return np.asarray(np.bincount(held, minlength=most + 1)[1:] / max(len(held), 1), np.float64)


def _measure_agreement(table: pa.Table | None, schema: Schema) -> dict[str, float]:
    """Compute, by column, the share of the people with several rows for whom it is constant."""
    if table is None or schema.unit is None or not schema.per_unit:
        return {}
    columns = {name: decode_dictionary(table.column(name).combine_chunks()) for name in schema.per_unit}
    held = pa.table(columns).append_column("", _read_person_ids(table, schema.unit))  # no column has an empty name
    held = held.filter(pc.is_valid(held.column("")))
    every = pc.CountOptions(mode="all")
    found = held.group_by("").aggregate([("", "count"), *((name, "count_distinct", every) for name in columns)])
    several = found.filter(pc.greater(found.column("_count"), 1))
    if not len(several):
        return {}
    return {name: float(pc.mean(pc.equal(several.column(f"{name}_count_distinct"), 1)).as_py()) for name in columns}


def _read_person_ids(table: pa.Table, unit: str) -> pa.Array:
    """Return the person identifier of each row; null if it is missing."""
    ids = decode_dictionary(table.column(unit).combine_chunks())
    if is_text(ids.type):
        ids = ids.cast(pa.large_string())
        return pc.if_else(pc.equal(ids, ""), None, ids)
    return pc.if_else(pc.is_nan(ids), None, ids) if pa.types.is_floating(ids.type) else ids
