"""Compute the report's figures of values, which codes do not show: numbers, dates, rules, and rows per person.

Numbers and dates are compared by mean, quantiles, round numbers, weekdays and months. They are computed from the values
of two Arrow tables, not from codes, so that differences within a bin are included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.encoding import Codec, count_broken_rows
from weft.evaluation.report.report_codes import Floats
from weft.evaluation.report.report_figures import Agreement, Beside, NumberFigures, PeopleFigures, RuleFigures
from weft.schema import Schema
from weft.schema.kinds import Column, Datetime
from weft.values.storage import decode_dictionary
from weft.values.text_numbers import is_text, read_floats, read_moments

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
"""Quantile levels that are compared: the deciles and one in the tail."""

GRAINS = (1.0, 5.0, 10.0, 100.0, 1000.0)
"""Numbers whose multiples are considered round."""

_NUMBERS = ("integer", "real", "derived")
_EPOCHS = {"epoch": 1.0, "epoch_ms": 1000.0}
_DAY = 86_400.0
_MONDAY = 3  # days from a Monday to 1970-01-01


def number_figures(schema: Schema, synth: pa.Table, real: pa.Table | None = None) -> tuple[NumberFigures, ...]:
    """Describe every column of numbers or dates. With `real`, compare both tables: PRIVATE."""
    made = []
    for column in schema.columns:
        before, after = (None if table is None else read_numbers(table, column) for table in (real, synth))
        if after is not None and len(after) and (real is None or (before is not None and len(before))):
            made.append(_summarise_numbers(column, before, after))
    return tuple(made)


def values_of(column: pa.ChunkedArray, *forms: str) -> Floats | None:
    """Return the numbers of a column, or its dates as seconds since 1970 in local time, without missing values.

    None if the column contains neither numbers nor dates.
    """
    array = decode_dictionary(column.combine_chunks())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if forms and pa.types.is_integer(array.type):
        array = array.cast(pa.string())
    if is_text(array.type):
        array = read_moments(array, *forms) if forms else pa.array(read_floats(array)[0])
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = pc.local_timestamp(array)
    if pa.types.is_date(array.type) or pa.types.is_timestamp(array.type):
        stamps = array.cast(pa.timestamp("us"), safe=False)
        values = stamps.cast(pa.int64()).drop_null().to_numpy(zero_copy_only=False) / 1e6
    elif pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):
        values = array.drop_null().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    else:
        return None
    held = np.asarray(values, np.float64)
    return np.asarray(held[np.isfinite(held)])


def measure_wasserstein(real: Floats, synth: Floats) -> float:
    """Compute the Wasserstein distance between two samples."""
    places = np.sort(np.concatenate([real, synth]))
    shares = [np.searchsorted(np.sort(values), places[:-1], side="right") / len(values) for values in (real, synth)]
    return float(np.sum(np.abs(shares[0] - shares[1]) * np.diff(places)))


def read_numbers(table: pa.Table, column: Column) -> Floats | None:
    """Return the numbers of a column; None if it has none, or if the schema lists its values."""
    if column.listed is not None or column.name not in table.column_names:
        return None
    held = table.column(column.name)
    if not isinstance(column, Datetime):
        counted = column.kind in _NUMBERS and not pa.types.is_temporal(held.type)
        return values_of(held) if counted else None
    if column.format in _EPOCHS:
        seconds = values_of(held)
        return None if seconds is None else seconds / _EPOCHS[column.format]
    return values_of(held, *column.spellings)


def _summarise_numbers(column: Column, real: Floats | None, synth: Floats) -> NumberFigures:
    def beside(measure: Callable[[Floats], Sequence[float]]) -> tuple[Beside, ...]:
        after = measure(synth)
        before: Sequence[float | None] = [None] * len(after) if real is None else measure(real)
        return tuple(zip(before, after, strict=True))

    dates = isinstance(column, Datetime)
    mean, sd = beside(lambda values: (float(values.mean()), float(values.std())))
    grain, round_share = _choose_grain([] if dates else list(zip(GRAINS, beside(count_round_numbers), strict=True)))
    return NumberFigures(
        column.name,
        dates,
        mean,
        sd,
        LEVELS,
        beside(lambda values: np.quantile(values, LEVELS).tolist()),
        None if real is None else measure_wasserstein(real, synth),
        grain,
        round_share,
        beside(_compute_weekday_shares) if dates else (),
        beside(_compute_month_shares) if dates else (),
    )


def count_round_numbers(values: Floats) -> list[float]:
    """Compute the share of the multiples of each of `GRAINS`."""
    return [float(np.mean(values % grain == 0)) for grain in GRAINS]


def _compute_weekday_shares(seconds: Floats) -> list[float]:
    """Compute the shares of Monday to Sunday."""
    days = (seconds // _DAY).astype(np.int64) + _MONDAY
    shares: list[float] = (np.bincount(days % 7, minlength=7) / len(seconds)).tolist()
    return shares


def _compute_month_shares(seconds: Floats) -> list[float]:
    stamps = pa.array((seconds * 1e6).astype(np.int64)).cast(pa.timestamp("us"))
    months = pc.month(stamps).to_numpy(zero_copy_only=False)
    shares: list[float] = (np.bincount(months, minlength=13)[1:] / len(seconds)).tolist()
    return shares


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
