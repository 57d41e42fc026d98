"""Privacy filters: the cost of a query in a table's lifetime budget, and the bound on all queries together.

A filter admits queries until a bound fixed beforehand would be exceeded. Its guarantee holds for everything that was
admitted, in any order, even if each query and its noise depend on all earlier answers: fully adaptive composition.

- `gaussian`: if the sum of mu_i^2 never exceeds mu^2, the composition is mu-GDP (Smith and Thakurta, "Fully Adaptive
  Composition for Gaussian Differential Privacy", 2022). Pure noise is charged the mu of any epsilon-DP mechanism
  (`pure_mu`), a selection that of any mechanism with its bounded range (`range_mu`).
- `zcdp`: if the sum of rho_i never exceeds rho, the composition is rho-zCDP (Feldman and Zrnic, "Individual Privacy
  Accounting via a Renyi Filter", 2021, applied at every order; Whitehouse et al., "Fully-Adaptive Composition in
  Differential Privacy", 2023).
- `pure`: if the sum of epsilon_i never exceeds epsilon, the composition is epsilon-DP (Rogers et al., "Privacy
  Odometers and Filters", 2016).

Answers that follow their distribution only up to a total-variation distance (slack of seeds, error of noise laws) are
paid from a reserved part of delta: distances add up, and a total of t adds (1 + e^epsilon) t to delta.
"""

import math
from typing import Literal, get_args

from weft.errors import BudgetError
from weft.privacy.accounting import AccountingLike, find_accounting
from weft.privacy.budget import Budget
from weft.privacy.charge import Charge
from weft.privacy.conversions import pure_mu
from weft.privacy.noise import LAW_ERROR

Filter = Literal["gaussian", "zcdp", "pure"]
"""How the costs of runs compose over the lifetime of a table."""

FILTERS: tuple[Filter, ...] = get_args(Filter)

SLACK_SHARE = 0.1
"""Part of delta reserved for slack and for the error of noise laws."""

DEAREST = math.pi / 2
"""Largest ratio of a charge's cost in mu^2/2 to its cost in rho, reached by pure noise and selections of small cost."""


def compute_capacity(budget: Budget, kind: Filter) -> float:
    """Return the total that may be spent, in mu^2/2, rho or epsilon, after reserving the slack share of delta."""
    aside = 1.0 if find_accounting(kind).is_pure else 1.0 - SLACK_SHARE
    return Budget(epsilon=budget.epsilon, delta=budget.delta * aside).capacity(kind)


def slack_capacity(budget: Budget) -> float:
    """Return the total-variation distance that may be spent in total."""
    return SLACK_SHARE * budget.delta / (1 + math.exp(min(budget.amount, 700.0)))


def compute_slack(charge: Charge) -> float:
    """Return the total-variation distance between an answer and one that satisfies its cost exactly."""
    return charge.slack + charge.draws * LAW_ERROR


def compute_price(charge: Charge, kind: Filter) -> float:
    """Return the cost of a charge under a filter; BudgetError if it has no price."""
    if not charge.definition.is_private:
        raise BudgetError(
            f"{charge.question!r} has no price: deniable records are not differentially private, and no lifetime "
            "budget holds for a table that releases some"
        )
    return find_accounting(kind).price_for_lifetime(charge)


def may_cost(budget: Budget, accounting: AccountingLike, kind: Filter) -> float:
    """Return the largest possible cost of a run with this budget under a filter.

    A pure run costs most if a single query spends all of it: `pure_mu(e)`^2 and e^2 are superadditive.
    """
    whole = budget.capacity(accounting)
    own, total = find_accounting(accounting), find_accounting(kind)
    if total.is_pure and not own.is_pure:
        raise BudgetError("this lifetime budget is pure: set delta to 0, and choose a method that supports pure DP")
    if own.is_pure and not total.is_pure:
        return (pure_mu(whole) if total.is_exact_gaussian else whole) ** 2 / 2
    return whole * (DEAREST if total.is_exact_gaussian and not own.is_exact_gaussian else 1.0)


def find_affordable_epsilon(left: float, budget: Budget, accounting: AccountingLike, kind: Filter) -> float:
    """Return the largest epsilon, at a run's delta, that fits into the remaining capacity; rounded down."""
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        try:
            fits = may_cost(Budget(epsilon=middle, delta=budget.delta), accounting, kind) <= left
        except BudgetError:  # below the smallest budget
            fits = True
        low, high = (middle, high) if fits else (low, middle)
    return math.floor(low * 1e4) / 1e4
