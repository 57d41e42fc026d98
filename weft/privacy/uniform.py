"""Whole numbers uniform below a bound, many at once, from more random bits than they need."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from weft.marginals.marginal import Array

LAW_ERROR = 2.0**-65
"""Bound on the total-variation distance of one number from the uniform law."""

_LOW = np.uint64((1 << 32) - 1)
_HALF = np.uint64(32)


def below(bound: int, words: Array) -> Array:
    """Return floor(u * bound / 2**128) for each column of two 64-bit words, u = first * 2**64 + second.

    Each value's probability is off by less than 2**-128, and the bound must be below 2**63. Every draw takes the same
    work, whatever the bound.

    >>> below(10, np.array([[1 << 63], [0]], np.uint64)).tolist()
    [5]
    """
    if not 0 < bound < 1 << 63:
        raise ValueError("a bound must lie between 1 and 2**63")
    out = np.empty(words.shape[1], np.uint64)
    _scale(np.ascontiguousarray(words, np.uint64), np.uint64(bound), out)
    return out.astype(np.int64)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _product(a: Any, b: Any) -> Any:
    """Return the high and the low word of a * b, by long multiplication in halves of 32 bits."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    low, cross, other, high = a0 * b0, a1 * b0, a0 * b1, a1 * b1
    middle = (low >> _HALF) + (cross & _LOW) + (other & _LOW)
    return high + (cross >> _HALF) + (other >> _HALF) + (middle >> _HALF), (middle << _HALF) | (low & _LOW)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _scale(words: Any, bound: Any, out: Any) -> None:
    for i in range(words.shape[1]):
        carried, _ = _product(words[1, i], bound)
        high, low = _product(words[0, i], bound)
        out[i] = high + np.uint64(low + carried < low)
