"""Upper bounds on what an attacker can gain from a release: singling out, linkage and inference.

One theorem covers the three. Let G(b) = 1 - f(b), where f is the trade-off function of the guarantee: no test that
accepts the table without the person with probability b accepts the table with the person with more than G(b). For
(epsilon, delta)-DP, G(b) = min(e^epsilon b + delta, 1 - e^-epsilon (1 - delta - b)); for mu-GDP, G(b) = Phi(Phi^-1(b) +
mu) (Dong, Roth and Su 2022). G is concave. Let the attacker succeed with probability b against a release made without
the person's rows (under replace-one: with fixed other rows in their place), whatever else the attacker knows.

- Singling out (Cohen and Nissim 2020): the attacker describes one person by a predicate that a randomly drawn person
  meets with probability at most b. Without the person's rows, the predicate and the person are independent, so the
  person meets it with probability at most b; "the predicate fits the person" is a test, so with the rows it is at most
  G(b). For n people, the union bound gives n G(b) for the event that the predicate fits any of them.
- Linkage: one of k people, drawn uniformly, is in the table, and the attacker names one. Let q_j be the probability of
  naming j if none of them is. Then success is at most mean(G(q_j)) <= G(mean(q_j)) <= G(1/k), by Jensen's inequality.
- Inference: the attacker guesses a value of the person's and knows all else. Given each value v, success is at most
  G(q_v), where q_v is the probability of guessing v without the rows; by Jensen's inequality over the distribution of
  v, success is at most G(b), where b is the success without the rows. What the table reveals of people in general is
  part of b.

The advantage G(b) - b is largest where the trade-off function meets the diagonal: (e^epsilon - 1 + 2 delta) /
(e^epsilon + 1), or 2 Phi(mu / 2) - 1. It is also the total variation distance, so that an attacker who guesses which of
two equally likely neighbouring tables was used is right with probability at most (1 + advantage) / 2.

Noise laws and slack: if all answers are within a total variation distance t of ideal ones, a test gains at most t on
each side, so G(b + t) + t and advantage + 2 t hold.
"""

import math
from collections.abc import Iterator

from scipy.special import ndtr, ndtri

from weft.privacy.ledger import Ledger
from weft.privacy.noise import LAW_ERROR

_DELTAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 1e-12)
"""Deltas at which a guarantee in rho is converted: it implies (epsilon, delta)-DP at every delta."""


def bound_success(ledger: Ledger, chance: float) -> float:
    """Return the largest probability of success, for an attacker who succeeds with `chance` without the person."""
    mu, t = _gaussian_terms(ledger)
    before = min(1.0, chance + t)
    found = [1.0, *(_trade(chance, epsilon, delta) for epsilon, delta in [_stated(ledger)])]
    found += [_trade(before, epsilon, delta) + t for epsilon, delta in _implied(ledger)]
    if mu is not None and before < 1:
        found.append(float(ndtr(ndtri(before) + mu)) + t)
    return min(found)


def bound_advantage(ledger: Ledger) -> float:
    """Return the largest advantage of any attack over its success without the person's rows."""
    mu, t = _gaussian_terms(ledger)
    found = [1.0, _distance(*_stated(ledger)), *(_distance(*pair) + 2 * t for pair in _implied(ledger))]
    return min([*found, *([] if mu is None else [float(2 * ndtr(mu / 2) - 1) + 2 * t])])


def _stated(ledger: Ledger) -> tuple[float, float]:
    statement = ledger.spend_statement()
    return statement.epsilon, statement.delta


def _implied(ledger: Ledger) -> Iterator[tuple[float, float]]:
    """Yield (epsilon, delta) pairs that the whole budget implies besides the stated one."""
    if not (ledger.accounting.is_pure or ledger.accounting.is_exact_gaussian):
        capacity = ledger.budget.capacity(ledger.accounting)
        yield from ((ledger.accounting.find_epsilon(capacity, delta), delta) for delta in _DELTAS)


def _gaussian_terms(ledger: Ledger) -> tuple[float | None, float]:
    """Return mu of the whole budget (None: not Gaussian DP), and the distance of all answers from ideal ones."""
    t = ledger.slack + LAW_ERROR * sum(entry.draws for entry in ledger.entries)
    exact = ledger.accounting.is_exact_gaussian
    return (math.sqrt(2 * ledger.budget.capacity(ledger.accounting)) if exact else None), t


def _trade(chance: float, epsilon: float, delta: float) -> float:
    grown = math.exp(min(epsilon, 700.0))
    return max(chance, min(grown * chance + delta, 1 - (1 - delta - chance) / grown, 1.0))


def _distance(epsilon: float, delta: float) -> float:
    grown = math.exp(min(epsilon, 700.0))
    return min(1.0, (grown - 1 + 2 * delta) / (grown + 1))
