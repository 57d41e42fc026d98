"""Plausible seeds by likelihood class, and the choice of a privacy test (proofs: `weft.privacy.deniability`)."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from weft.marginals.marginal import Array
from weft.privacy.deniability import UNIT, Acceptance
from weft_lab.queries.seeded_price import release_mu


def plan_deniability(mu: float, records: int, counts: Array, slack: float) -> Acceptance | None:
    """Choose k and epsilon0 such that the release of the records costs at most about mu; None if no test does.

    `counts`: seeds per prefix expected under a released model, never the rows' own. Returns the test that passes most.
    """
    # L(1) must be small: a new prefix is released with probability about records L(1) / S, which only slack can cover.
    rare = max(1.0, math.log(max(records / max(int(counts.sum()), 1), 1e-3) / slack))
    best, most = None, 0.0
    for reach in (rare, 1.4 * rare):
        k = 5.0
        while k < counts.max(initial=0):
            test = Acceptance(round(k), min(max(reach / k, 1e-4), 100.0))
            passing = 0.9 * float(test.weights(counts).sum()) / UNIT
            if passing <= most:
                break  # a larger k lets even fewer pass
            if release_mu(test, records, passing, slack, enough=0.95 * mu) <= 0.95 * mu:
                best, most = test, passing
                break
            k *= 1.2
    return best


def lower_bound(released: float, scale: float, test: Acceptance, beta: float) -> float:
    """Return a lower bound on S, in seeds, for a table and all of its neighbours, from the noisy answer for the table.

    It is wrong with probability at most beta. If the noise is below its 1 - beta quantile, the answer minus that
    quantile is below floor(S); minus the sensitivity, it is below the S of every neighbour too.
    """
    margin = math.ceil(-scale * float(ndtri(beta))) + 1
    return released - margin - test.sensitivity


def classify_likelihoods(log_likelihood: Array, gamma: float) -> Array:
    """Return the class i, gamma^-(i+1) < p <= gamma^-i, of each probability p, given its logarithm; -1 for p = 0.

    Rounding may put a probability at a class boundary on either side, but always on the same one, which is all that the
    theorem requires besides the width of the classes.

    >>> classify_likelihoods(np.log([1.0, 0.5, 0.26, 0.25, 0.01]), 2.0).tolist()
    [0, 1, 1, 2, 6]
    >>> classify_likelihoods(np.array([-np.inf]), 2.0).tolist()
    [-1]
    """
    with np.errstate(invalid="ignore"):
        found = np.floor(-np.asarray(log_likelihood, np.float64) / math.log(gamma))
    return np.where(np.isfinite(found), np.maximum(found, 0.0), -1.0).astype(np.int64)


def plausible_seeds(own: Array, log_likelihood: Array, counts: Array, gamma: float) -> Array:
    """Return the number of rows in the likelihood class of each record's own seed, the seed included.

    Mechanism 1 of the paper for any model with a likelihood: with c plausible seeds a record passes with probability
    L(c). Under Test 1, where L is 1 from k on and 0 below, each released record has k plausible seeds, and each of them
    generates it with a probability within a factor gamma of the seed's: (k, gamma)-plausible deniability by definition,
    and not differential privacy, because L is a step function. Test 2: `theorem_one`. If all rows that can generate a
    record have the same probability, as with a kept prefix, the class is these rows, and no likelihood is needed.

    `own` is the log-probability of each record given its seed; `log_likelihood` has a line for each record and a column
    for each distinct row, and `counts` the multiplicity of each row. A record with probability 0 even under its own
    seed, which only rounding can produce, has no plausible seeds: rows that cannot generate it do not count.

    >>> never = -np.inf
    >>> plausible_seeds(np.array([never, 0.0]), np.array([[never, never], [0.0, -1.0]]), np.array([5, 7]), 2.0).tolist()
    [0, 5]
    """
    own = classify_likelihoods(own, gamma)[:, None]
    same = (classify_likelihoods(log_likelihood, gamma) == own) & (own >= 0)
    return np.asarray(same @ np.asarray(counts, np.int64), np.int64)


def until_passed(epsilon: float, delta: float, rows: int, chance: float) -> tuple[float, float]:
    """Return (epsilon, delta) of a record retried until it passes, given a lower bound on the pass probability.

    Let p and p' be the pass probabilities without and with one more row, on tables of at least n = `rows` rows. Passing
    divides probabilities by them; by `theorem_one`, p <= (1 + 1/n) p', p' <= e^epsilon p + delta. So P'(S)/p' <= (1 +
    1/n) (e^epsilon P(S) + delta)/p, and P(S)/p <= (1 + 1/n) P'(S)/p with 1/p <= e^epsilon / (p' - delta).

    >>> [round(x, 4) for x in until_passed(1.0, 1e-6, 1000, 0.5)]
    [1.001, 0.0]
    """
    if not 0 < chance <= 1 or delta >= chance:
        return math.inf, 1.0
    back = 1 + 1 / rows
    return epsilon + math.log(back) - math.log1p(-delta / chance), min(1.0, back * delta / chance)
