"""Privacy accountings: how costs compose and convert to (epsilon, delta), and which noise they use."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from weft.errors import BudgetError
from weft.privacy import conversions as convert
from weft.privacy.mechanisms import GAUSSIAN, GEOMETRIC, CountNoise

if TYPE_CHECKING:
    from weft.privacy.charge import Charge

AccountingName = Literal["gaussian", "zcdp", "pure", "paper"]
"""Names of accountings in options, ledgers and budget files."""

BudgetUnit = Literal["epsilon", "rho", "mu"]
"""Units in which a budget can be stated."""


@dataclass(frozen=True)
class Accounting(ABC):
    """A rule by which the costs of several answers compose into one guarantee; costs add up, in `rho` or in epsilon."""

    name: str
    """Name in options, ledgers, journals and model files."""
    counts: CountNoise
    """Noise mechanism for tables of counts."""
    noise: str
    """Short description of the noise, for the list of methods."""

    is_pure: ClassVar[bool] = False
    """Whether costs are in pure epsilon, with delta = 0."""
    is_exact_gaussian: ClassVar[bool] = False
    """Whether it is exact Gaussian DP, which requires answers with an exact price in it (`has_gaussian_price`)."""
    uses_closed_form: ClassVar[bool] = False
    """Whether it converts by the loose closed form, only to reproduce published figures."""
    pays_for_mixtures: ClassVar[bool] = False
    """Whether it can account for Gaussian noise and private selection in the same run."""
    releases_singly: ClassVar[bool] = False
    """Whether the numbers of a vector are priced one by one: better for Laplace noise in rho, whose squares add up."""
    pays_for_seeds: ClassVar[bool] = False
    """Whether it can account for records generated from seeds, which need an exactly stated delta."""
    budget_units: ClassVar[tuple[BudgetUnit, ...]]
    """Budget units that are defined under this accounting."""

    def __str__(self) -> str:
        return self.name

    @abstractmethod
    def convert_budget(self, epsilon: float, delta: float) -> float:
        """Return the cost that (epsilon, delta)-DP allows."""

    @abstractmethod
    def find_epsilon(self, cost: float, delta: float) -> float:
        """Convert a cost to an epsilon at a delta."""

    @abstractmethod
    def price(self, charge: Charge) -> float:
        """Return the cost of a charge; BudgetError if its mechanism has no finite cost."""

    def price_for_lifetime(self, charge: Charge) -> float:
        """Return the cost of a charge in a lifetime budget, which runs with other accountings share."""
        return self.price(charge)

    @abstractmethod
    def find_scale(self, cost: float, sensitivity: float) -> float:
        """Return the scale of the noise on counts that has this cost."""

    @abstractmethod
    def find_choice_epsilon(self, cost: float) -> float:
        """Return the epsilon of a selection by the exponential mechanism that has this cost."""

    @abstractmethod
    def find_gaussian_rho(self, cost: float) -> float:
        """Return the rho of Gaussian noise with the variance that the noise on counts has at this cost."""

    def find_delta(self, delta: float) -> float:
        """Return the delta of the guarantee for a budget with this delta."""
        return delta


class RhoAccounting(Accounting):
    """An accounting whose costs are in rho = mu^2 / 2."""

    budget_units: ClassVar[tuple[BudgetUnit, ...]] = ("epsilon", "rho")

    def convert_budget(self, epsilon: float, delta: float) -> float:
        """Return the rho that an epsilon allows at a positive delta."""
        if delta == 0:
            raise BudgetError("delta = 0 requires pure accounting: choose it, or set a delta such as 1e-5")
        return self._find_rho(epsilon, delta)

    @abstractmethod
    def _find_rho(self, epsilon: float, delta: float) -> float: ...

    def price(self, charge: Charge) -> float:
        """Return the rho of a charge."""
        return charge.rho

    def find_scale(self, cost: float, sensitivity: float) -> float:
        """Return the scale of the noise on counts that costs this rho."""
        return self.counts.scale_for_rho(cost, sensitivity)

    def find_choice_epsilon(self, cost: float) -> float:
        """Return sqrt(8 rho): the exponential mechanism is epsilon^2/8-zCDP by bounded range."""
        return math.sqrt(8 * cost)

    def find_gaussian_rho(self, cost: float) -> float:
        """Return the cost unchanged: the noise on counts is Gaussian."""
        return cost


class GaussianAccounting(RhoAccounting):
    """Exact Gaussian DP: mu^2 adds up, and delta(epsilon) has a closed form."""

    is_exact_gaussian = True
    pays_for_seeds = True
    budget_units: ClassVar[tuple[BudgetUnit, ...]] = ("epsilon", "rho", "mu")

    def _find_rho(self, epsilon: float, delta: float) -> float:
        return convert.gdp_mu(epsilon, delta) ** 2 / 2

    def find_epsilon(self, cost: float, delta: float) -> float:
        """Return the epsilon of mu = sqrt(2 cost)."""
        return convert.gdp_epsilon(math.sqrt(2 * cost), delta)

    def price(self, charge: Charge) -> float:
        """Return mu^2 / 2 of a charge; BudgetError if its mechanism has no exact price in Gaussian DP."""
        if not charge.definition.has_gaussian_price:
            raise BudgetError(
                f"{charge.question!r} uses {charge.mechanism} noise, but gaussian accounting supports "
                "Gaussian noise and selections only: choose zcdp accounting for mixtures of mechanisms"
            )
        return charge.gdp

    def find_choice_epsilon(self, cost: float) -> float:
        """Return the epsilon for which bounded range gives this mu^2 / 2."""
        return convert.range_epsilon(math.sqrt(2 * cost))

    def price_for_lifetime(self, charge: Charge) -> float:
        """Return mu^2 / 2 of a charge; for pure noise, the value that holds for any mechanism with its epsilon."""
        return charge.gdp


class ZcdpAccounting(RhoAccounting):
    """Zero-concentrated DP with the optimised conversion, for mixtures of mechanisms."""

    pays_for_mixtures = True
    pays_for_seeds = True

    def _find_rho(self, epsilon: float, delta: float) -> float:
        return convert.zcdp_rho(epsilon, delta)

    def find_epsilon(self, cost: float, delta: float) -> float:
        """Return the epsilon of rho-zCDP."""
        return convert.zcdp_epsilon(cost, delta)


class PaperAccounting(RhoAccounting):
    """Zero-concentrated DP with the loose closed form of the papers, only to reproduce published figures."""

    uses_closed_form = True
    pays_for_mixtures = True

    def _find_rho(self, epsilon: float, delta: float) -> float:
        return convert.zcdp_rho_closed_form(epsilon, delta)

    def find_epsilon(self, cost: float, delta: float) -> float:
        """Return the epsilon of rho-zCDP by the closed form."""
        return convert.zcdp_epsilon_closed_form(cost, delta)


class LaplaceAccounting(PaperAccounting):
    """Laplace noise in an (epsilon, delta) budget, in place of BSG's advanced composition.

    Privacy: answers that are epsilon_i-DP together are rho-zCDP with rho = sum epsilon_i^2 / 2, hence (rho + 2 sqrt(rho
    ln 1/delta), delta)-DP. Advanced composition states sum epsilon_i (e^epsilon_i - 1) in place of the first term.
    """

    releases_singly = True
    pays_for_seeds = True

    def find_gaussian_rho(self, cost: float) -> float:
        """Return the rho of Gaussian noise with the variance of Laplace noise of epsilon = sqrt(2 cost)."""
        return self.counts.rho_of_equal_variance(math.sqrt(2 * cost))


class PureAccounting(Accounting):
    """Pure DP: epsilon adds up."""

    is_pure = True
    budget_units: ClassVar[tuple[BudgetUnit, ...]] = ("epsilon",)

    def convert_budget(self, epsilon: float, delta: float) -> float:
        """Return the epsilon unchanged."""
        return epsilon

    def find_epsilon(self, cost: float, delta: float) -> float:
        """Return the cost unchanged."""
        return cost

    def price(self, charge: Charge) -> float:
        """Return the epsilon of a charge; BudgetError if it has no pure epsilon, or only up to a slack."""
        if charge.slack or math.isinf(charge.epsilon):
            raise BudgetError(
                f"{charge.question!r} uses {charge.mechanism} noise, which has no pure epsilon: use geometric noise, "
                "or gaussian or zcdp accounting"
            )
        return charge.epsilon

    def find_scale(self, cost: float, sensitivity: float) -> float:
        """Return the scale of the noise on counts that costs this epsilon."""
        return self.counts.scale_for_epsilon(cost, sensitivity)

    def find_choice_epsilon(self, cost: float) -> float:
        """Return the cost unchanged."""
        return cost

    def find_gaussian_rho(self, cost: float) -> float:
        """Return the rho of Gaussian noise with the variance that the noise on counts has at this epsilon."""
        return self.counts.rho_of_equal_variance(cost)

    def find_delta(self, delta: float) -> float:
        """Return 0."""
        return 0.0


EXACT_GAUSSIAN = GaussianAccounting("gaussian", GAUSSIAN, "Gaussian, for an epsilon at a delta")
ZCDP = ZcdpAccounting("zcdp", GAUSSIAN, "Gaussian and others, for an epsilon at a delta")
PURE = PureAccounting("pure", GEOMETRIC, "geometric, for a pure epsilon (delta 0)")
CLOSED_FORM = PaperAccounting("paper", GAUSSIAN, "Gaussian, for an epsilon at a delta")
LAPLACE = LaplaceAccounting("laplace", GEOMETRIC, "geometric, for an epsilon at a delta")

ACCOUNTINGS: dict[str, Accounting] = {each.name: each for each in (EXACT_GAUSSIAN, ZCDP, PURE, CLOSED_FORM, LAPLACE)}

AccountingLike = Accounting | AccountingName | Literal["laplace"]


def find_accounting(accounting: AccountingLike) -> Accounting:
    """Return an accounting by name, or the given object; BudgetError if the name is unknown.

    >>> find_accounting("pure").is_pure, str(find_accounting("zcdp"))
    (True, 'zcdp')
    """
    if isinstance(accounting, Accounting):
        return accounting
    if not isinstance(accounting, str) or accounting not in ACCOUNTINGS:
        raise BudgetError(f"unknown accounting {accounting!r}: choose one of {', '.join(ACCOUNTINGS)}")
    return ACCOUNTINGS[accounting]
