"""Which marginals to measure, each with how much: one choice among prices.

Every candidate may be left (which keeps the model's error, its gap), or measured with one of several budgets (which
keeps the error that this much noise leaves, `weft.marginals.noise_error`). The least total error for a given budget
is found with one multiplier: each candidate takes what is least in error + multiplier * price, and the multiplier is
the one at which the prices add up to the budget. Few rows and large tables then lead to fewer measurements by
themselves.
"""

from __future__ import annotations

import numpy as np

from weft.marginals.marginal import Array


def choose(gaps: Array, errors: Array, prices: Array, budget: float) -> Array:
    """Return the budget of each candidate: 0 to leave it, with its gap, or one of its prices, with that error.

    `errors[i, l]` and `prices[i, l]` are what level l leaves and costs. The budgets sum to at most `budget`.
    """
    error = np.concatenate([np.asarray(gaps, np.float64)[:, None], errors], axis=1)
    price = np.concatenate([np.zeros((len(error), 1)), prices], axis=1)
    rows = np.arange(len(error))

    def spend(multiplier: float) -> Array:
        return np.asarray(price[rows, np.argmin(error + multiplier * price, axis=1)])

    low, high = 0.0, 1.0
    while spend(high).sum() > budget:
        low, high = high, high * 4
        if high > 1e30:
            return np.zeros(len(error))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if spend(middle).sum() > budget else (low, middle)
    return spend(high)
