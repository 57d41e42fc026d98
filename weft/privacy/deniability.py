"""Plausible deniability: the privacy test of BSG (PVLDB 2017), and what a whole table of tested records costs.

A record is made from a seed: the first attributes of a private row are kept, the rest is drawn from a model. It may
leave if enough other rows could have been its seed. With a fixed number of kept attributes these are exactly the c rows
that share its prefix, all with the same probability, so the paper's gamma plays no part and the test needs nothing but
c: the record passes with probability L(c).

The paper's: Test 2, L(c) = P(k + Lap(1/epsilon0) <= c); and Theorem 1, the guarantee of a single released record
(`theorem_one`). Its Test 1, without noise on k, is *not* differentially private at all: see `weft.privacy.deniability`
for what it does promise.

Ours: the guarantee of a table of N released records (`release_mu`). Only accepted records leave, exactly N of them,
so their prefixes are N independent draws with weight w(c) = c L(c) over S, the sum of all w. A row more with prefix
v turns w(c) into w(c + 1) and leaves all other weights as they are. Given that a draw is not v, its law is the same on
both tables; so the N records tell no more than how many of them are v: Binomial(N, p) against Binomial(N, q) with
p = a / (S0 + a), q = b / (S0 + b), a = w(c), b = w(c + 1), S0 the weight of the others. docs/decisions/008 shows that

    p' = a / (M + b), q' = b / (M + b)       dominates every such pair with S0 + a >= M,

since (p, q) comes from (p', q') by a random map; that a pair with larger b/a and larger (b - a)/M dominates another, so
that few c need to be looked at; and that Binomial(N, p') against Binomial(N, q') is mu-GDP if and only if, for all x,

    mu >= ndtri(Q(X > x)) - ndtri(P(X > x)),

for the trade-off function of two binomials is piecewise linear with its corners there, and the Gaussian one is convex.
Counts so rare that they have a probability of at most `slack` are cut off first; `slack` is a distance in total
variation, which the ledger adds to delta.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from scipy.special import betainc, betaincc, gammaln, ndtri

from weft.errors import BudgetError
from weft.marginals.marginal import Array

UNIT = 1 << 36
"""Acceptance probabilities are whole multiples of 1/UNIT: weights are integers, and draws by them exact."""

MAX_DENIABLE_ROWS = 1 << 26
"""Tables of so many rows have no seeds: below, every weight and every sum of weights is below 2**62, and exact."""

_CERTAIN = 30.0
"""L is 1 from k + 30 / epsilon0 on, where the Laplace tail that it leaves out is below 1e-13."""

_CORNERS = 1 << 20
"""Corners of trade-off functions looked at in one go."""

_BLOCKS = 8
"""Blocks into which counts c are divided, and blocks that need a closer look again."""

_CLOSE = 1e-3
"""How far, in proportion, the mu that stands for a block of counts may be above that of one of them."""

_GUARD = 1e-6
"""Relative guard on mu against the rounding of the binomial tails, which are good to eleven digits or so."""


@dataclass(frozen=True)
class Acceptance:
    """The privacy test: how likely a record is to be let out whose prefix c seeds share.

    >>> test = Acceptance(k=50, epsilon0=1.0)
    >>> (test.levels[[49, 50, 51]] / UNIT).round(3).tolist()
    [0.184, 0.5, 0.816]
    """

    k: int
    """Seeds that must share the prefix, before noise."""
    epsilon0: float
    """The noise on k is Laplace of scale 1/epsilon0."""

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 1 or not 1e-4 <= self.epsilon0 <= 100:
            raise BudgetError("the privacy test needs a whole k of 1 or more, and epsilon0 between 0.0001 and 100")
        if not self.k + _CERTAIN / self.epsilon0 < MAX_DENIABLE_ROWS:
            raise BudgetError(
                f"the privacy test needs k + {_CERTAIN:g} / epsilon0 below {MAX_DENIABLE_ROWS:,}: choose a smaller k"
            )

    @classmethod
    def of(cls, terms: Mapping[str, float]) -> Acceptance:
        """Rebuild the test that a charge names."""
        return cls(int(terms["k"]), float(terms["epsilon0"]))

    def __str__(self) -> str:
        return f"privacy test 2 with k = {self.k} and epsilon0 = {self.epsilon0:.4g}"

    @cached_property
    def levels(self) -> Array:
        """L(c) in units of 1/UNIT for c = 0, 1, ... up to where it stays at UNIT."""
        c = np.arange(self.k + math.ceil(_CERTAIN / self.epsilon0) + 1)
        away = self.epsilon0 * np.abs(c - self.k)
        levels: Array = np.floor(np.where(c < self.k, np.exp(-away) / 2, 1 - np.exp(-away) / 2) * UNIT).astype(np.int64)
        levels[-1] = UNIT
        return levels

    def weights(self, counts: Array) -> Array:
        """Return w(c) = c L(c) for each count, in units of 1/UNIT: exact for counts up to MOST_ROWS."""
        return np.asarray(counts * self.levels[np.minimum(counts, len(self.levels) - 1)], np.int64)

    @cached_property
    def sensitivity(self) -> int:
        """How far a row moves floor(S), S the sum of w: the largest step of w, rounded up."""
        return int(-(-int(np.diff(self.weights(np.arange(len(self.levels) + 1))).max()) // UNIT))


def theorem_one(k: int, epsilon0: float, gamma: float, delta: float) -> float:
    """Return the epsilon of one released record under Test 2, the paper's Theorem 1; infinity if none holds.

    For 1 <= t < k, epsilon = epsilon0 + ln(1 + gamma / t) with delta = e^(-epsilon0 (k - t)): the largest t is taken
    whose delta is small enough. For a fixed number of kept attributes gamma may be taken as 1.

    >>> round(theorem_one(50, 1.0, 4.0, 2.0**-30), 3)
    1.129
    """
    t = min(k - 1, math.floor(k + math.log(delta) / epsilon0 + 1e-9))
    return epsilon0 + math.log1p(gamma / t) if t >= 1 else math.inf


def release_mu(test: Acceptance, records: int, passing: float, slack: float, enough: float = math.inf) -> float:
    """Return mu such that releasing so many records is mu-GDP, up to `slack` in total variation; for one row more.

    `passing` is a lower bound of S, in seeds, on the smaller table. Where mu is found to be above `enough`, the search
    ends and what is returned is above it too, but need not be mu.
    """
    if passing <= 0 or slack <= 0:
        return math.inf
    # From the c on from which L is 1, the pair for c dominates the pair for c + 1: these c stand for all.
    weight = test.weights(np.arange(len(test.levels) + 1))
    before, after = weight[:-1] / UNIT, weight[1:] / UNIT
    gain = np.diff(weight) / UNIT
    # S0 + a >= M and, where a > M, S0 >= 0: then the others weigh nothing in the worst case.
    step = gain / np.maximum(passing, before)
    growth = np.divide(gain, after, out=np.zeros_like(gain), where=after > 0)
    # p' and q' follow from growth = 1 - a/b and step = (b - a)/M, and a pair with more of both dominates one with less.
    # So the most of each that a block of counts has stand for all of them; only where the mu of this is too large is
    # the block divided.
    at = int(step.argmax())
    least = float(_pair_mus(growth[[at]], step[[at]], records, slack)[0])
    worst, begin, end = least, np.array([0]), np.array([len(step)])
    while len(begin) and least <= enough:
        begin, end = _divide_blocks(begin, end)
        mus = _pair_mus(
            _compute_block_maxima(growth, begin, end), _compute_block_maxima(step, begin, end), records, slack
        )
        alone = end - begin == 1
        least = max(least, float(mus[alone].max(initial=0.0)))
        settled = alone | (mus <= (1 + _CLOSE) * least)
        worst = max(worst, float(mus[settled].max(initial=0.0)))
        begin, end = begin[~settled], end[~settled]
    return worst * (1 + _GUARD)


def _divide_blocks(begin: Array, end: Array) -> tuple[Array, Array]:
    """Divide blocks into smaller ones."""
    edges = begin[:, None] + (end - begin)[:, None] * np.arange(_BLOCKS + 1) // _BLOCKS
    begin, end = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    return begin[begin < end], end[begin < end]


def _compute_block_maxima(values: Array, begin: Array, end: Array) -> Array:
    """Return the largest value of each block."""
    return np.asarray(np.maximum.reduceat(np.r_[values, 0.0], np.column_stack([begin, end]).ravel())[::2])


def _pair_mus(growth: Array, step: Array, n: int, slack: float) -> Array:
    """Return the mu of each pair, given 1 - a/b and (b - a)/M."""
    q = np.divide(step, step + growth, out=np.zeros_like(step), where=step > 0)
    return _binomial_mus((1 - growth) * q, q, n, slack)


def lower_bound(released: float, scale: float, test: Acceptance, beta: float) -> float:
    """Return a lower bound of S, in seeds, on a table and all of its neighbours, from its noisy answer.

    It is wrong with a probability of at most beta. With noise below its quantile at beta, the answer less that quantile
    is below floor(S); less the sensitivity once more, it is below the S of every neighbour too.
    """
    margin = math.ceil(-scale * float(ndtri(beta))) + 1
    return released - margin - test.sensitivity


def _binomial_mus(p: Array, q: Array, n: int, slack: float) -> Array:
    """Return the mu that each pair of Binomial(n, p_i) and Binomial(n, q_i), p_i <= q_i, needs."""
    # The count is cut at J above, with Q(X > J) <= slack/2, and at J' below, with P(X < J') <= slack/2: the corners x
    # with J' <= x < J stay. None does outside these bounds, by Bernstein's inequality.
    reach = 2 * math.log(2 / slack)
    low = np.maximum(np.floor(n * p - np.sqrt(reach * n * p)) - 1, 0).astype(np.int64)
    high = np.minimum(np.ceil(n * q + np.sqrt(reach * n * q) + reach), n - 1).astype(np.int64)
    width = high - low + 1
    mus = np.zeros(len(p))
    runs = 1 + int(width.sum()) // _CORNERS
    for run in np.array_split(np.arange(len(p)), min(runs, len(p))):
        first = np.cumsum(width[run]) - width[run]
        x = np.arange(int(width[run].sum())) + np.repeat(low[run] - first, width[run])
        above, beside = (_Tails.of(x, n, np.repeat(chance[run], width[run])) for chance in (q, p))
        keep = (above.upper > slack / 2) & (beside.lower > slack / 2)
        need = np.zeros(len(x))
        need[keep] = above.quantile(keep) - beside.quantile(keep)
        mus[run] = np.maximum.reduceat(need, first)
    return mus


@dataclass(frozen=True)
class _Tails:
    """P(X > x) and P(X <= x) of binomials: each by itself, since the rest of a tail near 1 has lost its digits."""

    upper: Array
    lower: Array

    @classmethod
    def of(cls, x: Array, n: int, chance: Array) -> _Tails:
        upper, lower = (np.asarray(tail(x + 1.0, n - x, chance)) for tail in (betainc, betaincc))
        return cls(upper, lower)

    def quantile(self, keep: Array) -> Array:
        """Return ndtri(upper), from the smaller tail."""
        upper, lower = self.upper[keep], self.lower[keep]
        return np.asarray(np.where(upper < 0.5, ndtri(upper), -ndtri(lower)))


def plan_deniability(mu: float, records: int, counts: Array, slack: float) -> Acceptance | None:
    """Choose k and epsilon0 so that about mu pays for the records; None if no test does.

    `counts` are the numbers of seeds that share each prefix, as a released model expects them: never those of the rows
    themselves. Of the tests that fit, the one that lets most seeds pass is taken.
    """
    # w(1) must be rare: a new prefix is released with probability records L(1) / S or so, which only slack can pay.
    rare = max(1.0, math.log(max(records / max(int(counts.sum()), 1), 1e-3) / slack))
    best, most = None, 0.0
    for reach in (rare, 1.4 * rare):
        k = 5.0
        while k < counts.max(initial=0):
            test = Acceptance(round(k), min(max(reach / k, 1e-4), 100.0))
            passing = 0.9 * float(test.weights(counts).sum()) / UNIT
            if passing <= most:
                break  # larger k let fewer pass still
            if release_mu(test, records, passing, slack, enough=0.95 * mu) <= 0.95 * mu:
                best, most = test, passing
                break
            k *= 1.2
    return best


# Plausible deniability, record by record: the privacy tests of BSG (PVLDB 2017), without differential privacy.


BUCKETS = "buckets"
"""A term of charges for records that were tested by classes of likelihood (`weft.privacy.deniability`)."""

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
        if not isinstance(self.k, int) or not 1 <= self.k < MAX_DENIABLE_ROWS or not 1 < self.gamma < math.inf:
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


# Plausible deniability for any model that has a likelihood: Mechanism 1 of BSG (PVLDB 2017), by classes of likelihood.


def classify_likelihoods(log_likelihood: Array, gamma: float) -> Array:
    """Return the class of each probability, given its logarithm; -1 where it is 0.

    A probability on the edge may fall to either side by rounding: the same one always to the same, which is all that
    the theorem asks beside the width.

    >>> classify_likelihoods(np.log([1.0, 0.5, 0.26, 0.25, 0.01]), 2.0).tolist()
    [0, 1, 1, 2, 6]
    >>> classify_likelihoods(np.array([-np.inf]), 2.0).tolist()
    [-1]
    """
    with np.errstate(invalid="ignore"):
        found = np.floor(-np.asarray(log_likelihood, np.float64) / math.log(gamma))
    return np.where(np.isfinite(found), np.maximum(found, 0.0), -1.0).astype(np.int64)


def plausible_seeds(own: Array, log_likelihood: Array, counts: Array, gamma: float) -> Array:
    """Return how many rows are in the class of each record's own seed.

    `own` has the logarithm of each record's probability to come from its seed, `log_likelihood` a line for each record
    and a column for each distinct row, of which there are `counts`. A record that even its seed cannot give, which only
    rounding lets be drawn, has none: rows that cannot give it either do not vouch for it.

    >>> never = -np.inf
    >>> plausible_seeds(np.array([never, 0.0]), np.array([[never, never], [0.0, -1.0]]), np.array([5, 7]), 2.0).tolist()
    [0, 5]
    """
    own = classify_likelihoods(own, gamma)[:, None]
    same = (classify_likelihoods(log_likelihood, gamma) == own) & (own >= 0)
    return np.asarray(same @ np.asarray(counts, np.int64), np.int64)


def until_passed(epsilon: float, delta: float, rows: int, chance: float) -> tuple[float, float]:
    """Return epsilon and delta of a record tried for until one passes, if an attempt passes with at least this chance.

    Let p and p' be the chances without and with a row more, on tables of at least so many `rows`. Passing divides
    probabilities by them, and (above) p <= (1 + 1/n) p', p' <= e^epsilon p + delta. So P'(S)/p' is at most (1 + 1/n)
    (e^epsilon P(S) + delta)/p, and P(S)/p at most (1 + 1/n) P'(S)/p with 1/p <= e^epsilon / (p' - delta).

    >>> [round(x, 4) for x in until_passed(1.0, 1e-6, 1000, 0.5)]
    [1.001, 0.0]
    """
    if not 0 < chance <= 1 or delta >= chance:
        return math.inf, 1.0
    back = 1 + 1 / rows
    return epsilon + math.log(back) - math.log1p(-delta / chance), min(1.0, back * delta / chance)
