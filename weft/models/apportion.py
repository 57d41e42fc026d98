"""Whole records out of fractional expectations."""

from __future__ import annotations

import numpy as np

from weft.marginal import Array


def apportion(weights: Array, n: int, rng: np.random.Generator) -> Array:
    """Divide n records over cells in proportion to non-negative weights, exactly n in all.

    Each cell gets the floor of its expectation; what is left goes to cells drawn by systematic sampling of the
    fractional parts, so every cell's count has the right mean and is off by less than one.

    >>> apportion(np.array([1.0, 1.0, 2.0]), 8, np.random.default_rng(0))
    array([2, 2, 4])
    """
    total = weights.sum()
    expected = weights * (n / total) if total > 0 else np.full(weights.shape, n / weights.size)
    floors: Array = np.floor(expected).astype(np.int64)
    left = n - int(floors.sum())
    if left > 0:
        # Fractional parts sum to `left` up to rounding; ticks one apart from a random start hit each cell with
        # probability equal to its part. The order is shuffled so that neighbours are not drawn together.
        order = rng.permutation(expected.size)
        ends = np.cumsum((expected - floors).ravel()[order])
        ticks = (rng.random() + np.arange(left)) * (ends[-1] / left)
        hit = order[np.minimum(np.searchsorted(ends, ticks, side="right"), expected.size - 1)]
        np.add.at(floors.ravel(), hit, 1)
    return floors
