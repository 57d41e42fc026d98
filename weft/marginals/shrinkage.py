"""Empirical-Bayes shrinkage of a noisy table towards its expected counts.

A measured table differs from the expected one by noise of known variance and by a true difference. In a cell of
expected count e the true difference has prior variance v = s e / mean(e), and its estimate is the measured difference
times v / (v + noise variance): nearly all of it far above the noise, nearly nothing below. Two priors are compared. In
the first, s is one number. In the second, s follows a mixture of scales with probabilities estimated by expectation
maximization; this suits pairs in which one attribute nearly determines the other, so that most cells match the
expectation and a few differ by their whole count. The prior with the higher likelihood is used, the second only if its
log-likelihood is higher by at least half the logarithm of the number of cells.

Privacy: uses noisy answers only, so it is post-processing and costs no budget.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.kernels import kernel
from weft.marginals.marginal import Array
from weft.marginals.noise_error import MEAN_ABS_NORMAL, Profile

_ONE = np.geomspace(1e-3, 1e4, 57)  # candidate values of s for a whole table, in units of the noise variance
_SIZES = np.array([0.0, *(0.25 * 10.0 ** np.arange(7))])  # scales of the mixture; 0 for cells that match exactly
_AS_EXPECTED = 3.0  # pseudo-count of cells at scale 0, so that noise is not mistaken for a few true differences
_ROUNDS = 30
_LARGE = 1e200  # product of variances above which its logarithm is taken; one more factor still fits a float


def shrink_difference(difference: Array, expected: Array, noise: float) -> Array:
    """Return the shrinkage estimate of a difference measured with noise of this (positive) standard deviation per cell.

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


@kernel(cache=True, nogil=True)
def _one_size(squared: Any, relative: Any, sizes: Any, likelihoods: Any) -> None:
    """Compute the log-likelihood of each s, multiplying variances while the product fits a float (fewer logarithms)."""
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


@kernel(cache=True, nogil=True)
def _several_sizes(squared: Any, relative: Any, sizes: Any, part: Any) -> float:
    """Compute the shrinkage factor of each cell under the mixture of scales and return the log-likelihood."""
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
    """Return the expected L1 error, in counts, of tables after measurement and shrinkage (table x noise level).

    `tables` are the expected counts and `gaps` their L1 distances from the true tables. Assumes one s for all cells:
    where a few cells make up the gap, the error is smaller.
    """
    relative = _of_profile(tables)
    unit = MEAN_ABS_NORMAL * (tables.cells * np.sqrt(relative)).sum(axis=1)
    real = np.square(gaps / np.maximum(unit, 1e-9))[:, None, None] * relative[:, None, :]
    variance = np.square(np.broadcast_to(noise, (len(real), np.shape(noise)[-1])))[:, :, None]
    left = np.sqrt(real * variance / np.maximum(real + variance, 1e-300))
    return np.asarray(MEAN_ABS_NORMAL * (tables.cells[:, None, :] * left).sum(axis=2))


def _scale_to_mean(expected: Array) -> Array:
    counts = np.maximum(expected, 0.0)
    return np.asarray(counts / max(float(counts.mean()), 1e-9))


def _of_profile(tables: Profile) -> Array:
    mean = tables.total / np.maximum(tables.cells.sum(axis=1), 1.0)
    return np.asarray(np.maximum(tables.counts, 0.0) / np.maximum(mean, 1e-9)[:, None])
