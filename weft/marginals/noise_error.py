"""The error that noise leaves in a table, foretold from sigma and from counts that may be seen.

Noise sigma on each of k cells moves a table by k sigma sqrt(2/pi) (L1, in counts) before anything else happens. Every
method then makes the counts non-negative and gives them the right sum, which undoes much of that where most cells are
empty: a projected table is far closer than cells times sigma, and never farther than twice its total. The projection
subtracts a threshold tau and cuts at zero, so a cell of count q keeps E |max(q + sigma Z - tau, 0) - q|, in closed
form. Geometric noise is treated as Gaussian noise of the same sigma, which is a tenth too large in the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.marginals.marginal import Array
from weft.marginals.threshold import errors_past, threshold

MEAN_ABS_NORMAL = math.sqrt(2 / math.pi)
"""E |Z| of a standard normal Z."""

GROUPS = 48
"""Cells of a table, sorted, are put in this many groups: the error is then a sum over groups."""


def expected_noise(cells: int | Sequence[int] | Array, sigma: Array | float) -> Array:
    """Return the expected L1 norm, in counts, of noise sigma on each cell of tables of these sizes.

    >>> round(float(expected_noise(100, 10.0)))
    798
    """
    return np.asarray(MEAN_ABS_NORMAL * np.asarray(sigma) * np.asarray(cells, dtype=np.float64))


@dataclass(frozen=True)
class Profile:
    """Tables as sorted groups of cells: how many cells, of which mean count. One row a table."""

    cells: Array
    counts: Array

    @property
    def total(self) -> Array:
        """Sum of each table."""
        return np.asarray((self.cells * self.counts).sum(axis=1))


def profile(tables: Sequence[Array], groups: int = GROUPS) -> Profile:
    """Group the cells of each table by size; a table of no more cells than groups is kept as it is."""
    cells = np.zeros((len(tables), groups))
    counts = np.zeros((len(tables), groups))
    for i, table in enumerate(tables):
        flat = np.sort(table, axis=None)
        if flat.size <= groups:
            cells[i, : flat.size], counts[i, : flat.size] = 1, flat
        else:
            # Large cells one by one, small ones many together: bounds are geometric from the top.
            bounds = np.unique(flat.size - np.rint(np.geomspace(1, flat.size + 1, groups) - 1).astype(np.int64))
            width = np.diff(bounds)
            cells[i, : width.size] = width
            counts[i, : width.size] = np.add.reduceat(flat, bounds[:-1]) / width
    return Profile(cells, counts)


def projected_error(tables: Profile, sigma: Array, *, whole: bool | Array = False) -> Array:
    """Return the expected L1 error, in counts, of each table measured with each sigma (table x level).

    `whole` says of all tables, or of each, whether its cells have independent noise. The threshold of one draw then
    follows that draw's own mean over the cells that stay above zero, so 1/alive of their variance goes with it. The
    noise of an interaction has lost the mean over its cells before: nothing more may be taken off. It is off
    unless asked for: AIM's pairs and weave's columns are weighed without it (on adult, weave's errors with it and
    without differ less than runs do).
    """
    sigma = np.array(np.broadcast_to(sigma, (len(tables.cells), np.shape(sigma)[-1])), np.float64)
    tau, alive = threshold(tables.cells, tables.counts, sigma)
    independent = np.broadcast_to(np.reshape(whole, (-1, 1)), sigma.shape)
    if independent.any():
        kept = np.sqrt(1 - 1 / np.maximum(alive, 1.0))
        nothing = independent & (kept <= 0)  # a single cell that has the whole total
        sigma = np.where(independent & ~nothing, sigma * kept, sigma)
        tau, _ = threshold(tables.cells, tables.counts, sigma)
    else:
        nothing = independent
    return np.where(nothing, 0.0, errors_past(tables.cells, tables.counts, sigma, tau))
