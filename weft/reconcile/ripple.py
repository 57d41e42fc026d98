"""Ripple (PriView, Qardaji, Yang, Li; SIGMOD 2014): take what is below zero from the cells around it.

Noise puts cells below zero. To cut them at zero would raise the total, and to take the difference from all cells would
move those that have nothing to do with them. Here a cell below -theta becomes zero, and what it lacked is taken evenly
from its neighbours, the cells that differ in one attribute; where these fall below -theta in turn, the wave goes on.
The total stays as it is.
"""

from __future__ import annotations

import numpy as np

from weft.marginals.marginal import Array

WAVES = 1_000


def ripple(table: Array, theta: float) -> Array:
    """Return a table of the same total without cells below -theta, unless its total is too small for that.

    >>> ripple(np.array([[-2.0, 5.0], [5.0, 9.0]]), 0.5)
    array([[0., 4.],
           [4., 9.]])
    """
    made = np.array(table, np.float64)
    neighbours = sum(size - 1 for size in made.shape)
    for _ in range(WAVES):
        below = made < -theta
        if not below.any() or not neighbours:
            break
        lacking = np.where(below, made, 0.0)
        made = made - lacking
        for axis in range(made.ndim):
            made = made + (lacking.sum(axis=axis, keepdims=True) - lacking) / neighbours
    return np.asarray(made)
