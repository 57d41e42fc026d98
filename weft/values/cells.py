"""The fine public grid on which a number is counted alone: chosen from its range and step, never from rows.

Few values have a cell each. Over a wide range a cell is as wide as the third significant digit, so that small amounts
are told apart as well as large ones, and a round number at its start has a cell of its own: how often values are round
can then be seen, and kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.values.limits import EACH_CELL

DIGITS = 2
"""Digits after the first by which cells of a wide range differ."""

MOST_CELLS = 16_384
"""With more cells than this, they differ in fewer digits."""

_ROUND = (5, 2)  # levels of roundness: multiples of 5, 10, 50, 100, 500, ...


def public_cuts(low: int, high: int, step: int = 1) -> list[int]:
    """Return the left ends of the cells of low, low + step, ..., high, and one past the highest.

    >>> public_cuts(0, 5)
    [0, 1, 2, 3, 4, 5, 6]
    >>> cuts = public_cuts(0, 10**6)
    >>> [cut for cut in cuts if 72_900 <= cut < 73_100]
    [72900, 72901, 73000, 73001]
    """
    if (high - low) // step + 1 <= EACH_CELL:
        return [*range(low, high + 1, step), high + 1]
    for digits in range(DIGITS, -1, -1):
        cuts = _cuts(low, high, digits)
        if len(cuts) <= MOST_CELLS:
            break
    return cuts


def _cuts(low: int, high: int, digits: int) -> list[int]:
    if high >= 0:
        least = max(low, 0)
        found = _rising(least, high, digits, _scale(least, high))
    else:
        found = []
    if low < 0:
        nearest = max(-high, 1)
        below = _rising(nearest, -low, digits, _scale(nearest, -low))
        found = [*(1 - cut for cut in reversed(below)), *found[1:]] if found else [1 - cut for cut in reversed(below)]
    return sorted({low, *(cut for cut in found if low < cut <= high), high + 1})


def _scale(low: int, high: int) -> int:
    """Return the number by which cells grow: years from 1900 to 2100 differ in their last digits alone."""
    return 0 if high < 10 * low else 1


def _rising(low: int, high: int, digits: int, growing: int) -> list[int]:
    """Return cuts of numbers from 0 up: before and after the first number of each cell."""
    cuts: list[int] = []
    start = low
    while start <= high:
        ten = 10 ** (len(str(start if growing else high - low)) - 1)
        width = max(ten // 10 ** (digits if growing else digits + 1), 1)
        end = min(10 * ten - 1 if growing else high, high)
        first = start // width * width
        for cut in range(first, end + 1, width):
            cuts += [cut] if width == 1 else [cut, cut + 1]
        start = end + 1
    return [*cuts, high + 1]


def roundness(
    starts: Sequence[int] | NDArray[np.int64], widths: Sequence[int] | NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how round the value of each cell is; 0 where a cell has several.

    >>> roundness([0, 1, 20, 25, 100, 101], [1, 1, 1, 1, 1, 99]).tolist()
    [9, 0, 2, 1, 4, 0]
    """
    values = np.asarray(starts, dtype=np.int64)
    single = np.asarray(widths) == 1
    levels = np.zeros(len(values), np.int64)
    grain = 1
    for level in range(1, 10):
        grain *= _ROUND[(level - 1) % 2]
        levels[single & (values % grain == 0)] = level
    return levels
