"""The interface of a mechanism: what a charge of it costs, how it releases an answer, and how its noise is audited.

A mechanism has no state. Its name is what ledgers, journals and model files hold; everything else about it is asked of
the object that `weft.privacy.mechanisms.MECHANISMS` has under that name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from scipy.special import gammaincc

from weft.errors import BudgetError
from weft.marginals.marginal import Array
from weft.privacy.conversions import pure_mu
from weft.privacy.noise import Integers, Law, Noise

if TYPE_CHECKING:
    from weft.privacy.charge import Charge
    from weft.privacy.sensitivity import Adjacency

Norm = Literal["l1", "l2", "linf", "values", "rows", "none"]
"""Norm of a sensitivity: l1 and l2 of a table, linf of scores, values (l2 over all values that either of two tables
has), rows (how many prefixes change their number of seeds), none where no such promise is made."""

CountNorm = Literal["l1", "l2"]
"""Norm of the sensitivity of a table of counts."""


class Mechanism(ABC):
    """A way to release an answer, with its price under every accounting."""

    name: ClassVar[str]
    """The name in ledgers, journals and model files."""
    norm: ClassVar[Norm]
    """The norm that sensitivities are stated in."""
    has_gaussian_price: ClassVar[bool] = False
    """Whether mu^2 / 2 is the exact cost, so that Gaussian DP can account for it."""
    has_scale_limit: ClassVar[bool] = True
    """Whether noise above `LARGEST_SCALE` cannot be drawn."""
    is_private: ClassVar[bool] = True
    """Whether the answer is differentially private."""
    divides_rows: ClassVar[bool] = False
    """Whether it puts the rows into parts, and releases nothing."""
    grows_private_records: ClassVar[bool] = False
    """Whether it releases records that were grown from seeds, with differential privacy."""
    audited_by: ClassVar[str] = ""
    """What tests the law of the answer, where that is not the audit of noise on counts."""

    def check(self, charge: Charge) -> None:  # noqa: B027 (most mechanisms have no terms)
        """Raise BudgetError if the terms of a charge are not those of this mechanism."""

    def check_unit(self, charge: Charge, adjacency: Adjacency) -> None:  # noqa: B027
        """Raise BudgetError if the terms of a charge do not protect the ledger's privacy unit."""

    @abstractmethod
    def epsilons(self, charge: Charge) -> list[float]:
        """Return the pure-DP cost of each table, or of each draw; infinity where no epsilon holds."""

    def epsilon(self, charge: Charge) -> float:
        """Return the cost in pure DP."""
        return math.fsum(self.epsilons(charge))

    def rho(self, charge: Charge) -> float:
        """Return the cost in zCDP: by default epsilon^2 / 2 for each table, which holds for all epsilon-DP."""
        return math.fsum(epsilon**2 / 2 for epsilon in self.epsilons(charge))

    def gdp(self, charge: Charge) -> float:
        """Return the cost in mu^2 / 2 of Gaussian DP: by default that of any epsilon-DP mechanism."""
        return math.fsum(pure_mu(epsilon) ** 2 / 2 for epsilon in self.epsilons(charge))

    @abstractmethod
    def release(self, charge: Charge, exact: Sequence[Array], noise: Noise) -> list[Array]:
        """Return what may be seen of exact integer answers that have been paid for."""

    def describe(self, charge: Charge) -> str:
        """Return the noise in a few words."""
        low, high = min(charge.scales), max(charge.scales)
        size = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        return f"{self.name} {size}"


class GaussianPriced(Mechanism):
    """A mechanism that costs what Gaussian noise of its scale costs, or less."""

    has_gaussian_price = True

    def epsilons(self, charge: Charge) -> list[float]:
        """Return infinity: no pure epsilon holds."""
        return [math.inf]

    def rho(self, charge: Charge) -> float:
        """Return the sum of s^2 / (2 sigma^2), which is exact for mu^2 / 2 too."""
        return math.fsum(
            rho_of_gaussian(s, sigma) for s, sigma in zip(charge.sensitivities, charge.scales, strict=True)
        )

    def gdp(self, charge: Charge) -> float:
        """Return the same."""
        return self.rho(charge)


