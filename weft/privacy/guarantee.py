"""From what was spent to the guarantee that holds: an epsilon at a delta, and the statement that a release carries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weft.privacy import accounting as convert
from weft.privacy.budget import Accounting
from weft.privacy.sensitivity import Adjacency

DENIABILITY = (
    "PLAUSIBLE DENIABILITY, NOT DIFFERENTIAL PRIVACY: records may have been grown from private rows, behind a test "
    "that other rows could have been their seeds; no epsilon holds for them"
)
"""Stamp of a run from which records leave that are deniable and no more."""


@dataclass(frozen=True)
class Statement:
    """The guarantee of a run, in the end."""

    epsilon: float
    """What the budget allows, as an epsilon at its delta; what was spent is never more. Infinite if nothing holds."""
    delta: float
    """The budget's delta (0 when pure) plus `law_error`."""
    law_error: float
    """What the distance of all draws from their ideal laws adds to delta."""
    unit: str
    """Whom it protects: the neighbour relation in words."""
    stamps: tuple[str, ...]
    """What a reader must know before trusting it, such as NOT PRIVATE."""

    def __str__(self) -> str:
        if DENIABILITY in self.stamps:
            return " | ".join(self.stamps)
        bound = f"({convert.at_most(self.epsilon)}, {convert.at_most(self.delta, 3)})"
        return " | ".join([*self.stamps, f"{bound}-differential privacy, neighbours: {self.unit}"])


def epsilon_of(accounting: Accounting, cost: float, delta: float) -> float:
    """Return a cost as an epsilon at a delta."""
    if accounting == "pure":
        return cost
    if accounting == "gaussian":
        return convert.gdp_epsilon(math.sqrt(2 * cost), delta)
    if accounting == "zcdp":
        return convert.zcdp_epsilon(cost, delta)
    return convert.zcdp_epsilon_closed_form(cost, delta)


def mixture_epsilon(
    branches: Mapping[str, tuple[float, float]],
    parts: Mapping[str, float],
    accounting: Accounting,
    adjacency: Adjacency,
    delta: float,
) -> float:
    """Return the epsilon of a unit whose part of the rows is secret; `branches` are cost and slack of each part.

    Not every part costs the same. Pure: add a unit. It is in part a with chance p_a, and then no outcome is likelier
    than before by more than e^(epsilon_a): ln sum p_a e^(epsilon_a) bounds the mixture, and in the other direction
    1 / sum p_a e^(-epsilon_a), which is less. A replaced unit has no such common ground: the largest epsilon_a holds.
    Gaussian: the hockey-stick divergence is jointly convex, so delta(epsilon) is at most the mean of the parts' own,
    and so is the slack. zCDP: the largest epsilon of a part.
    """
    chances = {"": max(0.0, 1 - math.fsum(parts.values()))} | dict(parts)
    if accounting == "pure" and adjacency.relation == "add-remove":
        top = max(cost for cost, _ in branches.values())  # taken out of the sum, so that it cannot overflow
        mixed = math.fsum(chances[part] * math.exp(cost - top) for part, (cost, _) in branches.items())
        return max(0.0, min(top, top + math.log(mixed)))
    if accounting == "gaussian" and parts:
        slack = math.fsum(chances[part] * slack for part, (_, slack) in branches.items())
        mus = [(chances[part], math.sqrt(2 * cost)) for part, (cost, _) in branches.items()]
        return _with_slack(lambda left: _mixed_epsilon(mus, left), delta, slack)
    return max(
        _with_slack(lambda left, cost=cost: epsilon_of(accounting, cost, left), delta, slack)  # type: ignore[misc]
        for cost, slack in branches.values()
    )


def _with_slack(epsilon_at: Callable[[float], float], delta: float, slack: float) -> float:
    """Return the epsilon that holds at a delta of which slack t takes (1 + e^epsilon) t (`Ledger.spend_statement`).

    It is the least solution of epsilon = epsilon_at(delta - (1 + e^epsilon) t), found from below, where the right side
    grows, and then checked a little above; infinity if there is none.
    """
    epsilon = epsilon_at(delta)
    for _ in range(200 if slack else 0):
        beyond = epsilon * (1 + 1e-9) + 1e-12
        left = delta - (1 + math.exp(min(beyond, 700.0))) * slack
        if left <= 0:
            return math.inf
        epsilon = epsilon_at(left)
        if epsilon <= beyond:
            return beyond
    return math.inf if slack else epsilon


def _mixed_epsilon(mus: Sequence[tuple[float, float]], delta: float) -> float:
    """Return the epsilon at which the mean of the deltas of Gaussian DP, over (chance, mu), is at most delta."""
    low, high = 0.0, convert.gdp_epsilon(max(mu for _, mu in mus), delta)
    for _ in range(100 if math.isfinite(high) else 0):
        middle = (low + high) / 2
        mean = math.fsum(chance * convert.gdp_delta(mu, middle) for chance, mu in mus)
        low, high = (low, middle) if mean <= delta else (middle, high)
    return high
