"""Tail probabilities as 320-bit integers, computed in decimal arithmetic with 120 digits.

A probability q is represented by floor(q * 2**BITS); with 120 digits (398 bits) it is off by at most 2**-320.
"""

from __future__ import annotations

import decimal
from decimal import Decimal

BITS = 320
"""Random bits that decide a draw exactly."""

CONTEXT = decimal.Context(
    prec=120,
    rounding=decimal.ROUND_HALF_EVEN,
    Emin=decimal.MIN_EMIN,
    Emax=decimal.MAX_EMAX,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)
"""Decimal context: 120 digits, no relevant underflow, errors instead of NaN."""

_ONE = 1 << BITS


def as_bits(probability: Decimal) -> int:
    """Return the integer part of a probability (or a weight up to 1) times 2**BITS."""
    return int(CONTEXT.multiply(probability, Decimal(_ONE)))


def _compute_pi() -> Decimal:
    """Compute pi by Machin's formula in integers: pi = 16 atan(1/5) - 4 atan(1/239)."""
    unit = 10 ** (CONTEXT.prec + 20)

    def atan_of_inverse(x: int) -> int:
        total, power, n = 0, unit // x, 1
        while power:
            total += power // n if n % 4 == 1 else -(power // n)
            power //= x * x
            n += 2
        return total

    return CONTEXT.divide(Decimal(16 * atan_of_inverse(5) - 4 * atan_of_inverse(239)), Decimal(unit))


PI = _compute_pi()
