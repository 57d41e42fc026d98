"""Numbers and dates as a person sees them: means, quantiles, round numbers, weekdays and months.

Computed from the values of two Arrow tables, not from codes: what happens inside a bin is what matters here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.schema import Schema
from weft.values.storage import decoded
from weft.values.text import is_text, read_floats, read_moments

Floats = NDArray[np.float64]

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
"""Quantiles that are compared."""

GRAINS = (1.0, 5.0, 10.0, 100.0, 1000.0)
"""Multiples of which numbers are called round."""

_DAY = 86_400.0
_MONDAY = 3  # days from a Monday to 1970-01-01


@dataclass(frozen=True)
class Numbers:
    """A column of numbers or dates in two tables; of each pair the first is the reference."""

    column: str
    dates: bool
    """Whether the numbers are seconds since 1970."""
    means: tuple[float, float]
    sds: tuple[float, float]
    quantiles: tuple[tuple[float, float], ...]
    """At the levels of `LEVELS`."""
    wasserstein: float
    """How far values have to be moved, on average, to turn one column into the other."""
    round_share: tuple[tuple[float, float, float], ...]
    """Grain, and the share of its multiples in both."""
    weekdays: tuple[tuple[float, float], ...] = ()
    """Shares of Monday to Sunday."""
    months: tuple[tuple[float, float], ...] = ()


def compare_numbers(real: pa.Table, synth: pa.Table, schema: Schema) -> list[Numbers]:
    """Compare every column of numbers or dates."""
    made = []
    for column in schema.columns:
        if column.modelled and column.name in real.column_names:
            pair = [values_of(table.column(column.name), column.text_format) for table in (real, synth)]
            if pair[0] is not None and pair[1] is not None and column.listed is None:
                dates = column.kind == "datetime"
                made.append(_numbers(column.name, dates, pair[0], pair[1]))
    return [found for found in made if found is not None]


def values_of(column: pa.ChunkedArray, form: str | None = None) -> Floats | None:
    """Return the numbers of a column without the missing ones, or seconds since 1970; None if it holds neither."""
    array = decoded(column.combine_chunks())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if is_text(array.type):
        array = read_moments(array, form) if form is not None else pa.array(read_floats(array)[0])
    if pa.types.is_date(array.type) or pa.types.is_timestamp(array.type):
        stamps = array.cast(
            pa.timestamp("us", array.type.tz if pa.types.is_timestamp(array.type) else None), safe=False
        )
        values = stamps.cast(pa.int64()).drop_null().to_numpy(zero_copy_only=False) / 1e6
    elif pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):
        values = array.drop_null().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    else:
        return None
    held = np.asarray(values, np.float64)
    return np.asarray(held[np.isfinite(held)])


def wasserstein(real: Floats, synth: Floats) -> float:
    """Return the mean distance that values have to be moved."""
    places = np.sort(np.concatenate([real, synth]))
    shares = [np.searchsorted(np.sort(values), places[:-1], side="right") / len(values) for values in (real, synth)]
    return float(np.sum(np.abs(shares[0] - shares[1]) * np.diff(places)))


def _numbers(name: str, dates: bool, real: Floats, synth: Floats) -> Numbers | None:
    if not len(real) or not len(synth):
        return None
    both = (real, synth)
    profiles: dict[str, tuple[tuple[float, float], ...]] = {}
    if dates:
        weekdays = [np.bincount(((v // _DAY).astype(np.int64) + _MONDAY) % 7, minlength=7) / len(v) for v in both]
        months = [_months(v) for v in both]
        profiles = {"weekdays": _paired(weekdays), "months": _paired(months)}
    return Numbers(
        name,
        dates,
        (float(real.mean()), float(synth.mean())),
        (float(real.std()), float(synth.std())),
        _paired([np.quantile(values, LEVELS) for values in both]),
        wasserstein(real, synth),
        () if dates else tuple((g, *(float(np.mean(v % g == 0)) for v in both)) for g in GRAINS),  # type: ignore[misc]
        **profiles,
    )


def _months(seconds: Floats) -> Floats:
    stamps = pa.array((seconds * 1e6).astype(np.int64)).cast(pa.timestamp("us"))
    months = pc.month(stamps).to_numpy(zero_copy_only=False)
    return np.asarray(np.bincount(months, minlength=13)[1:] / len(seconds), np.float64)


def _paired(both: Sequence[Floats]) -> tuple[tuple[float, float], ...]:
    return tuple((float(a), float(b)) for a, b in zip(*both, strict=True))
