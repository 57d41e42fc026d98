"""Interface of a mechanism: the cost of a charge, the release of an answer, and the audit of its noise.

A mechanism has no state. Ledgers, journals and model files store its name (`weft.privacy.mechanisms.MECHANISMS`).
`Mechanisms` is the step that adds noise to exact answers: the last one before release.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from weft.display import format_scales
from weft.errors import BudgetError
from weft.marginals.marginal import Array
from weft.privacy.conversions import pure_mu
from weft.privacy.noise import Integers, Law, Noise

if TYPE_CHECKING:
    from weft.privacy.charge import Charge
    from weft.privacy.sensitivity import Adjacency


Norm = Literal["l1", "l2", "linf", "values", "rows", "none"]
"""Norm of a sensitivity: l1 and l2 of a table, linf of scores, values (l2 over all values of either of two tables),
rows (number of prefixes whose number of seeds changes), none if no such bound is claimed."""

CountNorm = Literal["l1", "l2"]


class Mechanism(ABC):
    """A way to release an answer, with its price under every accounting."""

    name: ClassVar[str]
    """Name in ledgers, journals and model files."""
    norm: ClassVar[Norm]
    has_gaussian_price: ClassVar[bool] = False
    """Whether `gdp` is the exact cost, so that Gaussian DP can account for it."""
    has_scale_limit: ClassVar[bool] = True
    """Whether the noise scale is limited to `MAX_NOISE_SCALE`."""
    is_private: ClassVar[bool] = True
    """Whether the answer is differentially private."""
    divides_rows: ClassVar[bool] = False
    """Whether it partitions the rows and releases nothing."""
    grows_private_records: ClassVar[bool] = False
    """Whether it releases records generated from seeds with differential privacy."""
    audited_by: ClassVar[str] = ""
    """Which test checks the distribution of the answer, if not the audit of noise on counts."""

    def check(self, charge: Charge) -> None:  # noqa: B027 (most mechanisms have no terms)
        """Raise BudgetError if the terms of a charge are invalid for this mechanism."""

    def check_unit(self, charge: Charge, adjacency: Adjacency) -> None:  # noqa: B027
        """Raise BudgetError if the terms of a charge do not protect the ledger's privacy unit."""

    @abstractmethod
    def epsilons(self, charge: Charge) -> list[float]:
        """Return the pure-DP cost of each table or draw; infinity if no epsilon holds."""

    def epsilon(self, charge: Charge) -> float:
        """Return the cost in pure DP."""
        return math.fsum(self.epsilons(charge))

    def rho(self, charge: Charge) -> float:
        """Return the cost in zCDP; default: the sum of epsilon^2 / 2, which holds for every epsilon-DP mechanism."""
        return math.fsum(epsilon**2 / 2 for epsilon in self.epsilons(charge))

    def gdp(self, charge: Charge) -> float:
        """Return the cost in mu^2 / 2 of Gaussian DP; default: that of any epsilon-DP mechanism."""
        return math.fsum(pure_mu(epsilon) ** 2 / 2 for epsilon in self.epsilons(charge))

    @abstractmethod
    def release(self, charge: Charge, exact: Sequence[Array], noise: Noise) -> list[Array]:
        """Return the release for exact integer answers that have been charged."""

    def describe(self, charge: Charge) -> str:
        """Return a short description of the noise."""
        return f"{self.name} {format_scales(charge.scales)}"


class GaussianPriced(Mechanism):
    """A mechanism that costs at most as much as Gaussian noise of its scale."""

    has_gaussian_price = True

    def epsilons(self, charge: Charge) -> list[float]:
        """Return infinity: no pure epsilon holds."""
        return [math.inf]

    def rho(self, charge: Charge) -> float:
        """Return the sum of s^2 / (2 sigma^2), which equals mu^2 / 2 exactly."""
        return math.fsum(
            rho_of_gaussian(s, sigma) for s, sigma in zip(charge.sensitivities, charge.scales, strict=True)
        )

    def gdp(self, charge: Charge) -> float:
        """Return the same value as `rho`."""
        return self.rho(charge)


