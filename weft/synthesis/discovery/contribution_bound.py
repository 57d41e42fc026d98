"""Choose the contribution bound from noisy numbers of persons with 1, 2, ... rows.

Privacy: post-processing of one released histogram, in which a person adds one to one cell.
"""

from __future__ import annotations

import math

import numpy as np

from weft.marginals.marginal import Array
from weft.marginals.smoothing import CellGrid, NoisyCells, extrapolate_tails, smooth_counts

BOUNDS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)
CELLS = 6.0  # noise of a typical two-way marginal, in units of the noise of one cell
UNLIKE = 0.015  # assumed total variation between the rows that are kept and those that the bound drops
PAIRS_PER_COLUMN = 3.0  # marginals that share the budget, per column


def estimate_unit_sizes(noisy: Array, sigma: float) -> Array:
    """Estimate the numbers of persons with 1, 2, ... rows: not negative, with a tail that decays."""
    table = np.asarray(noisy, np.float64)
    even = np.ones(len(table))
    smooth = smooth_counts(table, sigma, CellGrid(even, np.zeros(len(table), np.int64)))
    return extrapolate_tails(NoisyCells(table, sigma * even, even), smooth)


def choose_contribution_bound(sizes: Array, columns: int, rho: float) -> int:
    """Return the bound with the smallest expected error of a two-way marginal: noise plus dropped rows.

    With bound t, a person with k rows contributes min(k, t), and the noise of a count grows with t. `sizes` are numbers
    of persons with 1, 2, ... rows, `rho` is the budget of the fit.

    >>> choose_contribution_bound(np.array([9000.0, 900.0, 50.0]), 10, 0.03)
    1
    >>> choose_contribution_bound(np.array([0.0, 0.0, 0.0, 500_000.0]), 10, 0.03)
    4
    """
    rows = np.arange(1, len(sizes) + 1)
    total = max(float(sizes @ rows), 1.0)
    noise = CELLS * math.sqrt(PAIRS_PER_COLUMN * max(columns, 1) / (2 * rho))
    bounds = [bound for bound in BOUNDS if bound <= len(sizes)]
    kept = [max(float(sizes @ np.minimum(rows, bound)), 1.0) for bound in bounds]
    errors = [bound * noise / held + UNLIKE * (1 - held / total) for bound, held in zip(bounds, kept, strict=True)]
    return bounds[int(np.argmin(errors))]
