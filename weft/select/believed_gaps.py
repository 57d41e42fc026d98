"""How far a model is from each of many tables, as far as noisy answers tell: empirical Bayes on the answers.

Of many noisy distances those look largest whose noise is, and with little budget most of what is seen is noise. But
many answers together tell how distances are spread: the spread that makes all of them likeliest (Kiefer and Wolfowitz's
estimate, found by expectation maximisation on a grid), seen through noise of a known size. What is believed of each is
its mean under that spread, given its own answer (Robbins), less a part of what is not known of it. Answers are
released: nothing here costs budget.
"""

from __future__ import annotations

import numpy as np

from weft.marginals.marginal import Array

PLAIN = 10.0
"""Deviations of noise above which an answer speaks for itself."""

_RIGHT = 3.0
"""So many more tables are taken to be as the model has them: a few answers alone tell little of how they are spread."""

_STEPS = 4
"""Points of the grid for each deviation of noise."""

_ROUNDS = 100


def believed_gaps(seen: Array, sigma: float, caution: float = 0.0) -> Array:
    """Return what is believed of distances that were answered with noise of this standard deviation.

    Each is `caution` deviations of what is not known of it below its mean: what a wrong purchase costs is certain, and
    what it gains is foretold by an optimist, who knows how far to believe the answer.

    >>> few = believed_gaps(np.array([-9.0, 4.0, 11.0, 500.0]), 10.0)
    >>> bool((few[:3] < 5).all()), float(few[3])
    (True, 500.0)
    """
    believed = np.maximum(seen - caution * sigma, 0.0)
    unclear = seen < PLAIN * sigma
    if not (sigma > 0 and unclear.any()):
        return np.asarray(believed)
    answers = seen[unclear] / sigma
    largest = max(PLAIN - caution, 0.0) * sigma
    grid = np.arange(0.0, PLAIN + 2.0, 1 / _STEPS)
    # Each answer's own likeliest point has likelihood 1, so none vanishes; what is common to a row cancels.
    apart = -0.5 * np.square(answers[:, None] - grid)
    likelihood = np.exp(apart - apart.max(axis=1, keepdims=True))
    spread = np.full(grid.size, 1 / grid.size)
    for _ in range(_ROUNDS):
        spread = spread * ((1 / (likelihood @ spread)) @ likelihood)
        spread[0] += _RIGHT
        spread /= spread.sum()
    posterior = likelihood * spread
    posterior /= posterior.sum(axis=1, keepdims=True)
    mean = posterior @ grid
    unsure = np.sqrt(np.maximum(posterior @ grid**2 - mean**2, 0.0))
    # Of few answers the spread is too sure of itself; what is unclear is believed no more than what is not would be.
    believed[unclear] = np.minimum(sigma * np.maximum(mean - caution * unsure, 0.0), largest)
    return np.asarray(believed)