class Unpriced(Mechanism):
    """A mechanism without cost: nothing is released, or no differential privacy is claimed."""

    norm: ClassVar[Norm] = "none"
    has_gaussian_price = True

    def epsilons(self, charge: Charge) -> list[float]:
        """Return no costs."""
        return []


class CountNoise(Mechanism):
    """Independent integer noise on every cell of a table of counts."""

    norm: ClassVar[CountNorm]
    title: ClassVar[str]
    """Name of the noise in text, such as Gaussian."""
    allocation_exponent: ClassVar[float]
    """The total error of several tables is smallest if each table's share of the budget is proportional to its number
    of cells to this power: 1 / (1 + q) if the error of a cell is proportional to share^-q."""

    @abstractmethod
    def law(self, scale: float) -> Law:
        """Return the distribution of the noise on one cell."""

    @abstractmethod
    def scale_for_epsilon(self, epsilon: float, sensitivity: float) -> float:
        """Return the scale of noise that costs epsilon."""

    @abstractmethod
    def scale_for_rho(self, rho: float, sensitivity: float) -> float:
        """Return the scale of noise that costs rho."""

    @abstractmethod
    def variance(self, scale: float) -> float:
        """Return the noise variance of one cell, as used in statements and estimates."""

    @abstractmethod
    def cdf(self, k: Array, scale: float) -> Array:
        """Return P(K <= k) for integers k, with which the audit compares drawn noise."""

    def deviation(self, scale: float) -> float:
        """Return the standard deviation of the noise on one cell."""
        return math.sqrt(self.variance(scale))

    def rho_of_equal_variance(self, epsilon: float) -> float:
        """Return the rho of Gaussian noise with the variance of this noise at epsilon, for sensitivity 1."""
        return 1 / (2 * self.variance(self.scale_for_epsilon(epsilon, 1.0)))

    def join_sensitivity(self, each: float, m: int) -> float:
        """Return the sensitivity of a vector of m numbers, each of sensitivity `each`."""
        return each * {"l1": m, "l2": math.sqrt(m)}[self.norm]

    def draw(self, scale: float, shape: int | tuple[int, ...], noise: Noise) -> Integers:
        """Draw noise."""
        return noise.draw(self.law(scale), shape)

    def release(self, charge: Charge, exact: Sequence[Array], noise: Noise) -> list[Array]:
        """Add noise to every cell."""
        return [a + self.draw(s, a.shape, noise) for a, s in zip(exact, charge.scales, strict=True)]


def rho_of_gaussian(sensitivity: float, sigma: float) -> float:
    """Return sensitivity^2 / (2 sigma^2): the cost of Gaussian noise in rho = mu^2/2 for an L2 sensitivity."""
    return sensitivity**2 / (2 * sigma**2)


def sigma_for(rho: float, sensitivity: float) -> float:
    """Return the standard deviation of the Gaussian noise that costs rho for this L2 sensitivity."""
    if not (rho > 0 and sensitivity > 0):
        raise BudgetError("Gaussian noise needs a positive budget and a positive sensitivity")
    return sensitivity / math.sqrt(2 * rho)


class Release(Protocol):
    """Turns exact integer answers into released ones. The audit substitutes a recording implementation."""

    private: bool
    """False if the noise is predictable, as with a seed; every release is then stamped."""

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Return one released array for each exact one, by the mechanism of the charge."""
        ...


class Mechanisms:
    """Integer noise as specified by the charge, from the operating system's entropy unless seeded for a test."""

    def __init__(self, noise: Noise | None = None) -> None:
        self.noise = self._noise = noise or Noise()
        self.private = self._noise.private

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Release the answers to a charged query; they must be integers, for the accounting to be exact (`Noise`)."""
        if any(answer.dtype.kind not in "iu" for answer in exact):
            raise TypeError("only integer answers may be released")
        return charge.definition.release(charge, exact, self._noise)
