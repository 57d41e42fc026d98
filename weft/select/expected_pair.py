"""What a pair probably looks like, given its columns and how far it is from their product.

Noise is mostly removed from empty cells when a table is cut at zero, so what measuring a table will cost depends on
how sparse it is. Two columns that nearly copy each other fill few of their cells; their product, which is all that one
knows before, fills them all. Between the two lies a mixture: of the product, and of the coupling that pairs the
columns' values in order of size, with the weight that gives the distance seen.
"""

from __future__ import annotations

import numpy as np

from weft.marginals.marginal import Array


def expected_pair(one: Array, other: Array, gap: float) -> Array:
    """Return a table with these one-way tables (of one total; values in order of size) at about this L1 distance.

    >>> expected_pair(np.array([6.0, 4.0]), np.array([6.0, 4.0]), gap=9.6)
    array([[6., 0.],
           [0., 4.]])
    """
    rows, columns = np.sort(one)[::-1], np.sort(other)[::-1]
    product = np.outer(rows, columns) / max(rows.sum(), 1e-9)
    away = _coupled(rows, columns) - product
    farthest = np.abs(away).sum()
    part = min(max(gap / farthest, 0.0), 1.0) if farthest > 0 else 0.0
    return np.asarray(np.maximum(product + part * away, 0.0))


def _coupled(rows: Array, columns: Array) -> Array:
    """Give the table of values that rise together: it has at most as many filled cells as there are values."""
    ends = [np.cumsum(rows), np.cumsum(columns)]
    bounds = np.unique(np.concatenate(ends))
    width = np.diff(bounds, prepend=0.0)
    at = [np.minimum(np.searchsorted(end, bounds - width / 2), end.size - 1) for end in ends]
    table = np.zeros((rows.size, columns.size))
    np.add.at(table, tuple(at), width)
    return table
