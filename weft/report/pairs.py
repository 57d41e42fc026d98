"""All pairs of columns of two tables, counted once: how far apart they are, and how strongly each hangs together.

The same figures as `weft.evaluate.pairwise_l1` and `associations` give, for half the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.evaluate import associations, cramers_v, distances
from weft.evaluate.association import large_pairs, pair_batches
from weft.marginals.counting import count
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.report.figures import STRONG
from weft.report.grouping import Floats


@dataclass(frozen=True)
class PairMatrices:
    """Symmetric matrices over the columns; the diagonals are not filled."""

    distance: Floats
    """Total variation."""
    real: Floats
    """Cramer's V in the real table."""
    synth: Floats
    """Cramer's V in the synthetic one."""
    rests_on: Floats
    """Share of the rows in the fewest cells that make half of the relation, where it is stronger; NaN: not known."""


def compare_pairs(real: Records, synth: Records) -> PairMatrices:
    """Count every pair in both tables, densely where that is cheap."""
    figures = np.zeros((4, len(real.domain), len(real.domain)))
    for batch in pair_batches(real.domain):
        for pair, a, b in zip(batch, count(real, batch), count(synth, batch), strict=True):
            gap = float(np.abs(a / len(real) - b / len(synth)).sum()) / 2
            before, after = cramers_v(a), cramers_v(b)
            stronger = a if before >= after else b
            told = rests_on(stronger) if max(before, after) >= STRONG else float("nan")
            _enter(figures, real.domain, pair, gap, before, after, told)
    for pair in large_pairs(real.domain):
        ours, theirs = only(real, pair), only(synth, pair)
        gap = float(distances(ours, theirs, [pair])[0])
        both = (associations(table)[0, 1] for table in (ours, theirs))
        _enter(figures, real.domain, pair, gap, *both, float("nan"))
    return PairMatrices(*figures)


def rests_on(table: Array) -> float:
    """Return the share of the rows in the fewest cells that make half of chi-square.

    A cell that is emptier than chance would have it counts for the rows that chance would give it.

    >>> rests_on(np.array([[500, 0], [0, 500]])), rests_on(np.array([[995, 0], [0, 5]]))
    (0.75, 0.005)
    """
    counts = np.asarray(table, np.float64)
    expected = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / max(counts.sum(), 1.0)
    parts = np.divide((counts - expected) ** 2, expected, out=np.zeros_like(counts), where=expected > 0).ravel()
    order = np.argsort(-parts, kind="stable")
    reached = int(np.searchsorted(np.cumsum(parts[order]), parts.sum() * (0.5 - 1e-9))) + 1
    held = np.maximum(counts, expected).ravel()[order[:reached]].sum()
    return min(float(held / max(counts.sum(), 1.0)), 1.0)


def _enter(figures: Floats, domain: Domain, pair: Clique, *values: float) -> None:
    i, j = (domain.index(name) for name in pair)
    figures[:, i, j] = figures[:, j, i] = values


def only(table: Records, names: Sequence[str]) -> Records:
    """Return the records of some columns."""
    return Records(table.domain.project(names), tuple(table.column(name) for name in names))
