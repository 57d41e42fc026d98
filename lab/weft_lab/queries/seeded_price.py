"""Price of a table of records from seeds: the cost of N records that passed the privacy test of BSG.

The guarantee of a table of N released records (`release_mu`). Only accepted records are released, exactly N
of them, so their prefixes are N independent draws with weight w(c) = c L(c) over S, the sum of all w. One more row with
prefix v turns w(c) into w(c + 1) and leaves all other weights unchanged. Given that a draw is not v, its distribution
is the same on both tables; so the N records reveal no more than the number of draws equal to v: Binomial(N, p) against
Binomial(N, q) with p = a / (S0 + a), q = b / (S0 + b), a = w(c), b = w(c + 1), and S0 the other prefixes' weight.
docs/decisions/008 shows that

    p' = a / (M + b), q' = b / (M + b)       dominates every such pair with S0 + a >= M,

since (p, q) is a randomised post-processing of (p', q'); that a pair with larger b/a and larger (b - a)/M dominates
another, so few c need evaluation; and that Binomial(N, p') against Binomial(N, q') is mu-GDP if and only if, for all x,

    mu >= ndtri(Q(X > x)) - ndtri(P(X > x)),

because the trade-off function of two binomials is piecewise linear with its corners there, and the Gaussian one is
convex. Counts with a tail probability of at most `slack` are cut off first; the ledger adds this distance to delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaincc, ndtri

from weft.marginals.marginal import Array
from weft.privacy.charge import Charge
from weft.privacy.deniability import UNIT, Acceptance
from weft.privacy.noise import UNIFORM_ERROR

_CORNERS = 1 << 20
"""Corners of trade-off functions evaluated in one batch."""

_BLOCKS = 8
"""Number of blocks into which a range of counts c, or an unresolved block, is divided."""

_CLOSE = 1e-3
"""Relative tolerance between the bound on mu for a block of counts and the mu of a single count."""

_GUARD = 1e-6
"""Relative margin on mu for rounding of the binomial tails, which are accurate to about eleven digits."""


def charge_seeded(question: str, *, test: Acceptance, records: int, passing: float, slack: float) -> Charge:
    """Charge for records from seeds that passed the test: mu-GDP up to the slack (`release_mu`).

    `passing` is a lower bound on the number of passing seeds, wrong with probability at most slack/2. The scale is
    that of Gaussian noise on a count with the same mu. Without a sufficient mu, it is nearly 0: no budget covers
    it.
    """
    # Part of the slack pays for the deviation of the uniform draws from their ideal distribution.
    mu = release_mu(test, records, passing, slack / 2 - records * UNIFORM_ERROR)
    terms = {"k": test.k, "epsilon0": test.epsilon0, "passing": passing}
    return Charge(question, "seeded", "rows", 1.0, 1 / min(max(mu, 1e-9), 1e9), records, slack, terms=terms)


def release_mu(test: Acceptance, records: int, passing: float, slack: float, enough: float = math.inf) -> float:
    """Return mu such that releasing `records` records is mu-GDP up to `slack` in total variation, for one added row.

    `passing` is a lower bound on S, in seeds, on the smaller table. If mu exceeds `enough`, the search stops early and
    the result is some value above `enough`, not necessarily mu.
    """
    if passing <= 0 or slack <= 0:
        return math.inf
    # Once L is 1, the pair for c dominates the pair for c + 1: these c cover all others.
    weight = test.weights(np.arange(len(test.levels) + 1))
    before, after = weight[:-1] / UNIT, weight[1:] / UNIT
    gain = np.diff(weight) / UNIT
    # S0 + a >= M and, where a > M, S0 >= 0: in the worst case the other prefixes then have weight 0.
    step = gain / np.maximum(passing, before)
    growth = np.divide(gain, after, out=np.zeros_like(gain), where=after > 0)
    # p' and q' follow from growth = 1 - a/b and step = (b - a)/M, and a pair with larger values of both dominates.
    # So the maxima over a block of counts give an upper bound for the block, which is divided only if it is too large.
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
    edges = begin[:, None] + (end - begin)[:, None] * np.arange(_BLOCKS + 1) // _BLOCKS
    begin, end = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    return begin[begin < end], end[begin < end]


def _compute_block_maxima(values: Array, begin: Array, end: Array) -> Array:
    return np.asarray(np.maximum.reduceat(np.r_[values, 0.0], np.column_stack([begin, end]).ravel())[::2])


def _pair_mus(growth: Array, step: Array, n: int, slack: float) -> Array:
    """Return the mu of each pair, given growth = 1 - a/b and step = (b - a)/M."""
    q = np.divide(step, step + growth, out=np.zeros_like(step), where=step > 0)
    return _binomial_mus((1 - growth) * q, q, n, slack)


def _binomial_mus(p: Array, q: Array, n: int, slack: float) -> Array:
    """Return the mu of each pair Binomial(n, p_i) against Binomial(n, q_i), p_i <= q_i."""
    # The count is cut at J above, with Q(X > J) <= slack/2, and at J' below, with P(X < J') <= slack/2: the corners x
    # with J' <= x < J remain. By Bernstein's inequality, none remains outside these bounds.
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
    """P(X > x) and P(X <= x) of binomials, computed separately: 1 minus a tail near 1 loses its digits."""

    upper: Array
    lower: Array

    @classmethod
    def of(cls, x: Array, n: int, chance: Array) -> _Tails:
        upper, lower = (np.asarray(tail(x + 1.0, n - x, chance)) for tail in (betainc, betaincc))
        return cls(upper, lower)

    def quantile(self, keep: Array) -> Array:
        """Return ndtri(upper), computed from the smaller tail."""
        upper, lower = self.upper[keep], self.lower[keep]
        return np.asarray(np.where(upper < 0.5, ndtri(upper), -ndtri(lower)))
