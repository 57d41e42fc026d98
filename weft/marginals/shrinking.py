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

import numpy as np

from weft.marginals.marginal import Array
from weft.marginals.noise_error import MEAN_ABS_NORMAL, Profile

_ONE = np.geomspace(1e-3, 1e4, 57)
"""Values of s that are tried for a whole table, in units of the noise's variance."""
_SIZES = np.array([0.0, *(0.25 * 10.0 ** np.arange(7))])
"""Sizes that s may have in a cell. The first is for cells that are as expected."""
_AS_EXPECTED = 3.0
"""Cells that are taken to be as expected before any is seen: noise alone must not look like a few that are not."""
_ROUNDS = 30


def believed(difference: Array, expected: Array, noise: float) -> Array:
    """Return the best guess of a difference that was measured with noise of this standard deviation on each cell.

    >>> believed(np.array([90.0, -3.0, 2.0, -90.0]), np.array([50.0, 50.0, 50.0, 50.0]), 3.0).round()
    array([ 90.,  -0.,   0., -90.])
    """
    relative = _relative(expected).reshape(-1, 1)
    squared = np.square(difference.reshape(-1, 1) / noise)
    one = _log_likelihood(squared, 1 + _ONE * relative).sum(axis=0)
    best = int(np.argmax(one))
    several, part = _mixture(squared, 1 + _SIZES * relative)
    if several - one[best] < 0.5 * math.log(difference.size):
        part = 1 - 1 / (1 + _ONE[best] * relative)
    return np.asarray(difference * part.reshape(difference.shape))


def _mixture(squared: Array, variance: Array) -> tuple[float, Array]:
    """Return the log-likelihood of cells whose s has several sizes, and the part of each that is believed."""
    log = _log_likelihood(squared, variance)
    most = log.max(axis=1, keepdims=True)
    likely = np.exp(log - most)
    weight = np.full(_SIZES.size, 1 / _SIZES.size)
    for _ in range(_ROUNDS):
        weight = weight * (likely / (likely @ weight)[:, None]).sum(axis=0)
        weight[0] += _AS_EXPECTED
        weight = np.maximum(weight / weight.sum(), 1e-12)
    of_cell = likely * weight
    whole = of_cell.sum(axis=1)
    return float((np.log(whole) + most[:, 0]).sum()), (of_cell * (1 - 1 / variance)).sum(axis=1) / whole


def _log_likelihood(squared: Array, variance: Array) -> Array:
    return np.asarray(-0.5 * (np.log(variance) + squared / variance))


def believed_error(tables: Profile, gaps: Array, noise: Array) -> Array:
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


def _relative(expected: Array) -> Array:
    """Return expected counts in units of their mean."""
    counts = np.maximum(expected, 0.0)
    return np.asarray(counts / max(float(counts.mean()), 1e-9))


def _of_profile(tables: Profile) -> Array:
    mean = tables.total / np.maximum(tables.cells.sum(axis=1), 1.0)
    return np.asarray(np.maximum(tables.counts, 0.0) / np.maximum(mean, 1e-9)[:, None])
