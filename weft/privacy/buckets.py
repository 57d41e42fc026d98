"""Plausible deniability for any model that has a likelihood: Mechanism 1 of BSG (PVLDB 2017), by classes of likelihood.

A seed d is drawn evenly from the n rows, and a record y from M(d). The *class* of a row a is the i for which
gamma^-(i+1) < Pr{y = M(a)} <= gamma^-i; the plausible seeds of y are the rows in the class of d, d included. With c of
them the record leaves with probability L(c): for Test 1 that is 1 from k on and 0 below, for Test 2 it is
P(k + Lap(1/epsilon0) <= c). Where all rows that may have given y have one probability, as in a model that keeps a
prefix, the class is those rows, and `weft.privacy.plausible` needs no likelihood.

Test 1: a record that leaves has k plausible seeds, each of which gives it with a probability that is within a factor
gamma of the seed's own. It is (k, gamma)-plausible deniability by definition, and no differential privacy: L is a
step.

Theorem 1, for Test 2, add/remove neighbours, one attempt, and sets of records (not the event that none leaves), with
n >= t: for 1 <= t < k, epsilon = epsilon0 + ln(1 + gamma / t) and delta = e^(-epsilon0 (k - t)) / 2.
Proof. Pr[y leaves] = 1/n sum_i P_i L(c_i), P_i being the sum of Pr{y = M(a)} over the c_i rows of class i: which class
a row is in depends on y and that row alone. A row more falls into one class, of l rows; n becomes n + 1.
- If l >= t: its probability is at most gamma times that of each of them, so the class's sum grows by a factor of at
  most 1 + gamma / l; L(l + 1) <= e^epsilon0 L(l); and 1/(n + 1) <= 1/n. The ratio is at most e^epsilon.
- If l < t: the class contributes at most 1/(n + 1) times its sum times L(l + 1), and over all such y at most L(t) =
  e^(-epsilon0 (k - t)) / 2, for a seed gives one y and l + 1 <= t. All other classes contribute less than before.
- The other way round nothing falls but 1/n to 1/(n + 1): a ratio of at most (n + 1) / n <= 1 + gamma / t.
The paper's own delta is twice this one; `theorem_one` keeps it.

What it does not cover: that no record left, which of many attempts passed, and records tried for until they passed.
`until_passed` has the bound for the last; composed over a table of records it is hopeless, so that nothing here has a
price in a ledger: what leaves is stamped as deniable and no more (`Charge.deniable`).
"""

from __future__ import annotations

import math

import numpy as np

from weft.marginals.marginal import Array


def classes(log_likelihood: Array, gamma: float) -> Array:
    """Return the class of each probability, given its logarithm; -1 where it is 0.

    A probability on the edge may fall to either side by rounding: the same one always to the same, which is all that
    the theorem asks beside the width.

    >>> classes(np.log([1.0, 0.5, 0.26, 0.25, 0.01]), 2.0).tolist(), classes(np.array([-np.inf]), 2.0).tolist()
    ([0, 1, 1, 2, 6], [-1])
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
    own = classes(own, gamma)[:, None]
    same = (classes(log_likelihood, gamma) == own) & (own >= 0)
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
