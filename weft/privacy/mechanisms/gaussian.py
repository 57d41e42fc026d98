"""Rounded Gaussian noise on counts: post-processing of the ideal Gaussian mechanism, as round(x + Z) = x + round(Z)."""

import decimal
from decimal import Decimal

import numpy as np
from scipy.special import ndtr, ndtri

from weft.errors import BudgetError
from weft.marginals.marginal import Array
from weft.privacy.mechanisms.mechanism import CountNoise, GaussianPriced, sigma_for
from weft.privacy.noise import Floats, Law, compute_margin
from weft.privacy.noise_tails import CONTEXT, PI, as_bits

_SQRT_TWO_PI = CONTEXT.sqrt(CONTEXT.multiply(2, PI))
_FARTHEST = 22
"""Q(22) < 2**-353: beyond it, tails are 0 as 320-bit integers."""


class GaussianLaw(Law):
    """Distribution of round(Z), Z ~ N(0, scale**2)."""

    def invert(self, p: Floats) -> tuple[Floats, Floats]:
        """See `Law.invert`."""
        z = ndtri(p)
        np.negative(z, out=z)
        return self.scale * z + 0.5, compute_margin(self.scale, z)

    def tail(self, k: int) -> int:
        """See `Law.tail`."""
        return gaussian_tail(k, self.scale)


def gaussian_tail(k: int, sigma: float) -> int:
    """Return P(round(Z) >= k) = Q((k - 1/2) / sigma) for k >= 1, Z ~ N(0, sigma**2), for the exact value of sigma.

    With t = (k - 1/2)/sigma, Q(t) = 1/2 - phi(t) (t + t^3/3 + t^5/15 + ...). All terms are positive, so nothing cancels
    before the last subtraction, whose absolute error matters: below 10**-116 for t <= 22.
    """
    if 2 * k - 1 > 2 * _FARTHEST * sigma:
        return 0
    with decimal.localcontext(CONTEXT):
        t = (2 * k - 1) / (2 * Decimal(sigma))
        square = t * t
        term = total = t
        n = 1
        # Once t^2/(n + 2) < 1/2, long before a term is this small, the remainder is below the last term.
        while term.scaleb(CONTEXT.prec) > total:
            n += 2
            term = term * square / n
            total += term
        density = (-square / 2).exp() / _SQRT_TWO_PI
        return as_bits(Decimal("0.5") - density * total)


class Gaussian(GaussianPriced, CountNoise):
    """Rounded Gaussian noise: mu-GDP with mu = L2 sensitivity / scale."""

    name = "gaussian"
    norm = "l2"
    title = "Gaussian"
    allocation_exponent = 2 / 3

    def law(self, scale: float) -> Law:
        """Return the distribution of round(Z)."""
        return GaussianLaw(float(scale))

    def scale_for_epsilon(self, epsilon: float, sensitivity: float) -> float:
        """Raise BudgetError: Gaussian noise has no pure epsilon."""
        raise BudgetError("Gaussian noise has no pure epsilon: use geometric noise")

    def scale_for_rho(self, rho: float, sensitivity: float) -> float:
        """Return sensitivity / sqrt(2 rho)."""
        return sigma_for(rho, sensitivity)

    def variance(self, scale: float) -> float:
        """Return the variance of Z; rounding adds up to 1/12."""
        return scale**2

    def deviation(self, scale: float) -> float:
        """Return the scale, the standard deviation of Z."""
        return scale

    def cdf(self, k: Array, scale: float) -> Array:
        """Return P(round(Z) <= k)."""
        return np.asarray(ndtr((k + 0.5) / scale))
