"""The loops of message passing, over one flat array. `run` carries out a tape of them (see `tape`).

A table is seen as three merged axes (o, m, i), the last one contiguous; the middle one is summed or repeated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from weft.marginals.marginal import Array

SUM, SET, ADD, ZERO, CONDITION, SCALE = range(6)
"""Sum the middle axis out; repeat along it, or add so; clear; turn logs into conditionals; into counts."""

_LEAST = -708.0
_MAGIC = 1.5 * 2.0**52
_LOG2E = 1.0 / math.log(2.0)
_LOG2_HIGH, _LOG2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_LOG2 = math.log(2.0)
_ROOT_HALF = 0x3FE6A09E667F3BCD
_CHUNK = 1 << 11
_D3, _D5, _D7, _D9, _D11, _D13, _D15, _D17, _D19 = (1.0 / k for k in range(3, 20, 2))
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12 = (1.0 / math.factorial(k) for k in range(2, 13))


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def run(code: Array, work: Array) -> None:
    """Carry out a tape."""
    for k in range(len(code)):
        op, to, source, o, m, i, extra = code[k]
        if op == SUM:
            _sum(work, to, source, o, m, i)
        elif op == SET:
            _set(work, to, source, o, m, i)
        elif op == ADD:
            _add(work, to, source, o, m, i)
        elif op == ZERO:
            work[to : to + i] = 0.0
        elif op == CONDITION:
            _condition(work, to, source, o, m, extra)
        else:
            _scale(work, to, source, o, m, extra)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def _sum(work: Array, to: int, source: int, o: int, m: int, i: int) -> None:
    if i == 1:
        for a in range(o):
            row = work[source + a * m : source + (a + 1) * m]
            total = 0.0
            for b in range(m):
                total += row[b]
            work[to + a] = total
        return
    for a in range(o):
        out = work[to + a * i : to + (a + 1) * i]
        row = work[source + a * m * i : source + a * m * i + i]
        for c in range(i):
            out[c] = row[c]
        for b in range(1, m):
            row = work[source + (a * m + b) * i : source + (a * m + b + 1) * i]
            for c in range(i):
                out[c] += row[c]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _set(work: Array, to: int, source: int, o: int, m: int, i: int) -> None:
    if i == 1:
        for a in range(o):
            value = work[source + a]
            out = work[to + a * m : to + (a + 1) * m]
            for b in range(m):
                out[b] = value
        return
    for a in range(o):
        row = work[source + a * i : source + (a + 1) * i]
        for b in range(m):
            out = work[to + (a * m + b) * i : to + (a * m + b + 1) * i]
            for c in range(i):
                out[c] = row[c]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _add(work: Array, to: int, source: int, o: int, m: int, i: int) -> None:
    if i == 1:
        for a in range(o):
            value = work[source + a]
            out = work[to + a * m : to + (a + 1) * m]
            for b in range(m):
                out[b] += value
        return
    for a in range(o):
        row = work[source + a * i : source + (a + 1) * i]
        for b in range(m):
            out = work[to + (a * m + b) * i : to + (a * m + b + 1) * i]
            for c in range(i):
                out[c] += row[c]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _condition(work: Array, table: int, message: int, o: int, m: int, sums: int) -> None:
    # Several short slices at once, so that each step below is a loop over many cells that are still in the cache.
    chunk = max(1, _CHUNK // m)
    for first in range(0, o, chunk):
        after = min(o, first + chunk)
        for a in range(first, after):
            row = work[table + a * m : table + (a + 1) * m]
            r = _largest(row)
            work[message + a] = r
            # A slice without a possible cell stays at -inf, and its sum at 0.
            shift = r if r > -np.inf else 0.0
            for b in range(m):
                row[b] -= shift
        exponentials(work[table + first * m : table + after * m])
        for a in range(first, after):
            work[sums + a] = _total(work[table + a * m : table + (a + 1) * m])
        add_logarithms(work[message + first : message + after], work[sums + first : sums + after])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _largest(row: Array) -> Any:
    # Four at a time: comparisons do not wait for each other.
    m = len(row)
    p = q = r = s = -np.inf
    for b in range(0, m - 3, 4):
        p = row[b] if row[b] > p else p
        q = row[b + 1] if row[b + 1] > q else q
        r = row[b + 2] if row[b + 2] > r else r
        s = row[b + 3] if row[b + 3] > s else s
    for b in range(m - m % 4, m):
        p = row[b] if row[b] > p else p
    return max(p, q, r, s)


@njit(cache=True, nogil=True, fastmath={"reassoc"})  # type: ignore[untyped-decorator]
def _total(row: Array) -> Any:
    total = 0.0
    for b in range(len(row)):
        total += row[b]
    return total


@intrinsic  # type: ignore[untyped-decorator]
def _bits(_context: Any, _value: Any) -> Any:
    """The bits of a float as an integer, and back: a cast in a register, which arrays cannot say."""

    def cast(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], context.get_value_type(types.int64))

    return types.int64(types.float64), cast


@intrinsic  # type: ignore[untyped-decorator]
def _float(_context: Any, _value: Any) -> Any:
    def cast(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], context.get_value_type(types.float64))

    return types.float64(types.int64), cast


@njit(cache=True, nogil=True, fastmath={"contract"})  # type: ignore[untyped-decorator]
def exponentials(row: Array) -> None:
    """Replace each value x <= 0 by exp(x), to the last bit or two; 0 below exp(-708).

    exp(x) = 2^k exp(f) with k the nearest integer to x / log 2, found by adding a number so large that the sum has no
    fraction, and |f| <= log(2) / 2, where the Taylor series to the 12th power is exact in double precision. No calls
    and no branches: the compiler runs several cells at once.
    """
    for b in range(len(row)):
        x = row[b]
        y = x if x > _LEAST else _LEAST
        t = y * _LOG2E + _MAGIC
        k = t - _MAGIC
        f = (y - k * _LOG2_HIGH) - k * _LOG2_LOW
        p = _C9 + f * (_C10 + f * (_C11 + f * _C12))
        p = _C5 + f * (_C6 + f * (_C7 + f * (_C8 + f * p)))
        p = 1.0 + f * (1.0 + f * (_C2 + f * (_C3 + f * (_C4 + f * p))))
        power = _float((_bits(t) + 1023) << 52)
        row[b] = p * power if x > _LEAST else 0.0


@njit(cache=True, nogil=True, fastmath={"contract"})  # type: ignore[untyped-decorator]
def add_logarithms(row: Array, values: Array) -> None:
    """Add log(value) to each of a row, for values of at least 1 (0 counts as 1), to the last bits.

    value = 2^k f with f between 1/sqrt(2) and sqrt(2), and log f = 2 atanh(g), g = (f - 1) / (f + 1), |g| < 0.172.
    """
    for b in range(len(row)):
        bits = _bits(values[b] if values[b] > 1.0 else 1.0)
        k = (bits - _ROOT_HALF) >> 52
        f = _float(bits - (k << 52))
        g = (f - 1.0) / (f + 1.0)
        h = g * g
        p = _D13 + h * (_D15 + h * (_D17 + h * _D19))
        p = _D5 + h * (_D7 + h * (_D9 + h * (_D11 + h * p)))
        row[b] += k * _LOG2 + 2.0 * g * (1.0 + h * (_D3 + h * p))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _scale(work: Array, table: int, known: int, o: int, m: int, sums: int) -> None:
    for a in range(o):
        row = work[table + a * m : table + (a + 1) * m]
        z = work[sums + a]
        factor = work[known + a] / z if z > 0.0 else 0.0
        for b in range(m):
            row[b] *= factor
