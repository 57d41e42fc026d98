"""Rounded Gaussian noise on counts.

For an integer x, round(x + Z) = x + round(Z): adding round(Z) is post-processing of the ideal Gaussian mechanism.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from scipy.special import gammainc, ndtr, ndtri

from weft.errors import BudgetError
from weft.marginals.marginal import Array
from weft.privacy.mechanisms.mechanism import CountNoise, GaussianPriced, sigma_for
from weft.privacy.noise import Floats, Law, compute_margin
from weft.privacy.noise_tails import CONTEXT, PI, as_bits

_SQRT_TWO_PI = CONTEXT.sqrt(CONTEXT.multiply(2, PI))
_FARTHEST = 22
"""Q(22) < 2**-353: no 320-bit number lies below it."""


class GaussianLaw(Law):
    """round(Z), Z ~ N(0, scale**2)."""

    def invert(self, p: Floats) -> tuple[Floats, Floats]:
        """See `Law.invert`."""
        z = ndtri(p)
        np.negative(z, out=z)
        return self.scale * z + 0.5, compute_margin(self.scale, z)

    def tail(self, k: int) -> int:
        """See `Law.tail`."""
        return gaussian_tail(k, self.scale)


def gaussian_tail(k: int, sigma: float) -> int:
    """P(round(Z) >= k) = Q((k - 1/2) / sigma) for k >= 1, Z ~ N(0, sigma**2), sigma the float's exact value.

    With t = (k - 1/2)/sigma, Q(t) = 1/2 - phi(t) (t + t^3/3 + t^5/15 + ...). All terms are positive, so
    nothing cancels before the last subtraction, whose absolute error is what counts: below 10**-116 for t
    <= 22.
    """
    if 2 * k - 1 > 2 * _FARTHEST * sigma:
        return 0
    with decimal.localcontext(CONTEXT):
        t = (2 * k - 1) / (2 * Decimal(sigma))
        square = t * t
        term = total = t
        n = 1
        # Once t^2/(n + 2) < 1/2, which holds long before a term is this small, the rest is below the last term.
        while term.scaleb(CONTEXT.prec) > total:
            n += 2
            term = term * square / n
            total += term
        density = (-square / 2).exp() / _SQRT_TWO_PI
        return as_bits(Decimal("0.5") - density * total)


class Gaussian(GaussianPriced, CountNoise):
    """Rounded Gaussian noise: sensitivity / scale-GDP for an L2 sensitivity."""

    name = "gaussian"
    norm = "l2"
    title = "Gaussian"
    allocation_exponent = 2 / 3

    def law(self, scale: float) -> Law:
        """Return the law of round(Z)."""
        return GaussianLaw(float(scale))

    def scale_for_epsilon(self, epsilon: float, sensitivity: float) -> float:
        """Raise BudgetError: no Gaussian noise has a pure epsilon."""
        raise BudgetError("pure epsilon cannot pay for Gaussian noise: use geometric noise")

    def scale_for_rho(self, rho: float, sensitivity: float) -> float:
        """Return sensitivity / sqrt(2 rho)."""
        return sigma_for(rho, sensitivity)

    def variance(self, scale: float) -> float:
        """Return that of Z; rounding adds up to 1/12."""
        return scale**2

    def deviation(self, scale: float) -> float:
        """Return the scale."""
        return scale

    def cdf(self, k: Array, scale: float) -> Array:
        """Return P(round(Z) <= k)."""
        return np.asarray(ndtr((k + 0.5) / scale))

    def test_size(self, drawn: Sequence[tuple[Array, float]]) -> tuple[float, float]:
        """Return the chance by chi-square: squares of Gaussian noise add up to one. Rounding took at most a half."""
        squares = np.concatenate([((np.abs(noise) + 0.5) / scale).ravel() ** 2 for noise, scale in drawn])
        return float(gammainc(squares.size / 2, squares.sum() / 2)), float(squares.mean())
