"""Private selection by the exponential mechanism on integer scores, without a floating-point softmax."""

from __future__ import annotations

import bisect
import decimal
import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import BudgetError
from weft.privacy import noise_tails as exact
from weft.privacy.noise import Noise

_NEVER = 223
"""exp(-223) < 2**-321: such a weight rounds to 0."""


def floor_to_grid(scores: ArrayLike, sensitivity: float, steps: int = 1000) -> NDArray[np.int64]:
    """Floor real scores onto a grid of `steps` steps per sensitivity; the new integer sensitivity is `steps`.

    Privacy: if two scores differ by at most D, their multiples by steps/D differ by at most the integer `steps`, and so
    do their floors. Division and floor are exact (rational arithmetic), so the argument involves no rounding; the
    scores themselves, as floats, must satisfy the sensitivity D.

    >>> floor_to_grid([0.25, -0.125], sensitivity=1.0, steps=10)
    array([ 2, -2])
    """
    if not (math.isfinite(sensitivity) and sensitivity > 0 and steps >= 1):
        raise BudgetError("a grid needs a positive, finite sensitivity and at least one step")
    width = Fraction(sensitivity) / steps
    return np.array([Fraction(score) // width for score in np.asarray(scores, float).ravel().tolist()], np.int64)


def _validate_scores(scores: ArrayLike, sensitivity: int, epsilon: float) -> NDArray[np.int64]:
    array: NDArray[Any] = np.asarray(scores)
    if array.dtype.kind != "i" or array.ndim != 1 or not len(array):
        raise BudgetError("candidates need a vector of signed integer scores: put real scores on a grid first")
    if not (math.isfinite(epsilon) and epsilon > 0) or sensitivity < 1:
        raise BudgetError("a private selection needs a positive, finite epsilon and a sensitivity of at least 1")
    return array.astype(np.int64)


def selection_scale(sensitivity: float, epsilon: float) -> float:
    """Return the scale 2 * sensitivity / epsilon of a selection, rounded up so that it is never less private."""
    return math.nextafter(2 * sensitivity / epsilon, math.inf)


def exponential_mechanism(scores: ArrayLike, sensitivity: int, epsilon: float, noise: Noise) -> int:
    """Select index i with probability proportional to exp(epsilon * score_i / (2 * sensitivity)).

    Privacy: between neighbours each score changes by at most the sensitivity, so a weight changes by a factor of at
    most e^(epsilon/2), and so does their sum: epsilon-DP. It is epsilon-bounded-range too, hence epsilon^2/8-zCDP
    (Cesar and Rogers 2021). Weights are integers of 320 bits, below 2**320 for the best score, and a 320-bit uniform
    number selects among them: the total error against the ideal distribution is at most (candidates + 1) * 2**-319.
    """
    values = _validate_scores(scores, sensitivity, epsilon)
    levels, level_of = np.unique(values, return_inverse=True)
    with decimal.localcontext(exact.CONTEXT):
        slope = 1 / Decimal(selection_scale(sensitivity, epsilon))
        best = int(levels[-1])
        weights = [exact.as_bits(((int(level) - best) * slope).exp()) for level in levels]
    total = sum(weights[level] for level in level_of)
    mark = noise.bits(exact.BITS) * total >> exact.BITS
    for i, level in enumerate(level_of):
        mark -= weights[level]
        if mark < 0:
            return i
    raise AssertionError("the mark lies below the total")


def exponential_draws(
    scores: ArrayLike, sensitivity: int, epsilon: float, draws: int, noise: Noise
) -> NDArray[np.int64]:
    """Select `draws` indices independently, each as in `exponential_mechanism`; the weights are computed once.

    Candidates with equal scores have equal weights w: a mark at offset r from the first of them selects number r // w.
    """
    values = _validate_scores(scores, sensitivity, epsilon)
    levels, level_of, members = np.unique(values, return_inverse=True, return_counts=True)
    best = int(levels[-1])
    weights = _compute_weights([best - int(level) for level in levels], selection_scale(sensitivity, epsilon))
    ends = list(itertools.accumulate(weight * int(many) for weight, many in zip(weights, members, strict=True)))
    order = np.argsort(level_of, kind="stable")
    first = np.cumsum(members) - members
    found = np.empty(draws, np.int64)
    for i in range(draws):
        mark = noise.bits(exact.BITS) * ends[-1] >> exact.BITS
        at = bisect.bisect_right(ends, mark)
        past = mark - (ends[at - 1] if at else 0)
        found[i] = order[first[at] + past // weights[at]]
    return found


def _compute_weights(behind: list[int], scale: float) -> list[int]:
    """Return exp(-k / scale) as 320-bit integers for scores k below the best.

    A product over the bits of k: at most 64 factors of 120 digits, with an error far below truncation to 320 bits.
    """
    with decimal.localcontext(exact.CONTEXT):
        far = _NEVER * Decimal(scale)
        longest = max((k for k in behind if k <= far), default=0).bit_length()
        factors = [(-(1 << j) / Decimal(scale)).exp() for j in range(longest)]

        def weight(k: int) -> int:
            if k > far:
                return 0
            return exact.as_bits(math.prod((factors[j] for j in range(k.bit_length()) if k >> j & 1), start=Decimal(1)))

        return [weight(k) for k in behind]