class Unpriced(Mechanism):
    """A mechanism for which a ledger pays nothing: nothing leaves, or no differential privacy is claimed."""

    norm: ClassVar[Norm] = "none"
    has_gaussian_price = True

    def epsilons(self, charge: Charge) -> list[float]:
        """Return no costs."""
        return []


class CountNoise(Mechanism):
    """Integer noise that is added to every cell of a table of counts, independently."""

    norm: ClassVar[CountNorm]
    title: ClassVar[str]
    """The noise as a reader of text calls it, such as Gaussian."""
    allocation_exponent: ClassVar[float]
    """The sum of the errors of several tables is least where each one's part of the budget is proportional to its
    number of cells to this power. Where the error of a cell goes with part^-q, it is 1 / (1 + q)."""

    @abstractmethod
    def law(self, scale: float) -> Law:
        """Return the law of the noise on one cell."""

    @abstractmethod
    def scale_for_epsilon(self, epsilon: float, sensitivity: float) -> float:
        """Return the scale of noise that costs epsilon."""

    @abstractmethod
    def scale_for_rho(self, rho: float, sensitivity: float) -> float:
        """Return the scale of noise that costs rho."""

    @abstractmethod
    def variance(self, scale: float) -> float:
        """Return the variance of the noise on one cell that statements and estimates go by."""

    @abstractmethod
    def cdf(self, k: Array, scale: float) -> Array:
        """Return P(K <= k) for integers k, which the audit compares drawn noise with."""

    def deviation(self, scale: float) -> float:
        """Return the standard deviation of the noise on one cell."""
        return math.sqrt(self.variance(scale))

    def rho_of_equal_variance(self, epsilon: float) -> float:
        """Return the rho of Gaussian noise that is as large as this noise is for this epsilon, at sensitivity 1."""
        return 1 / (2 * self.variance(self.scale_for_epsilon(epsilon, 1.0)))

    def join_sensitivity(self, each: float, m: int) -> float:
        """Return the sensitivity of a vector of m numbers, each of which moves by at most `each`."""
        return each * {"l1": m, "l2": math.sqrt(m)}[self.norm]

    def draw(self, scale: float, shape: int | tuple[int, ...], noise: Noise) -> Integers:
        """Draw noise."""
        return noise.draw(self.law(scale), shape)

    def release(self, charge: Charge, exact: Sequence[Array], noise: Noise) -> list[Array]:
        """Add noise to every cell."""
        return [a + self.draw(s, a.shape, noise) for a, s in zip(exact, charge.scales, strict=True)]

    def test_size(self, drawn: Sequence[tuple[Array, float]]) -> tuple[float, float]:
        """Return the chance of noise as small as this, taken together, and its size relative to what is declared.

        `drawn` has arrays of noise with their scales. By default, Fisher's method: u, at a random place between
        P(|K| < |k|) and P(|K| <= |k|), is uniform on (0, 1), so that the sum of -ln u has a gamma law, and is large
        where noise is small.
        """
        rng = np.random.default_rng(0)  # these numbers belong to a test that can be repeated, and to no release
        squares, logs = [], []
        for noise, scale in drawn:
            size = np.abs(np.ravel(noise)).astype(np.float64)
            upto = self.cdf(size, scale) - self.cdf(-size - 1, scale)
            below = np.where(size > 0, self.cdf(size - 1, scale) - self.cdf(-size, scale), 0.0)
            logs.append(-np.log(upto - (upto - below) * rng.random(size.size)))
            squares.append(size**2 / self.variance(scale))
        together = np.concatenate(squares)
        return float(gammaincc(together.size, np.concatenate(logs).sum())), float(together.mean())


def rho_of_gaussian(sensitivity: float, sigma: float) -> float:
    """Return sensitivity^2 / (2 sigma^2): what Gaussian noise costs in rho = mu^2/2 for an L2 sensitivity."""
    return sensitivity**2 / (2 * sigma**2)


def sigma_for(rho: float, sensitivity: float) -> float:
    """Return the standard deviation of the Gaussian noise that costs rho for this L2 sensitivity."""
    if not (rho > 0 and sensitivity > 0):
        raise BudgetError("Gaussian noise needs a positive budget and a positive sensitivity")
    return sensitivity / math.sqrt(2 * rho)
