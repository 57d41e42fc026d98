"""Expected error from privacy noise alone: the total variation distance that it adds between two tables.

Privacy: post-processing, computed from the noise scale and released counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.display import format_count
from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, Measured
from weft.marginals.noise_error import compute_projected_error, group_cells_by_size
from weft.marginals.pooling import compute_pooled_sigma
from weft.synthesis.fitted import Fitted
from weft.synthesis.statement import describe_lost_columns


def compute_expected_tvd(counts: Array, sigma: float) -> float:
    """Compute the expected total variation of a noisy table, projected to non-negative counts of the same sum."""
    total = float(np.sum(counts))
    if total <= 0 or not math.isfinite(sigma):
        return 0.0 if total <= 0 else 1.0
    if sigma <= 0:
        return 0.0
    error = compute_projected_error(
        group_cells_by_size([np.asarray(counts, np.float64)], np.size(counts)), np.array([sigma]), whole=True
    )
    return min(1.0, float(error[0, 0]) / (2 * total))


def by_column(measured: Iterable[Measured]) -> dict[str, list[Measured]]:
    """Group the measured marginals by the attributes that they contain."""
    index: dict[str, list[Measured]] = {}
    for table in measured:
        for name in table.clique:
            index.setdefault(name, []).append(table)
    return index


def compute_combined_sigma(columns: Clique, index: Mapping[str, Sequence[Measured]]) -> float | None:
    """Return the noise per cell over `columns`, pooled over all marginals that contain them; None if none does."""
    sigma = compute_pooled_sigma(columns, index.get(columns[0], ()))
    return sigma if math.isfinite(sigma) else None


MAX_POINTS = 3

RANGES = 32
"""Numbers and dates with more values than this are binned into this many ranges."""

LARGE = 0.02
"""Share of misplaced rows from which a column is listed as a weakness."""


@dataclass(frozen=True)
class Points:
    """Strengths and weaknesses of a release by its expected noise, one line each, shown at the end of a run."""

    best: tuple[str, ...]
    worst: tuple[str, ...]


def describe_noise_points(fitted: Fitted) -> Points:
    """List the columns with the least and the most noise, and state how many attribute pairs were measured."""
    errors = _estimate_errors(fitted)
    lost = describe_lost_columns(fitted)
    ranked = sorted((name for name in errors if name not in lost), key=lambda name: errors[name])
    half = len(ranked) // 2
    best = [_describe_noise_error(name, errors[name]) for name in ranked[: min(MAX_POINTS, max(1, half))]]
    worst = [
        _describe_noise_error(name, errors[name])
        for name in ranked[::-1][: min(MAX_POINTS, half)]
        if errors[name] >= LARGE
    ]
    pairs = _count_measured_pairs(fitted)
    worst = [*(f"{name}: {told}" for name, told in lost.items()), *worst]
    if pairs is not None:
        measured, every = pairs
        share = f"{measured:,} of {format_count(every, 'attribute pair')} were measured"
        (best if measured * 2 >= every else worst).insert(0, share if measured else "no attribute pair was measured")
    return Points(tuple(best[:MAX_POINTS]), tuple(worst[: max(MAX_POINTS, len(lost))]))


def _estimate_errors(fitted: Fitted) -> dict[str, float]:
    """Estimate the share of rows that noise alone misplaces, by column."""
    index, errors = by_column(fitted.measured), {}
    for column in fitted.schema.modelled:
        if column.name not in fitted.codec.domain:
            continue
        sigma = compute_combined_sigma((column.name,), index)
        if sigma is not None:
            counts = np.asarray(fitted.model.marginal((column.name,)), np.float64)
            errors[column.name] = compute_expected_tvd(
                _sum_ranges(counts, fitted.codec.domain.order(column.name).ordered), sigma
            )
    return errors


def _sum_ranges(counts: Array, ordered: bool) -> Array:
    if not ordered or len(counts) <= RANGES:
        return counts
    return np.add.reduceat(counts, np.linspace(0, len(counts), RANGES, endpoint=False).astype(int))


def _count_measured_pairs(fitted: Fitted) -> tuple[int, int] | None:
    """Return the number of attribute pairs that were measured, and of all pairs; None where this is not released."""
    names = fitted.codec.domain.names
    every = len(names) * (len(names) - 1) // 2
    if fitted.ledger.parts or fitted.model.fixed_records or not every:
        return None
    seen = {(a, b) for table in fitted.measured for a in table.clique for b in table.clique if a < b}
    return len(seen), every


def _describe_noise_error(name: str, error: float) -> str:
    return f"{name}: noise misplaces about {max(error, 0.001):.1%} of the rows"
