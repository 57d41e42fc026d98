"""Privacy filters: what a question costs a table over its lifetime, and what all questions together may.

A filter lets questions pass until a bound that was fixed beforehand would be exceeded. Its guarantee holds for
everything that passed, whatever was asked, in whatever order, and even if each question, its noise included, was
chosen after the answers to all others: fully adaptive composition.

- `gaussian`: if the sum of mu_i^2 never exceeds mu^2, all together is mu-GDP (Smith and Thakurta, "Fully Adaptive
  Composition for Gaussian Differential Privacy", 2022). Pure noise joins at the mu of any epsilon-DP mechanism
  (`pure_mu`).
- `zcdp`: if the sum of rho_i never exceeds rho, all together is rho-zCDP (Feldman and Zrnic, "Individual Privacy
  Accounting via a Renyi Filter", 2021, at every order alike; Whitehouse et al., "Fully-Adaptive Composition in
  Differential Privacy", 2023).
- `pure`: if the sum of epsilon_i never exceeds epsilon, all together is epsilon-DP (Rogers et al., "Privacy Odometers
  and Filters", 2016).

Answers that keep to their law only up to a total-variation distance (the slack of seeds, the noise laws) are paid
from a part of delta that is set aside from the start: distances add up, and t in all adds (1 + e^epsilon) t to delta.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from weft.errors import BudgetError
from weft.privacy.accounting import AccountingLike, find_accounting
from weft.privacy.budget import Budget
from weft.privacy.charge import Charge
from weft.privacy.conversions import pure_mu
from weft.privacy.noise import LAW_ERROR

Filter = Literal["gaussian", "zcdp", "pure"]
"""How the costs of runs add up over the lifetime of a table."""

FILTERS: tuple[Filter, ...] = get_args(Filter)

SLACK_SHARE = 0.1
"""Part of delta that is set aside for slack and for the error of noise laws."""

DEAREST = 2 * math.pi
"""How much more a charge may cost in mu^2/2 than in rho: small choices do, (pi/2) in place of 1/4."""


def compute_capacity(budget: Budget, kind: Filter) -> float:
    """Return what may be spent in all, in mu^2/2, rho or epsilon, with the part of delta for slack set aside."""
    aside = 1.0 if find_accounting(kind).is_pure else 1.0 - SLACK_SHARE
    return Budget(epsilon=budget.epsilon, delta=budget.delta * aside).capacity(kind)


def slack_capacity(budget: Budget) -> float:
    """Return the total-variation distance that may be paid in all."""
    return SLACK_SHARE * budget.delta / (1 + math.exp(min(budget.amount, 700.0)))


def compute_slack(charge: Charge) -> float:
    """Return the total-variation distance of an answer from one that has exactly its cost."""
    return charge.slack + charge.draws * LAW_ERROR


def compute_price(charge: Charge, kind: Filter) -> float:
    """Return what a charge costs under a filter; BudgetError where it has no price."""
    if not charge.definition.is_private:
        raise BudgetError(
            f"{charge.question!r} has no price: deniable records are not differentially private, and no lifetime "
            "budget holds for a table that releases some"
        )
    return find_accounting(kind).price_for_lifetime(charge)


def may_cost(budget: Budget, accounting: AccountingLike, kind: Filter) -> float:
    """Return the most that a run with this budget can cost under a filter.

    A pure run costs most if one question takes all of it: `pure_mu(e)`^2 and e^2 grow faster than in proportion.
    """
    whole = budget.capacity(accounting)
    own, total = find_accounting(accounting), find_accounting(kind)
    if total.is_pure and not own.is_pure:
        raise BudgetError("this lifetime budget is pure: take delta 0, and a method that can do without Gaussian noise")
    if own.is_pure and not total.is_pure:
        return (pure_mu(whole) if total.is_exact_gaussian else whole) ** 2 / 2
    return whole * (DEAREST if total.is_exact_gaussian and not own.is_exact_gaussian else 1.0)


def find_affordable_epsilon(left: float, budget: Budget, accounting: AccountingLike, kind: Filter) -> float:
    """Return the largest epsilon, at a run's delta, that fits into what is left; rounded down."""
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        try:
            fits = may_cost(Budget(epsilon=middle, delta=budget.delta), accounting, kind) <= left
        except BudgetError:  # too small to be a budget
            fits = True
        low, high = (middle, high) if fits else (low, middle)
    return math.floor(low * 1e4) / 1e4
