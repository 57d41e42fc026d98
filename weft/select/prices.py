"""Which marginals to measure, each with how much: one choice from a menu of prices.

Every candidate has a menu: leave it (and keep the model's error, its gap), or measure it with one of a ladder of
budgets (and keep the error that this much noise leaves). The least total error for a given budget is found with one
multiplier: each candidate takes what is least in error + multiplier * price, and the multiplier is the one at
which the prices add up to the budget. Few rows and large tables then lead to fewer measurements by themselves.

The error that noise leaves is that of the table *after* projection onto the simplex. For a sparse table it
is far below cells times sigma, and it never exceeds twice the rows: with the table q in counts, noise sigma and
the projection's threshold tau, a cell keeps E |max(q + sigma Z - tau, 0) - q|, in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.marginals.marginal import Array

GROUPS = 48
"""Cells of a table, sorted, are put in this many groups: the error is then a sum over groups."""


@dataclass(frozen=True)
class Profile:
    """Tables as sorted groups of cells: how many cells, of which mean count. One row a table."""

    cells: Array
    counts: Array

    @property
    def total(self) -> Array:
        """Sum of each table."""
        return np.asarray((self.cells * self.counts).sum(axis=1))


def profile(tables: Sequence[Array]) -> Profile:
    """Group the cells of each table by size."""
    cells = np.zeros((len(tables), GROUPS))
    counts = np.zeros((len(tables), GROUPS))
    for i, table in enumerate(tables):
        flat = np.sort(table, axis=None)
        if flat.size <= GROUPS:
            cells[i, : flat.size], counts[i, : flat.size] = 1, flat
        else:
            # Large cells one by one, small ones many together: bounds are geometric from the top.
            bounds = np.unique(flat.size - np.rint(np.geomspace(1, flat.size + 1, GROUPS) - 1).astype(np.int64))
            width = np.diff(bounds)
            cells[i, : width.size] = width
            counts[i, : width.size] = np.add.reduceat(flat, bounds[:-1]) / width
    return Profile(cells, counts)


def projected_error(tables: Profile, sigma: Array) -> Array:
    """Return the expected L1 error, in counts, of each table measured with each sigma (table x level)."""
    sigma = np.broadcast_to(sigma, (len(tables.cells), np.shape(sigma)[-1]))[:, :, None]
    cells, q = tables.cells[:, None, :], tables.counts[:, None, :]
    total = tables.total[:, None]
    tau = np.zeros(sigma.shape[:2])
    for _ in range(12):  # Newton from the left on a convex, falling function
        z = (q - tau[:, :, None]) / sigma
        below = _cdf(z)
        value = (cells * sigma * (z * below + _density(z))).sum(axis=2) - total
        tau = tau + value / np.maximum((cells * below).sum(axis=2), 1e-9)
    c = tau[:, :, None] / sigma
    a = c - q / sigma
    lost = q * _cdf(a)
    kept = sigma * (2 * _density(c) - _density(a) + 2 * c * _cdf(c) - c - c * _cdf(a))
    return np.asarray((cells * (lost + kept)).sum(axis=2))


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


def _density(z: Array) -> Array:
    return np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


def _cdf(z: Array) -> Array:
    from scipy.special import ndtr

    return np.asarray(ndtr(z))
