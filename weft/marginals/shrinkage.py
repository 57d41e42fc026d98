"""What to believe of a noisy table, given what was expected of it: every cell between the two, by its variances.

A table that was measured differs from the expected one by noise, of known variance, and by what was not known. A cell
that few rows are expected in is rarely far off: of expected count e, its difference is taken to have variance
s e / mean(e). The best guess of a difference is then the measured one times s e / (s e + noise): nearly all of it in
cells that stand above the noise, nearly nothing in the others. Two things are tried for s. It is one number; or, as
where one column nearly tells the other, most cells are off by nothing and a few by all they have, and s is one of
several sizes, each with a probability (a mixture of scales, found by expectation maximisation). The likeliest for the
table itself is taken, and the second only if it is likelier by more than its further number explains by chance. This
is empirical Bayes. It reads noisy answers alone, so it costs no budget.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from weft.marginals.marginal import Array
from weft.marginals.noise_error import MEAN_ABS_NORMAL, Profile

_ONE = np.geomspace(1e-3, 1e4, 57)
"""Values of s that are tried for a whole table, in units of the noise's variance."""
_SIZES = np.array([0.0, *(0.25 * 10.0 ** np.arange(7))])
"""Sizes that s may have in a cell. The first is for cells that are as expected."""
_AS_EXPECTED = 3.0
"""Cells that are taken to be as expected before any is seen: noise alone must not look like a few that are not."""
_ROUNDS = 30
_LARGE = 1e200
"""A product of variances this large is put away as a logarithm: one more factor still fits a float."""


def shrink_difference(difference: Array, expected: Array, noise: float) -> Array:
    """Return the best guess of a difference that was measured with noise of this standard deviation on each cell.

    The noise is above 0: what was measured without any is believed as it is.

    >>> shrink_difference(np.array([90.0, -3.0, 2.0, -90.0]), np.array([50.0, 50.0, 50.0, 50.0]), 3.0).round()
    array([ 90.,  -0.,   0., -90.])
    """
    relative = np.ravel(_scale_to_mean(expected))
    squared = np.square(np.ravel(difference) / noise)
    one = np.zeros(_ONE.size)
    _one_size(squared, relative, _ONE, one)
    best = int(np.argmax(one))
    part = np.empty(difference.size)
    several = _several_sizes(squared, relative, _SIZES, part)
    if several - one[best] < 0.5 * math.log(difference.size):
        part = 1 - 1 / (1 + _ONE[best] * relative)
    return np.asarray(difference * part.reshape(difference.shape))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _one_size(squared: Any, relative: Any, sizes: Any, likelihoods: Any) -> None:
    """Add up the log-likelihood of all cells for each s. Variances are multiplied as long as a float holds them."""
    product = np.ones(sizes.size)
    for i in range(squared.size):
        for k in range(sizes.size):
            variance = 1 + sizes[k] * relative[i]
            likelihoods[k] -= 0.5 * squared[i] / variance
            product[k] *= variance
            if product[k] > _LARGE:
                likelihoods[k] -= 0.5 * math.log(product[k])
                product[k] = 1.0
    likelihoods -= 0.5 * np.log(product)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _several_sizes(squared: Any, relative: Any, sizes: Any, part: Any) -> float:
    """Fill in the part of each cell that is believed if s has several sizes, and return the log-likelihood of that."""
    cells, several = squared.size, sizes.size
    likely, whole = np.empty((cells, several)), 0.0
    for i in range(cells):
        most = -np.inf
        for k in range(several):
            variance = 1 + sizes[k] * relative[i]
            likely[i, k] = -0.5 * (math.log(variance) + squared[i] / variance)
            most = max(most, likely[i, k])
        for k in range(several):
            likely[i, k] = math.exp(likely[i, k] - most)
        whole += most
    weight, found = np.full(several, 1 / several), np.empty(several)
    for _ in range(_ROUNDS):
        found[:] = 0
        for i in range(cells):
            mean = 0.0
            for k in range(several):
                mean += likely[i, k] * weight[k]
            for k in range(several):
                found[k] += likely[i, k] / mean
        found *= weight
        found[0] += _AS_EXPECTED
        weight = np.maximum(found / found.sum(), 1e-12)
    for i in range(cells):
        mean, kept = 0.0, 0.0
        for k in range(several):
            mean += likely[i, k] * weight[k]
            kept += likely[i, k] * weight[k] * (1 - 1 / (1 + sizes[k] * relative[i]))
        part[i] = kept / mean
        whole += math.log(mean)
    return whole


def compute_shrinkage_error(tables: Profile, gaps: Array, noise: Array) -> Array:
    """Return the expected L1 error, in counts, of tables once they are measured and shrunk (table x level of noise).

    `tables` are as expected, and `gaps` how far (L1) that is from the truth. One s for all cells: where few of them
    make up the gap, the error is smaller.
    """
    relative = _of_profile(tables)
    unit = MEAN_ABS_NORMAL * (tables.cells * np.sqrt(relative)).sum(axis=1)
    real = np.square(gaps / np.maximum(unit, 1e-9))[:, None, None] * relative[:, None, :]
    variance = np.square(np.broadcast_to(noise, (len(real), np.shape(noise)[-1])))[:, :, None]
    left = np.sqrt(real * variance / np.maximum(real + variance, 1e-300))
    return np.asarray(MEAN_ABS_NORMAL * (tables.cells[:, None, :] * left).sum(axis=2))


def _scale_to_mean(expected: Array) -> Array:
    """Return expected counts in units of their mean."""
    counts = np.maximum(expected, 0.0)
    return np.asarray(counts / max(float(counts.mean()), 1e-9))


def _of_profile(tables: Profile) -> Array:
    mean = tables.total / np.maximum(tables.cells.sum(axis=1), 1.0)
    return np.asarray(np.maximum(tables.counts, 0.0) / np.maximum(mean, 1e-9)[:, None])
