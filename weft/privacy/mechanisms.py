"""Where an exact answer meets noise: the last step before it may leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from weft.marginals.marginal import Array
from weft.privacy.charge import Charge
from weft.privacy.deniability import UNIT, Acceptance
from weft.privacy.noise import Noise
from weft.privacy.partitions import ARRAYS, select
from weft.privacy.plausible import BUCKETS, PlausibleTest
from weft.privacy.selection import exponential_draws, exponential_mechanism
from weft.privacy.uniform import below

_CHUNK = 1 << 13
"""Words drawn at a time."""


class Release(Protocol):
    """Turns exact integer answers into what may be seen. The audit puts a recording one in its place."""

    private: bool
    """False when the noise is predictable, as with a seed; everything released is then stamped."""

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Return one released array for each exact one, by the mechanism that the charge names."""
        ...


class Mechanisms:
    """Integer noise as the charge says, from the operating system's entropy unless seeded for a test."""

    def __init__(self, noise: Noise | None = None) -> None:
        self.noise = self._noise = noise or Noise()
        self.private = self._noise.private

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Release the answers to a question that has been paid for.

        Answers must be integers: rounded noise on an integer is post-processing of the ideal real-valued
        mechanism, which is what the accounting is exact for.
        """
        if any(answer.dtype.kind not in "iu" for answer in exact):
            raise TypeError("only integer answers may be released")
        if charge.mechanism == "gaussian":
            return [a + self._noise.gaussian(s, a.shape) for a, s in zip(exact, charge.scales, strict=True)]
        if charge.mechanism == "geometric":
            return [a + self._noise.geometric(s, a.shape) for a, s in zip(exact, charge.scales, strict=True)]
        if charge.mechanism == "partitions":
            threshold = int(charge.terms["threshold"])
            columns = [exact[i : i + ARRAYS] for i in range(0, len(exact), ARRAYS)]
            kept = [select(each, s, threshold, self._noise) for each, s in zip(columns, charge.scales, strict=True)]
            return [array for column in kept for array in column]
        if charge.mechanism == "coins":
            (names,) = exact  # for an audit; a coin must not depend on them
            return [_words(len(names), self._noise)]
        if BUCKETS in charge.terms:
            candidates, plausible = exact
            chances = PlausibleTest.of(charge.terms).chances(plausible)
            return [candidates[below(UNIT, _words(2 * len(chances), self._noise).reshape(2, -1)) < chances]]
        if charge.mechanism in ("seeded", "deniable"):
            # By the test that the charge names, and was priced by.
            prefixes, counts = exact
            test = Acceptance if charge.mechanism == "seeded" else PlausibleTest
            return [_grown(prefixes, test.of(charge.terms).weights(counts), charge, self._noise)]
        (scores,) = exact
        (sensitivity,) = charge.sensitivities
        if sensitivity != int(sensitivity):
            raise TypeError("a choice among integer scores needs a whole sensitivity")
        each = charge.epsilon / charge.draws
        if charge.draws > 1:
            return [exponential_draws(scores, int(sensitivity), each, charge.draws, self._noise)]
        return [np.array(exponential_mechanism(scores, int(sensitivity), each, self._noise))]


def _words(count: int, noise: Noise) -> Array:
    """Draw uniform 64-bit words, some at a time: all at once they would be a single integer, held several times."""
    words = np.empty(count, np.uint64)
    for start in range(0, count, _CHUNK):
        piece = words[start : start + _CHUNK]
        piece[:] = np.frombuffer(noise.bits(64 * len(piece)).to_bytes(8 * len(piece), "little"), "<u8")
    return words


def _grown(prefixes: Array, weights: Array, charge: Charge, noise: Noise) -> Array:
    """Draw prefixes independently with probability proportional to their weights, exactly.

    This is the law of accepted records itself, so nothing is rejected and every draw takes the same work. If none has
    any weight, they are zeros, which slack pays for; without differential privacy, there are none.
    """
    records = charge.draws
    ends = np.cumsum(weights, dtype=np.int64)
    assert (np.diff(ends, prepend=0) >= 0).all()  # no weight is negative, and no sum wrapped around
    if not len(ends) or ends[-1] <= 0:
        return np.zeros((records if charge.mechanism == "seeded" else 0, prefixes.shape[1]), prefixes.dtype)
    words = _words(2 * records, noise).reshape(2, -1)
    return np.asarray(prefixes[np.searchsorted(ends, below(int(ends[-1]), words), side="right")])
