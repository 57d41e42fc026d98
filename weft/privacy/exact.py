"""Tail probabilities of the noise laws as integers of 320 bits, computed in decimal arithmetic.

A probability q is represented by floor(q * 2**BITS). The decimal context carries 120 digits (398 bits), so
every value below is off by at most one unit in the last place, i.e. by 2**-320.
"""

from __future__ import annotations

import decimal
from decimal import Decimal

BITS = 320
"""Random bits that decide a draw in the last resort."""

CONTEXT = decimal.Context(
    prec=120,
    rounding=decimal.ROUND_HALF_EVEN,
    Emin=decimal.MIN_EMIN,
    Emax=decimal.MAX_EMAX,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)
"""The arithmetic: 120 digits, no underflow that matters, errors instead of NaN."""

_ONE = 1 << BITS
_FARTHEST_GAUSSIAN = 22
"""Q(22) < 2**-353: no 320-bit number lies below it."""
_FARTHEST_GEOMETRIC = 223
"""exp(-223) < 2**-321: likewise."""


def as_bits(probability: Decimal) -> int:
    """Integer part of a probability (or a weight up to 1) times 2**BITS."""
    return int(CONTEXT.multiply(probability, Decimal(_ONE)))


def _pi() -> Decimal:
    """Machin's formula in integers: pi = 16 atan(1/5) - 4 atan(1/239)."""
    unit = 10 ** (CONTEXT.prec + 20)

    def atan_of_inverse(x: int) -> int:
        total, power, n = 0, unit // x, 1
        while power:
            total += power // n if n % 4 == 1 else -(power // n)
            power //= x * x
            n += 2
        return total

    return CONTEXT.divide(Decimal(16 * atan_of_inverse(5) - 4 * atan_of_inverse(239)), Decimal(unit))


PI = _pi()
_SQRT_TWO_PI = CONTEXT.sqrt(CONTEXT.multiply(2, PI))


def gaussian_tail(k: int, sigma: float) -> int:
    """P(round(Z) >= k) = Q((k - 1/2) / sigma) for k >= 1, Z ~ N(0, sigma**2), sigma the float's exact value.

    With t = (k - 1/2)/sigma, Q(t) = 1/2 - phi(t) (t + t^3/3 + t^5/15 + ...). All terms are positive, so
    nothing cancels before the last subtraction, whose absolute error is what counts: below 10**-116 for t
    <= 22.
    """
    if 2 * k - 1 > 2 * _FARTHEST_GAUSSIAN * sigma:
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


def geometric_tail(k: int, scale: float) -> int:
    """P(K >= k) = a**k / (1 + a) for k >= 1, P(K = k) proportional to a**|k|, a = exp(-1/scale)."""
    if k > _FARTHEST_GEOMETRIC * scale:
        return 0
    with decimal.localcontext(CONTEXT):
        exact = Decimal(scale)
        return as_bits((-k / exact).exp() / (1 + (-1 / exact).exp()))
