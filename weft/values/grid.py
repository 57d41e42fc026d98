"""Bins over exact integers: whole numbers, dates in their type's unit, decimals in their last digit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.values.cells import public_cuts
from weft.values.limits import EACH_CODE
from weft.values.runs import Runs, keep, wrap

Mask = NDArray[np.bool_]
_NONE = np.empty(0, np.uint64), np.empty(0, np.int64)


def equal_width(low: int, high: int, step: int, bins: int | str | None) -> list[int]:
    """Left edges of the bins of the grid low, low + step, ..., and one past the highest value.

    With m grid values in N bins, bin i starts at low + floor(i m / N) step. None: a bin for each value while these are
    not very many, and otherwise the cells of the public grid.

    >>> equal_width(0, 9, 1, 3)
    [0, 3, 6, 10]
    """
    count = (high - low) // step + 1
    if bins is None and count > EACH_CODE:
        return public_cuts(low, high, step)
    bins = bins or "each"
    n = count if bins == "each" else min(int(bins), count)
    return [low + i * count // n * step for i in range(n)] + [high + 1]


class Grid:
    """Bins between rising cuts (the last one exclusive) over the integers origin, origin + step, ...

    Codes are the bins that hold a drawable value, in order, then the special values. Arithmetic is modulo
    2^64 on unsigned integers, hence exact for every value of a signed or unsigned 64-bit type.
    """

    def __init__(self, cuts: Sequence[int], origin: int, step: int, special: Sequence[int], strict: bool) -> None:
        self.low, self.high = cuts[0], cuts[-1] - 1
        self._origin, self._step, self._strict = origin, step, strict
        first = [-((origin - cut) // step) for cut in cuts[:-1]]
        last = [(cut - 1 - origin) // step for cut in cuts[1:]]
        gaps = [((s - origin) // step,) * 2 for s in special if self.low <= s <= self.high and (s - origin) % step == 0]
        self._runs = Runs(first, last, gaps)
        self._kept, self._code, self._nearest = keep(self._runs.drawable)
        self._starts = np.array([cut - self.low for cut in cuts[:-1]], dtype=np.uint64)
        self._special = special
        self._special_value = np.array([wrap(s) for s in special], dtype=np.uint64)
        order = np.argsort(self._special_value)
        self._special_sorted = self._special_value[order], order.astype(np.int64) + self.bins

    @property
    def bins(self) -> int:
        """Number of bins with a code."""
        return len(self._kept)

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.bins + len(self._special)

    def values(self) -> tuple[list[int], list[int]]:
        """Return the first value of each bin that has a code, in steps from zero, and how many it has."""
        shift = self._origin // self._step if self._origin % self._step == 0 else 0
        first = [self._runs.first[bin_] + shift for bin_ in self._kept]
        return first, [self._runs.drawable[bin_] for bin_ in self._kept]

    def aligned(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the next value on the grid, none outside its ends."""
        next_up = self._origin - (self._origin - values) // self._step * self._step
        last = self._origin + (self.high - self._origin) // self._step * self._step
        return np.clip(next_up, self.low, last)

    def starts(self) -> NDArray[np.int64]:
        """Return the first value of each bin that has a code."""
        found = (self._runs.first[bin_] * self._step + self._origin for bin_ in self._kept)
        return np.fromiter(found, np.int64, len(self._kept))

    def locate(self, values: NDArray[Any], off: Mask | None, clip: bool) -> NDArray[np.int64]:
        """Return the code of each value (int64 or uint64); -1 where it has none.

        `off` marks values that lie between this integer and the next. With `clip` every value has a code:
        that of the nearest bin, if it lies outside or in a bin with nothing to draw.
        """
        codes = self._find(values, clip, self._special_sorted)
        if off is not None and off.any():
            # A number with a fraction is never a special one, though its floor may be.
            codes[off] = self._find(values[off], clip, _NONE) if clip else -1
        return codes

    def _find(self, values: NDArray[Any], clip: bool, special: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[np.int64]:
        from weft.values.kernels import locate  # compiled code loads when a row is read, not before

        top = int(np.iinfo(values.dtype).max)
        codes: NDArray[np.int64] = locate(
            values.view(np.uint64),
            wrap(self.low),
            wrap(self.high - self.low),
            wrap(top - self.low),
            self._starts,
            self._nearest if clip else self._code,
            clip,
            np.uint64(self._step if self._strict else 1),
            wrap(self.low - self._origin),
            *special,
        )
        return codes

    def draw(self, codes: NDArray[Any], rng: np.random.Generator) -> NDArray[np.uint64]:
        """Draw a value for each code, modulo 2^64."""
        in_bin = codes < self.bins
        values = self._runs.draw(self._kept[np.where(in_bin, codes, 0)], rng) * np.uint64(self._step)
        values += wrap(self._origin)
        if self._special:
            values[~in_bin] = self._special_value[codes[~in_bin] - self.bins]
        return values
