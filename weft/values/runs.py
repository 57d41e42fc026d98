"""Uniform draws from runs of integers with gaps: how a bin gives back one of its possible values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.values.limits import MAX_CODES

Whole = NDArray[np.uint64]
_WRAP = (1 << 64) - 1


def wrap(value: int) -> np.uint64:
    """Return a Python integer modulo 2^64, so that unsigned arithmetic on any 64-bit type is exact."""
    return np.uint64(value & _WRAP)


class Runs:
    """For each bin the integers first to last, without those inside the gaps.

    >>> Runs([0, 5], [4, 5], [(5, 5)]).drawable
    [5, 0]
    """

    def __init__(self, first: Sequence[int], last: Sequence[int], gaps: Sequence[tuple[int, int]]) -> None:
        assert len(first) <= MAX_CODES
        self._base = first[0]
        taken = [0] * len(first)
        held: list[tuple[np.uint64, np.uint64, int]] = []
        for low, high in sorted(set(gaps)):
            bin_ = int(np.searchsorted(np.array(first, dtype=object), low, side="right")) - 1
            # Empty bins repeat the next one's start; the gap belongs to the last bin that starts at or below it.
            if bin_ >= 0 and high <= last[bin_]:
                taken[bin_] += high - low + 1
                held.append((wrap(low - self._base), wrap(high - low + 1), bin_))
        self.drawable = [max(b - a + 1, 0) - t for a, b, t in zip(first, last, taken, strict=True)]
        """Number of integers that can be drawn, by bin."""
        self.first = first
        """First integer of each bin."""
        self._gaps = held
        self._first = np.array([wrap(a - self._base) for a in first], dtype=np.uint64)
        self._top = np.array([wrap(max(n - 1, 0)) for n in self.drawable], dtype=np.uint64)

    def draw(self, bins: NDArray[Any], rng: np.random.Generator) -> Whole:
        """Draw one integer for each bin number; modulo 2^64."""
        drawn: Whole = rng.integers(0, self._top[bins], endpoint=True, dtype=np.uint64) + self._first[bins]
        for start, width, bin_ in self._gaps:
            # Gaps rise, so stepping over each in turn maps the run without gaps onto the run with them.
            drawn[(bins == bin_) & (drawn >= start)] += width
        drawn += wrap(self._base)
        return drawn


def keep(drawable: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Number the bins that have something to draw.

    Returns the bin of each code; the code of each bin, -1 where it has none; and the nearest bin's code.
    """
    has = np.array([n > 0 for n in drawable], dtype=bool)
    kept = np.flatnonzero(has).astype(np.int64)
    code = np.where(has, np.cumsum(has) - 1, -1).astype(np.int64)
    if not len(kept):
        return kept, code, code
    every = np.arange(len(has))
    right = np.clip(np.searchsorted(kept, every), 0, len(kept) - 1)
    left = np.clip(right - 1, 0, None)
    nearest = np.where(np.abs(kept[left] - every) <= np.abs(kept[right] - every), left, right)
    return kept, code, np.where(has, code, nearest)
