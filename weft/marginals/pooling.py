"""The number of rows that several noisy tables agree on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from weft.marginals.marginal import Array, NoisyMarginal

_EXACT = 1e-6
"""A table without noise counts as having this fraction of the least noise around: weights stay finite."""


def precisions(marginals: Sequence[NoisyMarginal]) -> Array:
    """Return the precision (1 / variance) of a cell of each table, finite even for tables without noise."""
    sigma = np.array([marginal.sigma for marginal in marginals], dtype=np.float64)
    noisy = sigma[sigma > 0]
    floor = _EXACT * noisy.min() if noisy.size else 1.0
    return np.asarray(1.0 / np.maximum(sigma, floor) ** 2)


def common_total(marginals: Sequence[NoisyMarginal]) -> tuple[float, float]:
    """Return the precision-weighted total of the tables and its standard deviation.

    The sum of a table of c cells has variance c sigma^2, so it weighs precision / c; the weighted mean then
    has variance 1 / sum(precision / c).

    >>> one, other = np.array([6, 4]), np.array([7, 9])
    >>> total, sd = common_total([NoisyMarginal(("a",), one, 1.0), NoisyMarginal(("b",), other, 2.0)])
    >>> round(total, 3), round(sd, 3)
    (11.2, 1.265)
    """
    marginals = [marginal for marginal in marginals if not marginal.order]
    if not marginals:
        raise ValueError("a total needs at least one whole table")
    weights = precisions(marginals) / [marginal.cells for marginal in marginals]
    sums = np.array([marginal.table.sum(dtype=np.float64) for marginal in marginals])
    exact = all(marginal.sigma == 0 for marginal in marginals)
    return float(weights @ sums / weights.sum()), 0.0 if exact else math.sqrt(1.0 / weights.sum())
