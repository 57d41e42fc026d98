"""Gini index and gender pay gap by group, after NIST's 2018 challenge (DPSyn, section 5.1).

The paper specifies neither the normalisation, nor the handling of missing groups, nor the formula of the gap: this
score is OURS, not NIST's, and is comparable only with itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.evaluation.metrics.aligned_tables import Floats, validate_shared_domain
from weft.marginals.counting import count_marginals
from weft.marginals.records import Records


@dataclass(frozen=True)
class GiniGap:
    """Scores in [0, 1] (1 is perfect), and the figures by group that they are computed from (nan: undefined)."""

    gini: float
    """1 - root mean square difference of the Gini indices; a group missing from `synth` counts as 1."""
    gap: float
    """1 - root mean square difference of the groups' ranks by pay gap, relative to the largest possible."""
    groups: NDArray[np.intp]
    """Codes of the groups with an income in the real table."""
    gini_real: Floats
    gini_synth: Floats
    gap_real: Floats
    gap_synth: Floats

    @property
    def score(self) -> float:
        """Mean of the two components."""
        return (self.gini + self.gap) / 2


def gini_gap(
    real: Records,
    synth: Records,
    *,
    income: str,
    group: str,
    gender: str,
    values: ArrayLike,
    genders: tuple[int, int] = (0, 1),
) -> GiniGap:
    """Compare income inequality and the pay gap between two genders, group by group.

    `values` is the amount of each income code (such as the middle of a bin), nan for codes that are not an income;
    `genders` are the codes of the two genders, and the gap is the first's mean income minus the second's.
    """
    domain = validate_shared_domain(real, synth)
    amounts = np.asarray(values, np.float64)
    if amounts.shape != (domain.size(income),):
        raise ValueError(f"`values` must have one amount for each code of {income!r}, {domain.size(income)} in total")
    if (amounts < 0).any():
        raise ValueError(f"the Gini index is undefined for negative amounts: use nan for these codes of {income!r}")
    if not all(0 <= code < domain.size(gender) for code in genders) or genders[0] == genders[1]:
        raise ValueError(f"`genders` must be two different codes of {gender!r}")

    order = np.argsort(amounts)[: np.count_nonzero(~np.isnan(amounts))]
    sides: list[tuple[Floats, Floats]] = []
    for records in (real, synth):
        table = count_marginals(records, [(group, gender, income)])[0][:, :, order]
        sides.append(
            (_compute_gini(table.sum(axis=1), amounts[order]), _compute_mean_gap(table[:, genders, :], amounts[order]))
        )
    (gini_real, gap_real), (gini_synth, gap_synth) = sides
    groups = np.flatnonzero(~np.isnan(gini_real))
    gini_error = np.nan_to_num(np.abs(gini_real - gini_synth)[groups], nan=1.0)
    return GiniGap(
        1 - _root_mean_square(gini_error),
        1 - _root_mean_square(_rank_errors(gap_real[groups], gap_synth[groups])),
        groups, gini_real[groups], gini_synth[groups], gap_real[groups], gap_synth[groups],
    )  # fmt: skip


def _compute_gini(counts: Any, amounts: Floats) -> Floats:
    """Compute the Gini index of each row of counts over ascending amounts: 2 sum(i x_i) / (n sum(x)) - (n + 1) / n."""
    n = counts.sum(axis=1)
    before = np.cumsum(counts, axis=1) - counts
    ranks = counts * before + counts * (counts + 1) / 2
    total = counts @ amounts
    with np.errstate(invalid="ignore", divide="ignore"):
        index = 2 * (ranks @ amounts) / (n * total) - (n + 1) / n
    # If all amounts are zero, there is no inequality.
    return np.where(n == 0, np.nan, np.where(total == 0, 0.0, index))


def _compute_mean_gap(counts: Any, amounts: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        means = counts @ amounts / counts.sum(axis=2)
    return np.asarray(means[:, 0] - means[:, 1])


def _rank_errors(real: Floats, synth: Floats) -> Floats:
    """Compute differences of rank, relative to the largest possible one, for groups with a gap in the real table.

    Ranks are computed among the groups that have a gap in both tables, so that a group missing from the synthetic table
    (error 1) does not affect the others.
    """
    from scipy.stats import rankdata

    known = ~np.isnan(real)
    common = known & ~np.isnan(synth)
    errors = np.ones(len(real))
    errors[common] = np.abs(rankdata(real[common]) - rankdata(synth[common])) / max(known.sum() - 1, 1)
    return errors[known]


def _root_mean_square(errors: Floats) -> float:
    return float(np.sqrt(np.mean(errors**2))) if len(errors) else 0.0
