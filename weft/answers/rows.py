"""Synthetic rows, counted: for what codes do not tell."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.answers.bins import Bins, cut, round_width
from weft.marginals.marginal import Array
from weft.release.modelfile import Fitted
from weft.schema.rules.condition import Conditions, all_hold
from weft.values.storage import decoded

ROWS = 200_000
"""Synthetic rows that are made and counted."""

MOST_VALUES = 50
"""Different values that are told apart, unless they are numbers or dates."""


def counted_rows(fitted: Fitted, conditions: Conditions) -> tuple[pa.Table, Array, int]:
    """Return synthetic rows, which of them meet conditions, and how many there are: always the same ones."""
    rng = np.random.default_rng(0)
    made = int(fitted.model.total) if fitted.model.fixed_records else ROWS
    table = fitted.codec.decode(fitted.model.sample(made, rng), rng)
    met = all_hold(conditions, fitted.codec.block(table)) if conditions else np.ones(len(table), bool)
    return table, met, made


def by_values(column: pa.ChunkedArray, most: int) -> Bins:
    """Return bins of values that have no codes: as they are if few, else with round ends, or the common ones."""
    array = decoded(column.combine_chunks())
    kinds = pc.value_counts(array)
    values, counts = kinds.field("values"), kinds.field("counts").to_numpy()
    if len(values) > most and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        return _numbers(array, most)
    if len(values) > most and pa.types.is_temporal(array.type) and not pa.types.is_duration(array.type):
        return _days(array, most)
    ranked = np.argsort(-counts, kind="stable")[: max(most, MOST_VALUES)]
    named: list[Any] = values.take(pa.array(np.sort(ranked))).to_pylist()
    named = sorted(named, key=lambda value: (value is None, str(value) if isinstance(value, str) else value))
    place = pc.index_in(array, pa.array(named, array.type))
    labels = ["missing" if value is None else str(value) for value in named]
    codes = place.fill_null(len(labels)).to_numpy(zero_copy_only=False).astype(np.int64)
    if (codes == len(labels)).any():
        labels.append(f"{len(values) - len(named):,} rarer values together")
    return Bins(codes, tuple(labels))


def _numbers(array: pa.Array, most: int) -> Bins:
    missing = pc.is_null(array, nan_is_null=True).to_numpy(zero_copy_only=False)
    numbers = np.where(missing, np.nan, array.cast(pa.float64()).to_numpy(zero_copy_only=False))
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    width = round_width(low, high, most)
    first = cut(low, width)
    many = cut(high, width) - first + 1
    codes = np.where(missing, many, np.floor(np.where(missing, low, numbers) / width + 1e-9) - first).astype(np.int64)
    ends = [(first + i) * width for i in range(many + 1)]
    close = 1 if pa.types.is_integer(array.type) else 0
    labels = [f"{a:,.10g} to {b - close:,.10g}" for a, b in pairwise(ends)]
    return Bins(codes, (*labels, *(["missing"] if missing.any() else [])))


def _days(array: pa.Array, most: int) -> Bins:
    missing = pc.is_null(array).to_numpy(zero_copy_only=False)
    days = array.cast(pa.timestamp("us")).cast(pa.date32(), safe=False) if pa.types.is_timestamp(array.type) else array
    numbers = days.cast(pa.date32()).cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    there = numbers[~missing]
    low, high = (int(there.min()), int(there.max())) if len(there) else (0, 0)
    width = -(-(high - low + 1) // most)
    many = (high - low) // width + 1
    codes = np.where(missing, many, (numbers - low) // width)
    starts = [low + i * width for i in range(many)]
    labels = [f"{np.datetime64(a, 'D')} to {np.datetime64(min(a + width - 1, high), 'D')}" for a in starts]
    return Bins(codes, (*labels, *(["missing"] if missing.any() else [])))
