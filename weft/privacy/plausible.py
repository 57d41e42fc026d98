"""Plausible deniability, record by record: the privacy tests of BSG (PVLDB 2017), without differential privacy.

A synthetic record y was grown from a seed: a private row whose first attributes it keeps, omega others being drawn. Its
*plausible seeds* are the rows that would have given (omega, y) with about the same probability (within a factor gamma).
Pr{y | seed d, omega} is zero unless d has y's kept attributes; then it is a product of conditional probabilities whose
parents are read from y, and does not involve d. So the plausible seeds are the c rows that share y's prefix, all with
exactly the same probability: gamma plays no part, and the test needs nothing but c.

Test 1 lets y out if c >= k. Test 2 puts fresh Laplace noise of scale 1/epsilon0 on k. `max_plausible` stops counting at
that many; `max_check_plausible` looks at that many rows only, chosen at random. Both can only lower a count, so under
Test 1 a record that leaves still has k plausible seeds.

What Test 1 promises, also where omega is random and not told. Let a record draw its omega first, and then a seed that
passes for it. For a released y, let the passing omegas be those for which k rows or more share y's prefix; the prefix
shrinks as omega grows, so with an omega all larger ones pass too. A row gives y with the probability sum over passing
omegas, for which it shares y's prefix, of P(omega) q_omega(y) / S_omega: the same factors for every row. So the rows
that share the longest passing prefix, k of them at least, are all equally likely to be the seed, and no row is
likelier. Whoever thinks all rows equally likely beforehand believes of no row, with more than 1/k, that it was the seed
of y.

What it does not promise. Test 1 is not differentially private for any epsilon: one row more can take a prefix from
never to sometimes. Test 2 bounds one attempt to make one record (the paper's Theorem 1), not a record that was tried
for until it passed, nor a table of them. Records of one table together tell more of the seeds than each alone does.
`weft.privacy.deniability` has a guarantee for whole tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from weft.errors import BudgetError
from weft.marginals.marginal import Array
from weft.privacy.deniability import MOST_ROWS, UNIT, Acceptance, theorem_one

BUCKETS = "buckets"
"""A term of charges for records that were tested by classes of likelihood (`weft.privacy.buckets`)."""

_CELLS = 1 << 20
"""Probabilities looked at in one go."""


@dataclass(frozen=True)
class PlausibleTest:
    """Tests 1 and 2, record by record.

    >>> test = PlausibleTest(k=3)
    >>> str(test), (test.weights(np.array([2, 3, 5])) // UNIT).tolist()
    ('privacy test 1 with k = 3, where rows pass it', [0, 3, 5])
    """

    k: int
    """Plausible seeds that a record needs."""
    epsilon0: float | None = None
    """Test 2: the noise on k is Laplace of scale 1/epsilon0. None: Test 1, no noise."""
    gamma: float = 4.0
    """Factor within which the probabilities of plausible seeds lie; here they are equal, whatever it is."""
    max_plausible: int | None = None
    """Plausible seeds at which counting stops; None: all are counted."""
    max_check_plausible: int | None = None
    """Seeds, chosen at random, among which plausible ones are counted; None: all."""

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or not 1 <= self.k < MOST_ROWS or not 1 < self.gamma < math.inf:
            raise BudgetError("the privacy test needs a whole k of 1 or more, and gamma above 1")
        for most in (self.max_plausible, self.max_check_plausible):
            if most is not None and (not isinstance(most, int) or most < self.k):
                raise BudgetError("max_plausible and max_check_plausible must be whole numbers of k or more")
        if self.epsilon0 is not None:
            Acceptance(self.k, self.epsilon0)  # refuses what it must

    @property
    def terms(self) -> dict[str, float]:
        """The settings as numbers, without those that are off."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def of(cls, terms: Mapping[str, float]) -> PlausibleTest:
        """Rebuild the test that a charge names."""
        own = {name: value for name, value in terms.items() if name != BUCKETS}
        whole = {name: int(terms[name]) for name in ("k", "max_plausible", "max_check_plausible") if name in terms}
        return cls(**{**own, **whole})  # type: ignore[arg-type]

    def __str__(self) -> str:
        noise = "" if self.epsilon0 is None else f" and epsilon0 = {self.epsilon0:.4g}"
        # Whether any row does is decided by the rows, without noise: a ledger may say "where", and no more.
        return f"privacy test {1 if self.epsilon0 is None else 2} with k = {self.k}{noise}, where rows pass it"

    @cached_property
    def _levels(self) -> Array:
        """The chance to pass, in units of 1/UNIT, with h plausible seeds counted; the last one holds from there on."""
        if self.epsilon0 is None:
            levels = np.zeros(self.k + 1, np.int64)
            levels[-1] = UNIT
        else:
            levels = Acceptance(self.k, self.epsilon0).levels
        return levels if self.max_plausible is None else levels[: self.max_plausible + 1]

    def chances(self, counts: Array) -> Array:
        """Return the chance to pass, in units of 1/UNIT, of records with so many plausible seeds."""
        return np.asarray(self._levels[np.minimum(counts, len(self._levels) - 1)])

    def weights(self, counts: Array) -> Array:
        """Return c times the chance to pass, in units of 1/UNIT; `counts` are those of all prefixes of the seeds."""
        seeds, checked = int(counts.sum()), self.max_check_plausible
        if checked is None or checked >= seeds:
            chance = self.chances(counts)
        else:
            distinct, back = np.unique(counts, return_inverse=True)
            chance = self._checked(distinct, seeds, checked)[back]
        return np.asarray(counts * chance, np.int64)

    def _checked(self, counts: Array, seeds: int, checked: int) -> Array:
        """Return the chances if the plausible seeds are counted among `checked` random ones: h is hypergeometric."""
        top = len(self._levels) - 1
        h = np.arange(top)
        chances = [np.empty(0, np.int64)]
        for c in np.array_split(counts[:, None], 1 + counts.size * top // _CELLS):
            inside = (h <= c) & (checked - h <= seeds - c) & (h <= checked)
            few = np.where(inside, h, np.minimum(c, checked))  # where it is not, any h that makes sense will do
            few = np.maximum(few, checked - (seeds - c))
            log = _log_choose(c, few) + _log_choose(seeds - c, checked - few) - _log_choose(seeds, checked)
            p = np.where(inside, np.exp(log), 0.0)
            # Logarithms of large factorials leave the sum some 1e-8 from 1. Where fewer than `top` can be counted, what
            # it lacks is no chance to count more: Test 1 lets nothing out there, and Test 2 what its levels say.
            able = np.minimum(c[:, 0], checked) >= top
            rest = np.where(able, np.clip(1 - p.sum(axis=1), 0, 1), 0.0)
            chances.append(np.floor(p @ self._levels[:top] + rest * self._levels[top]).astype(np.int64))
        return np.clip(np.concatenate(chances), 0, UNIT)

    def alone(self, delta: float) -> float | None:
        """Return the epsilon of one attempt to make one record at this delta, by Theorem 1; None where it says nothing.

        It holds for Test 2. With `max_plausible` the count is cut at a number above k, which only brings neighbouring
        tables closer; with `max_check_plausible` the theorem was not proved.
        """
        if self.epsilon0 is None or self.max_check_plausible is not None or delta <= 0:
            return None
        epsilon = theorem_one(self.k, self.epsilon0, self.gamma, delta)
        return epsilon if math.isfinite(epsilon) else None


def _log_choose(n: Array | int, k: Array | int) -> Array:
    return np.asarray(gammaln(np.add(n, 1.0)) - gammaln(np.add(k, 1.0)) - gammaln(np.subtract(n, k) + 1.0))
