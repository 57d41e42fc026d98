"""Two-sided geometric noise on counts: the discrete form of Laplace noise."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from weft.marginals.marginal import Array
from weft.privacy.mechanisms.mechanism import CountNoise
from weft.privacy.noise import Floats, Law, compute_margin
from weft.privacy.noise_tails import CONTEXT, as_bits

if TYPE_CHECKING:
    from weft.privacy.charge import Charge

_FARTHEST = 223
"""exp(-223) < 2**-321: beyond it, tails are 0 as 320-bit integers."""


class GeometricLaw(Law):
    """P(K = k) proportional to exp(-|k| / scale)."""

    def invert(self, p: Floats) -> tuple[Floats, Floats]:
        """See `Law.invert`."""
        log = np.log(p)
        np.negative(log, out=log)
        return self.scale * (log - math.log1p(math.exp(-1 / self.scale))), compute_margin(self.scale, log)

    def tail(self, k: int) -> int:
        """See `Law.tail`."""
        return geometric_tail(k, self.scale)


def geometric_tail(k: int, scale: float) -> int:
    """Return P(K >= k) = a**k / (1 + a) for k >= 1, P(K = k) proportional to a**|k|, a = exp(-1/scale)."""
    if k > _FARTHEST * scale:
        return 0
    with decimal.localcontext(CONTEXT):
        exact = Decimal(scale)
        return as_bits((-k / exact).exp() / (1 + (-1 / exact).exp()))


class Geometric(CountNoise):
    """Two-sided geometric noise: epsilon-DP with epsilon = L1 sensitivity / scale."""

    name = "geometric"
    norm = "l1"
    title = "geometric"
    allocation_exponent = 1 / 2

    def law(self, scale: float) -> Law:
        """Return the geometric distribution."""
        return GeometricLaw(float(scale))

    def epsilons(self, charge: Charge) -> list[float]:
        """Return sensitivity / scale for each table."""
        return [moved / scale for moved, scale in zip(charge.sensitivities, charge.scales, strict=True)]

    def scale_for_epsilon(self, epsilon: float, sensitivity: float) -> float:
        """Return sensitivity / epsilon."""
        return sensitivity / epsilon

    def scale_for_rho(self, rho: float, sensitivity: float) -> float:
        """Return the scale for epsilon = sqrt(2 rho)."""
        return sensitivity / math.sqrt(2 * rho)

    def variance(self, scale: float) -> float:
        """Return the variance of Laplace noise of this scale, which is larger by at most 1/6."""
        return 2 * scale**2

    def deviation(self, scale: float) -> float:
        """Return sqrt(2) times the scale."""
        return math.sqrt(2) * scale

    def rho_of_equal_variance(self, epsilon: float) -> float:
        """Return epsilon^2 / 4: the variance is 2 / epsilon^2, and that of Gaussian noise 1 / (2 rho)."""
        return epsilon**2 / 4

    def cdf(self, k: Array, scale: float) -> Array:
        """Return P(K <= k)."""
        tail = np.exp(-np.where(k < 0, -k, k + 1) / scale) / (1 + np.exp(-1 / scale))
        return np.asarray(np.where(k < 0, tail, 1 - tail))
