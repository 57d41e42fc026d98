"""Privacy budgets: the privacy loss allowed for one privacy unit, fixed before the first query."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from weft.errors import BudgetError
from weft.privacy import conversions as convert
from weft.privacy.accounting import Accounting, AccountingLike, BudgetUnit, find_accounting

MAX_EPSILON = 20.0
"""Largest epsilon without `insecure`: beyond, privacy is nominal, since a release may change odds by e^20."""

MIN_BUDGET = {"epsilon": 1e-4, "mu": 1e-4, "rho": 5e-9}
"""Smallest budgets. Below them noise determines the release, including its number of rows.

Total variation between neighbours is about mu / sqrt(2 pi) under mu-GDP and at most epsilon / 2 under epsilon-DP, which
are of similar size; rho corresponds to mu = sqrt(2 rho)."""

MIN_DELTA = 1e-300
"""Smallest positive delta for which the conversions are accurate."""

_UNLIMITED = 1e6
"""Capacity of an infinite (insecure) budget: finite, so that shares of it are defined."""

_RESERVE = 1e-9
"""Relative part of every capacity that is never spent. It covers rounding in shares and sums, and leaves delta for the
error of the noise laws, which is many orders of magnitude smaller."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A privacy budget in one of three units, with the delta at which it is stated.

    >>> round(Budget(epsilon=1.6, delta=1e-5).capacity("gaussian"), 6)
    0.084226
    >>> str(Budget(rho=0.1))
    'rho = 0.1 (delta = 1e-05)'
    """

    epsilon: float | None = None
    """Bound of (epsilon, delta)-DP."""
    rho: float | None = None
    """Bound of zero-concentrated DP; under gaussian accounting it means mu = sqrt(2 rho)."""
    mu: float | None = None
    """Bound of Gaussian DP."""
    delta: float = 1e-5
    """Delta of (epsilon, delta)-DP; with rho or mu it is used only to report an epsilon. 0 means pure DP."""
    insecure: bool = False
    """Accept an epsilon above 20 or infinite, for experiments on public data."""

    def __post_init__(self) -> None:
        given = [name for name in ("epsilon", "rho", "mu") if getattr(self, name) is not None]
        if len(given) != 1:
            raise BudgetError("a budget takes exactly one of epsilon, rho and mu")
        for name, example in ((given[0], "1.0"), ("delta", "1e-5")):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise BudgetError(f"{name} must be a number such as {example}, not a {type(value).__name__}")
        amount = self.amount
        if math.isnan(amount) or amount <= 0:
            raise BudgetError(f"{given[0]} must be a positive number, not {amount}")
        if amount < MIN_BUDGET[given[0]]:
            raise BudgetError(
                f"{given[0]} = {amount:g} is too small: the noise would be larger than the data. Choose at least "
                f"{MIN_BUDGET[given[0]]:g}"
            )
        if not (self.delta == 0 or MIN_DELTA <= self.delta <= 0.1):
            raise BudgetError(f"delta must be 0 or between {MIN_DELTA:g} and 0.1, not {self.delta}")
        if self.delta == 0 and self.epsilon is None:
            raise BudgetError("a budget in rho or mu needs a positive delta, at which its epsilon is reported")
        if not self.insecure and self.nominal() > MAX_EPSILON:
            raise BudgetError(
                f"{given[0]} = {amount:g} gives no meaningful protection (epsilon above {MAX_EPSILON:g}): choose "
                "a smaller value, or set insecure if the rows are public"
            )

    @property
    def unit(self) -> BudgetUnit:
        """Unit of the budget."""
        return "epsilon" if self.epsilon is not None else "rho" if self.rho is not None else "mu"

    @property
    def amount(self) -> float:
        """Value in that unit."""
        return float(getattr(self, self.unit))

    def nominal(self) -> float:
        """Return the epsilon, or the epsilon that corresponds to rho or mu at the budget's delta."""
        if self.unit == "epsilon" or math.isinf(self.amount):
            return self.amount
        return convert.gdp_epsilon(self.amount if self.unit == "mu" else math.sqrt(2 * self.amount), self.delta)

    def capacity(self, accounting: AccountingLike) -> float:
        """Return the amount that may be spent: in rho = mu^2 / 2, or in epsilon under pure accounting."""
        rules = find_accounting(accounting)
        if self.unit not in rules.budget_units:
            raise BudgetError(f"a budget in {self.unit} is not defined under {rules} accounting: use epsilon")
        if math.isinf(self.amount):
            return _UNLIMITED
        return self._capacity(rules) * (1 - _RESERVE)

    def _capacity(self, accounting: Accounting) -> float:
        if self.rho is not None:
            return self.rho
        if self.mu is not None:
            return self.mu**2 / 2
        assert self.epsilon is not None
        return accounting.convert_budget(self.epsilon, self.delta)

    def __str__(self) -> str:
        delta = f" (delta = {self.delta:g})" if self.delta else " (pure)"
        return f"{self.unit} = {self.amount:g}{delta}" + (" INSECURE" if self.insecure else "")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        amount = "infinite" if math.isinf(self.amount) else self.amount
        return {self.unit: amount, "delta": self.delta} | ({"insecure": True} if self.insecure else {})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Budget:
        """Rebuild a budget from the output of `to_dict`."""
        amounts = {
            unit: math.inf if values[unit] == "infinite" else float(values[unit])
            for unit in ("epsilon", "rho", "mu")
            if unit in values
        }
        return cls(**amounts, delta=float(values["delta"]), insecure=values.get("insecure") is True)
