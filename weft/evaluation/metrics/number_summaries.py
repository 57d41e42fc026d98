"""Compare numbers and dates by mean, quantiles, round numbers, weekdays and months.

Computed from the values of two Arrow tables, not from codes, so that differences within a bin are included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.schema import Schema
from weft.schema.kinds import Column, Datetime
from weft.values.storage import decode_dictionary
from weft.values.text_numbers import is_text, read_floats, read_moments

Floats = NDArray[np.float64]

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
"""Quantile levels that are compared: the deciles and one in the tail."""

GRAINS = (1.0, 5.0, 10.0, 100.0, 1000.0)
"""Numbers whose multiples are considered round."""

_NUMBERS = ("integer", "real", "derived")
_EPOCHS = {"epoch": 1.0, "epoch_ms": 1000.0}
_DAY = 86_400.0
_MONDAY = 3  # days from a Monday to 1970-01-01


@dataclass(frozen=True)
class Summary:
    """Summary of a column of numbers or dates in one table."""

    column: str
    dates: bool
    """Whether the numbers are seconds since 1970."""
    mean: float
    sd: float
    quantiles: tuple[float, ...]
    """At the levels of `LEVELS`."""
    round_share: tuple[tuple[float, float], ...]
    """Each of `GRAINS` with the share of its multiples."""
    weekdays: tuple[float, ...] = ()
    """Shares of Monday to Sunday."""
    months: tuple[float, ...] = ()


@dataclass(frozen=True)
class NumberComparison:
    """`Summary` of a column in two tables; the first of each pair is the reference."""

    column: str
    dates: bool
    means: tuple[float, float]
    sds: tuple[float, float]
    quantiles: tuple[tuple[float, float], ...]
    wasserstein: float
    """Mean distance by which values must be moved to turn one distribution into the other."""
    round_share: tuple[tuple[float, float, float], ...]
    """Each of `GRAINS` with the share of its multiples in both tables."""
    weekdays: tuple[tuple[float, float], ...] = ()
    months: tuple[tuple[float, float], ...] = ()


def compare_numbers(real: pa.Table, synth: pa.Table, schema: Schema) -> list[NumberComparison]:
    """Compare every column of numbers or dates."""
    made = []
    for column in schema.columns:
        pair = [_read_numbers(table, column) for table in (real, synth)]
        if pair[0] is not None and pair[1] is not None and len(pair[0]) and len(pair[1]):
            made.append(_compare_numbers(column, pair[0], pair[1]))
    return made


def describe_numbers(table: pa.Table, schema: Schema) -> list[Summary]:
    """Summarise every column of numbers or dates of one table."""
    found = [(column, _read_numbers(table, column)) for column in schema.columns]
    return [_summarise_numbers(column, values) for column, values in found if values is not None and len(values)]


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


def _read_numbers(table: pa.Table, column: Column) -> Floats | None:
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


def _compare_numbers(column: Column, real: Floats, synth: Floats) -> NumberComparison:
    a, b = (_summarise_numbers(column, values) for values in (real, synth))
    return NumberComparison(
        column.name,
        a.dates,
        (a.mean, b.mean),
        (a.sd, b.sd),
        tuple(zip(a.quantiles, b.quantiles, strict=True)),
        measure_wasserstein(real, synth),
        tuple((grain, x, y) for (grain, x), (_, y) in zip(a.round_share, b.round_share, strict=True)),
        tuple(zip(a.weekdays, b.weekdays, strict=True)),
        tuple(zip(a.months, b.months, strict=True)),
    )


def _summarise_numbers(column: Column, values: Floats) -> Summary:
    dates = isinstance(column, Datetime)
    days = (values // _DAY).astype(np.int64) + _MONDAY if dates else None
    return Summary(
        column.name,
        dates,
        float(values.mean()),
        float(values.std()),
        tuple(np.quantile(values, LEVELS).tolist()),
        () if dates else tuple((grain, float(np.mean(values % grain == 0))) for grain in GRAINS),
        () if days is None else tuple((np.bincount(days % 7, minlength=7) / len(values)).tolist()),
        tuple(_compute_month_shares(values).tolist()) if dates else (),
    )


def _compute_month_shares(seconds: Floats) -> Floats:
    stamps = pa.array((seconds * 1e6).astype(np.int64)).cast(pa.timestamp("us"))
    months = pc.month(stamps).to_numpy(zero_copy_only=False)
    return np.asarray(np.bincount(months, minlength=13)[1:] / len(seconds), np.float64)
