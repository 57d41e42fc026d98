"""How much may be learned about any one privacy unit, stated before the first question."""

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
"""Beyond this, privacy is nominal: e^20 to one are the odds that a release may change."""

MIN_BUDGET = {"epsilon": 1e-4, "mu": 1e-4, "rho": 5e-9}
"""Below this next to nothing can be learned, and noise decides what is released, its number of rows included.

Neighbours under mu differ by mu / sqrt(2 pi) in total variation and under epsilon by epsilon / 2 at most, about as
much; and rho stands for mu = sqrt(2 rho)."""

MIN_DELTA = 1e-300
"""Least delta above 0 that the conversions are good for."""

_UNLIMITED = 1e6
"""Capacity given to an infinite (insecure) budget: finite, so that shares of it make sense."""

_RESERVE = 1e-9
"""Relative part of every capacity that is never handed out. It covers the rounding of shares and sums, and
makes room in delta for the error of the noise law, which is many orders smaller."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A privacy budget in one of three currencies, with the delta at which it is stated.

    >>> round(Budget(epsilon=1.6, delta=1e-5).capacity("gaussian"), 6)
    0.084226
    >>> str(Budget(rho=0.1))
    'rho = 0.1 (delta = 1e-05)'
    """

    epsilon: float | None = None
    """The bound of (epsilon, delta)-DP."""
    rho: float | None = None
    """The bound of zero-concentrated DP; under gaussian accounting it stands for mu = sqrt(2 rho)."""
    mu: float | None = None
    """The bound of Gaussian DP."""
    delta: float = 1e-5
    """The delta of (epsilon, delta); with rho or mu it only serves to report an epsilon. 0 means pure."""
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
                f"{given[0]} = {amount:g} is too small to learn anything: the noise would drown the table. Choose at "
                f"least {MIN_BUDGET[given[0]]:g}"
            )
        if not (self.delta == 0 or MIN_DELTA <= self.delta <= 0.1):
            raise BudgetError(f"delta must be 0, or lie between {MIN_DELTA:g} and 0.1, not {self.delta}")
        if self.delta == 0 and self.epsilon is None:
            raise BudgetError("a budget in rho or mu needs a delta above 0, to be reported as an epsilon")
        if not self.insecure and self.nominal() > MAX_EPSILON:
            raise BudgetError(
                f"{given[0]} = {amount:g} protects nobody (epsilon above {MAX_EPSILON:g}): choose "
                "a smaller one, or say insecure if the rows are public"
            )

    @property
    def unit(self) -> BudgetUnit:
        """The currency."""
        return "epsilon" if self.epsilon is not None else "rho" if self.rho is not None else "mu"

    @property
    def amount(self) -> float:
        """The figure in that currency."""
        return float(getattr(self, self.unit))

    def nominal(self) -> float:
        """Return the epsilon, or the one that the budget stands for at its delta."""
        if self.unit == "epsilon" or math.isinf(self.amount):
            return self.amount
        return convert.gdp_epsilon(self.amount if self.unit == "mu" else math.sqrt(2 * self.amount), self.delta)

    def capacity(self, accounting: AccountingLike) -> float:
        """Return what may be spent: in rho = mu**2/2, or in epsilon under pure accounting."""
        rules = find_accounting(accounting)
        if self.unit not in rules.budget_units:
            raise BudgetError(f"a budget in {self.unit} has no meaning under {rules} accounting: use epsilon")
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
        """Rebuild a budget from what `to_dict` gave."""
        amounts = {
            unit: math.inf if values[unit] == "infinite" else float(values[unit])
            for unit in ("epsilon", "rho", "mu")
            if unit in values
        }
        return cls(**amounts, delta=float(values["delta"]), insecure=values.get("insecure") is True)
