"""Arithmetic on columns of numbers: exact for whole multiples of a unit, floating-point otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
_ROOM = 2.0**62


@dataclass(frozen=True)
class NumberArray:
    """A column of numbers: `whole` times `unit`, or floats if the unit is None."""

    whole: NDArray[Any]
    unit: Fraction | None
    missing: Mask
    constant: Fraction | None = None

    @classmethod
    def of(cls, value: Fraction) -> NumberArray:
        """Return a constant, which broadcasts to columns of any length."""
        whole = np.array([value.numerator], np.int64)
        return cls(whole, Fraction(1, value.denominator), np.zeros(1, bool), value)

    def floats(self) -> NDArray[np.float64]:
        """Return the nearest floats."""
        if self.unit is None:
            return np.asarray(self.whole, np.float64)
        return np.asarray(self.whole * float(self.unit.numerator) / float(self.unit.denominator))

    def __add__(self, other: NumberArray) -> NumberArray:
        missing = self.missing | other.missing
        if self.unit is not None and other.unit is not None:
            a, b = self.unit, other.unit  # the result has the largest unit of which both are whole multiples
            whole = math.gcd(a.numerator * b.denominator, b.numerator * a.denominator)
            unit = Fraction(whole, a.denominator * b.denominator)
            left, right = int(self.unit / unit), int(other.unit / unit)
            if _find_largest_magnitude(self.whole) * left + _find_largest_magnitude(other.whole) * right < _ROOM:
                return NumberArray(self.whole * left + other.whole * right, unit, missing)
        return NumberArray(self.floats() + other.floats(), None, missing)

    def __neg__(self) -> NumberArray:
        return NumberArray(-self.whole, self.unit, self.missing, None if self.constant is None else -self.constant)

    def __sub__(self, other: NumberArray) -> NumberArray:
        return self + -other

    def __mul__(self, other: NumberArray) -> NumberArray:
        missing = self.missing | other.missing
        largest = _find_largest_magnitude(self.whole) * _find_largest_magnitude(other.whole)
        if self.unit is not None and other.unit is not None and largest < _ROOM:
            return NumberArray(self.whole * other.whole, self.unit * other.unit, missing)
        return NumberArray(self.floats() * other.floats(), None, missing)

    def __truediv__(self, other: NumberArray) -> NumberArray:
        """Divide; division by zero gives a missing value."""
        if self.unit is not None and other.constant:
            divided = self.whole if other.constant > 0 else -self.whole
            return NumberArray(divided, self.unit / abs(other.constant), self.missing)
        divisor = other.floats()
        zero = divisor == 0
        made = self.floats() / np.where(zero, 1.0, divisor)
        return NumberArray(made, None, self.missing | other.missing | zero)

    def in_units(self, unit: Fraction, floor: bool = False) -> NDArray[np.int64]:
        """Return whole multiples of a unit: the nearest ones, halves rounded up, or the floor."""
        half = Fraction(0 if floor else 1, 2)
        if self.unit is not None:
            ratio = self.unit / unit
            up = int(2 * ratio.denominator * half)
            if _find_largest_magnitude(self.whole) * 2 * ratio.numerator + up < _ROOM:
                return np.asarray((self.whole * (2 * ratio.numerator) + up) // (2 * ratio.denominator))
        scaled = self.floats() / float(unit) + float(half)
        held = np.where(np.isfinite(scaled), scaled, 0.0)
        return np.clip(np.floor(held), -_ROOM, _ROOM).astype(np.int64)


@dataclass(frozen=True)
class Interval:
    """Range of numbers computed from the schema alone; None: unknown."""

    low: Fraction | None
    high: Fraction | None

    @classmethod
    def of(cls, value: Fraction) -> Interval:
        """Return the interval of a constant."""
        return cls(value, value)

    def __add__(self, other: Interval) -> Interval:
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return UNKNOWN
        return Interval(self.low + other.low, self.high + other.high)

    def __neg__(self) -> Interval:
        return UNKNOWN if self.low is None or self.high is None else Interval(-self.high, -self.low)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return UNKNOWN
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def __truediv__(self, other: Interval) -> Interval:
        if other.low is None or other.high is None or other.low <= 0 <= other.high:
            return UNKNOWN
        return self * Interval(1 / other.high, 1 / other.low)


UNKNOWN = Interval(None, None)


def _find_largest_magnitude(whole: NDArray[Any]) -> float:
    return float(np.abs(whole.astype(np.float64)).max(initial=0.0))
