"""Plausible deniability: the privacy tests of BSG (PVLDB 2017), and the cost of a table of tested records.

A record is generated from a seed: the first attributes of a private row are kept, and the rest is drawn from a model.
It may be released if enough other rows could have been its seed. With a fixed number of kept attributes these are
exactly the c rows that share its prefix, all with the same probability. The paper's gamma is then irrelevant and the
test depends on c only: the record passes with probability L(c).

From the paper: Test 2, L(c) = P(k + Lap(1/epsilon0) <= c); and Theorem 1, the guarantee of a single released record
(`theorem_one`, with its proof). Test 1, without noise on k, is *not* differentially private at all; `PlausibleTest`
implements it and states its guarantee. `weft_lab.queries.plausible_seeds` extends both tests to
any model with a likelihood.

Own result: the guarantee of a table of N released records is `release_mu` of
`weft_lab.queries.seeded_price`, with its proof.
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

UNIT = 1 << 36
"""Acceptance probabilities are whole multiples of 1/UNIT, so that weights are integers and weighted draws are exact."""

MAX_DENIABLE_ROWS = 1 << 26
"""Tables with this many rows cannot use seeds: below, every weight and sum of weights is exact and below 2**62."""

_CERTAIN = 30.0
"""L is set to 1 from k + 30 / epsilon0 on, where the omitted Laplace tail is below 1e-13."""


@dataclass(frozen=True)
class Acceptance:
    """Test 2: the probability that a record is released whose prefix c seeds share.

    >>> test = Acceptance(k=50, epsilon0=1.0)
    >>> (test.levels[[49, 50, 51]] / UNIT).round(3).tolist()
    [0.184, 0.5, 0.816]
    """

    k: int
    """Threshold on the number of seeds that share the prefix, before noise."""
    epsilon0: float
    """The noise on k is Laplace with scale 1/epsilon0."""

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 1 or not 1e-4 <= self.epsilon0 <= 100:
            raise BudgetError("the privacy test needs a whole number k >= 1 and an epsilon0 between 0.0001 and 100")
        if not self.k + _CERTAIN / self.epsilon0 < MAX_DENIABLE_ROWS:
            raise BudgetError(
                f"the privacy test needs k + {_CERTAIN:g} / epsilon0 below {MAX_DENIABLE_ROWS:,}: choose a smaller k"
            )

    @classmethod
    def of(cls, terms: Mapping[str, float]) -> Acceptance:
        """Rebuild the test from the terms of a charge."""
        return cls(int(terms["k"]), float(terms["epsilon0"]))

    def __str__(self) -> str:
        return f"privacy test 2 with k = {self.k} and epsilon0 = {self.epsilon0:.4g}"

    @cached_property
    def levels(self) -> Array:
        """L(c) in units of 1/UNIT for c = 0, 1, ... up to the first c where it is constant at UNIT."""
        c = np.arange(self.k + math.ceil(_CERTAIN / self.epsilon0) + 1)
        away = self.epsilon0 * np.abs(c - self.k)
        levels: Array = np.floor(np.where(c < self.k, np.exp(-away) / 2, 1 - np.exp(-away) / 2) * UNIT).astype(np.int64)
        levels[-1] = UNIT
        return levels

    def weights(self, counts: Array) -> Array:
        """Return w(c) = c L(c) for each count, in units of 1/UNIT: exact for counts up to MAX_DENIABLE_ROWS."""
        return np.asarray(counts * self.levels[np.minimum(counts, len(self.levels) - 1)], np.int64)

    @cached_property
    def sensitivity(self) -> int:
        """Sensitivity of floor(S) to one row, S the sum of w: the largest step of w, rounded up."""
        return int(-(-int(np.diff(self.weights(np.arange(len(self.levels) + 1))).max()) // UNIT))


def theorem_one(k: int, epsilon0: float, gamma: float, delta: float) -> float:
    """Return the epsilon of one released record under Test 2 by the paper's Theorem 1; infinity if none holds.

    For 1 <= t < k, epsilon = epsilon0 + ln(1 + gamma / t) with delta = e^(-epsilon0 (k - t)): the largest t whose delta
    is small enough is used. For a fixed number of kept attributes, gamma may be set to 1.

    Privacy: holds for one attempt under Test 2, add/remove neighbours, tables of n >= t rows, and sets of records (not
    the event that none is released). The proof gives half of the paper's delta, e^(-epsilon0 (k - t)) / 2.

    Proof. A seed d is drawn uniformly from the n rows and a record y from M(d); the plausible seeds of y are the rows
    in the likelihood class of d (`classify_likelihoods`). The class of a row a depends only on y and a. So Pr[y is
    released] = 1/n sum_i P_i L(c_i), where class i has c_i rows and P_i is the sum of Pr{y = M(a)} over them. One more
    row enters one class, which has l rows before, and n becomes n + 1.

    - If l >= t: the probability of the new row is at most gamma times that of each of the l rows, so the sum of the
      class grows by a factor of at most 1 + gamma / l; L(l + 1) <= e^epsilon0 L(l); and 1/(n + 1) <= 1/n. The ratio is
      at most e^epsilon.
    - If l < t: the class contributes at most 1/(n + 1) times its sum times L(l + 1). Over all such y this is at most
      L(t) = e^(-epsilon0 (k - t)) / 2, because the probabilities of all y given one seed sum to 1 and l + 1 <= t. All
      other classes contribute less than before.
    - Reverse direction (the row is removed): only 1/n falls, to 1/(n + 1), when a row is added. The ratio is at most
      (n + 1) / n <= 1 + gamma / t.

    L is rounded down to multiples of 1/UNIT, so that L(l + 1) <= e^epsilon0 (L(l) + 1/UNIT): this adds at most
    e^epsilon0 / UNIT to delta, which the other half of the paper's delta must cover.

    Not covered: that no record is released, which of several attempts passed, and records retried until they pass.
    `until_passed` bounds the last, but composed over a table of records its bound is useless. So nothing tested here
    has a price in a ledger: the records are stamped as deniable only (`Charge.deniable`).

    >>> round(theorem_one(50, 1.0, 4.0, 2.0**-30), 3)
    1.129
    """
    t = min(k - 1, math.floor(k + math.log(delta) / epsilon0 + 1e-9))
    holds = t >= 1 and math.exp(epsilon0) / UNIT <= delta / 2
    return epsilon0 + math.log1p(gamma / t) if holds else math.inf


BUCKETS = "buckets"
"""Term of charges for records that were tested by likelihood class (`plausible_seeds`)."""

_CELLS = 1 << 20
"""Probabilities evaluated in one batch."""


@dataclass(frozen=True)
class PlausibleTest:
    """Tests 1 and 2 for single records: plausible deniability of each, *not* differential privacy of a table.

    A record y keeps the first attributes of its seed, and its last omega are drawn. Its plausible seeds are the rows
    that generate (omega, y) with the same probability up to a factor gamma. Pr{y | seed d, omega} is 0 unless d has the
    kept attributes of y; then it is a product of conditional probabilities whose parents are read from y, and does not
    involve d. So they are the c rows that share y's prefix, all with the same probability: the test depends on c only.

    Test 1 releases y if c >= k; Test 2 adds Laplace noise of scale 1/epsilon0 to k. `max_plausible` and
    `max_check_plausible` can only lower c, so under Test 1 a released record still has k plausible seeds.

    Privacy (Test 1), also for a random omega that is not revealed: a record draws omega first, then a seed that passes
    for it. For a released y, omega passes if at least k rows share y's prefix; the prefix shrinks as omega grows, so
    all larger omegas pass too. A row generates y with probability sum P(omega) q_omega(y) / S_omega over the passing
    omegas for which it shares y's prefix: the terms are the same for every row. So the rows that share the longest
    passing prefix, at least k, are equally likely seeds, and no row is likelier. With a uniform prior over the rows, no
    row has a posterior probability above 1/k of being the seed of y.

    Limits: Test 1 is not differentially private for any epsilon, because one more row can raise the probability of a
    prefix from 0. Test 2 bounds one attempt at one record (`theorem_one`), not a record retried until it passes, nor a
    table of them. Records of one table together reveal more about the seeds than each alone; see `release_mu`.

    >>> test = PlausibleTest(k=3)
    >>> str(test), (test.weights(np.array([2, 3, 5])) // UNIT).tolist()
    ('privacy test 1 with k = 3, where rows pass it', [0, 3, 5])
    """

    k: int
    """Number of plausible seeds that a record needs."""
    epsilon0: float | None = None
    """Test 2: the noise on k is Laplace with scale 1/epsilon0. None: Test 1, no noise."""
    gamma: float = 4.0
    """Factor within which the probabilities of plausible seeds lie; irrelevant here, where they are equal."""
    max_plausible: int | None = None
    """Number of plausible seeds at which counting stops; None: all are counted."""
    max_check_plausible: int | None = None
    """Number of randomly chosen seeds among which plausible ones are counted; None: all."""

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or not 1 <= self.k < MAX_DENIABLE_ROWS or not 1 < self.gamma < math.inf:
            raise BudgetError("the privacy test needs a whole number k >= 1 and a gamma above 1")
        for most in (self.max_plausible, self.max_check_plausible):
            if most is not None and (not isinstance(most, int) or most < self.k):
                raise BudgetError("max_plausible and max_check_plausible must be whole numbers of at least k")
        if self.epsilon0 is not None:
            Acceptance(self.k, self.epsilon0)  # validates both

    @property
    def terms(self) -> dict[str, float]:
        """The parameters as numbers, without those that are None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def of(cls, terms: Mapping[str, float]) -> PlausibleTest:
        """Rebuild the test from the terms of a charge."""
        own = {name: value for name, value in terms.items() if name != BUCKETS}
        whole = {name: int(terms[name]) for name in ("k", "max_plausible", "max_check_plausible") if name in terms}
        return cls(**{**own, **whole})  # type: ignore[arg-type]

    def __str__(self) -> str:
        noise = "" if self.epsilon0 is None else f" and epsilon0 = {self.epsilon0:.4g}"
        # Whether any row passes depends on the rows without noise, so the public ledger says only "where rows pass it".
        return f"privacy test {1 if self.epsilon0 is None else 2} with k = {self.k}{noise}, where rows pass it"

    @cached_property
    def _levels(self) -> Array:
        """Probability to pass, in units of 1/UNIT, by number of plausible seeds; the last entry holds from there on."""
        if self.epsilon0 is None:
            levels = np.zeros(self.k + 1, np.int64)
            levels[-1] = UNIT
        else:
            levels = Acceptance(self.k, self.epsilon0).levels
        return levels if self.max_plausible is None else levels[: self.max_plausible + 1]

    def chances(self, counts: Array) -> Array:
        """Return the probability to pass, in units of 1/UNIT, by each record's number of plausible seeds."""
        return np.asarray(self._levels[np.minimum(counts, len(self._levels) - 1)])

    def weights(self, counts: Array) -> Array:
        """Return c times the probability to pass, in units of 1/UNIT; `counts` must cover all prefixes of the seeds."""
        seeds, checked = int(counts.sum()), self.max_check_plausible
        if checked is None or checked >= seeds:
            chance = self.chances(counts)
        else:
            distinct, back = np.unique(counts, return_inverse=True)
            chance = self._checked(distinct, seeds, checked)[back]
        return np.asarray(counts * chance, np.int64)

    def _checked(self, counts: Array, seeds: int, checked: int) -> Array:
        """Return the probabilities if plausible seeds are counted among `checked` random ones: h is hypergeometric."""
        top = len(self._levels) - 1
        h = np.arange(top)
        chances = [np.empty(0, np.int64)]
        for c in np.array_split(counts[:, None], 1 + counts.size * top // _CELLS):
            inside = (h <= c) & (checked - h <= seeds - c) & (h <= checked)
            few = np.where(inside, h, np.minimum(c, checked))  # outside, any valid h: masked below
            few = np.maximum(few, checked - (seeds - c))
            log = _log_choose(c, few) + _log_choose(seeds - c, checked - few) - _log_choose(seeds, checked)
            p = np.where(inside, np.exp(log), 0.0)
            # Rounding in the logarithms of large factorials leaves the sum about 1e-8 from 1. Where fewer than `top`
            # seeds can be counted, this gap must not become a probability to count more: there Test 1 releases nothing,
            # and Test 2 only what its levels allow.
            able = np.minimum(c[:, 0], checked) >= top
            rest = np.where(able, np.clip(1 - p.sum(axis=1), 0, 1), 0.0)
            chances.append(np.floor(p @ self._levels[:top] + rest * self._levels[top]).astype(np.int64))
        return np.clip(np.concatenate(chances), 0, UNIT)

    def alone(self, delta: float) -> float | None:
        """Return the epsilon of one attempt at one record at this delta by Theorem 1; None where it does not apply.

        It applies to Test 2. With `max_plausible`, the count is capped above k, which only brings neighbouring tables
        closer; with `max_check_plausible`, the theorem is not proved.
        """
        if self.epsilon0 is None or self.max_check_plausible is not None or delta <= 0:
            return None
        epsilon = theorem_one(self.k, self.epsilon0, self.gamma, delta)
        return epsilon if math.isfinite(epsilon) else None


def _log_choose(n: Array | int, k: Array | int) -> Array:
    return np.asarray(gammaln(np.add(n, 1.0)) - gammaln(np.add(k, 1.0)) - gammaln(np.subtract(n, k) + 1.0))
