"""The arithmetic of tail probabilities as integers of 320 bits: decimals, of 120 digits.

A probability q is represented by floor(q * 2**BITS). The decimal context carries 120 digits (398 bits), so
a tail that is computed in it is off by at most one unit in the last place, i.e. by 2**-320.
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


def as_bits(probability: Decimal) -> int:
    """Integer part of a probability (or a weight up to 1) times 2**BITS."""
    return int(CONTEXT.multiply(probability, Decimal(_ONE)))


def _compute_pi() -> Decimal:
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


PI = _compute_pi()
