"""Bins over exact integers: whole numbers, dates in their type's unit, decimals in their last digit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.schema.columns import DEFAULT_BINS, EACH_LIMIT
from weft.schema.lattice import Lattice, keep, wrap

Mask = NDArray[np.bool_]


def equal_width(low: int, high: int, step: int, bins: int | str | None) -> list[int]:
    """Left edges of the bins of the grid low, low + step, ..., and one past the highest value.

    With m grid values in N bins, bin i starts at low + floor(i m / N) step.

    >>> equal_width(0, 9, 1, 3)
    [0, 3, 6, 10]
    """
    count = (high - low) // step + 1
    if bins is None:
        bins = "each" if count <= EACH_LIMIT else DEFAULT_BINS
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
        self._lattice = Lattice(first, last, gaps)
        self._kept, self._code, self._nearest = keep(self._lattice.drawable)
        self._starts = np.array([cut - self.low for cut in cuts[:-1]], dtype=np.uint64)
        widths = {b - a for a, b in pairwise(cuts)}
        self._width = widths.pop() if len(widths) == 1 and len(cuts) > 2 else None
        order = sorted(range(len(special)), key=special.__getitem__)
        self._special = [special[i] for i in order]
        self._special_code = np.array([self.bins + i for i in order], dtype=np.int64)
        self._special_value = np.array([wrap(s) for s in special], dtype=np.uint64)

    @property
    def bins(self) -> int:
        """Number of bins with a code."""
        return len(self._kept)

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.bins + len(self._special)

    def locate(self, values: NDArray[Any], off: Mask | None, clip: bool) -> NDArray[np.int64]:
        """Return the code of each value (int64 or uint64); -1 where it has none.

        `off` marks values that lie between this integer and the next. With `clip` every value has a code:
        that of the nearest bin, if it lies outside or in a bin with nothing to draw.
        """
        held = np.clip(values, self.low, self.high)
        offset = held.view(np.uint64) - wrap(self.low)
        if self._width is not None:
            bins = (offset // np.uint64(self._width)).astype(np.int64)
        else:
            bins = np.searchsorted(self._starts, offset, side="right") - 1
        codes: NDArray[np.int64] = (self._nearest if clip else self._code)[bins]
        if not clip:
            codes[held != values] = -1
            if self._strict and self._step > 1:
                codes[(offset + wrap(self.low - self._origin)) % np.uint64(self._step) != 0] = -1
            if off is not None:
                codes[off] = -1
        if self._special:
            marks = np.array(self._special, dtype=values.dtype)
            place = np.minimum(np.searchsorted(marks, values), len(marks) - 1)
            hit = marks[place] == values
            if off is not None:
                hit &= ~off
            codes[hit] = self._special_code[place[hit]]
        return codes

    def draw(self, codes: NDArray[Any], rng: np.random.Generator) -> NDArray[np.uint64]:
        """Draw a value for each code, modulo 2^64."""
        in_bin = codes < self.bins
        values = self._lattice.draw(self._kept[np.where(in_bin, codes, 0)], rng) * np.uint64(self._step)
        values += wrap(self._origin)
        if self._special:
            values[~in_bin] = self._special_value[codes[~in_bin] - self.bins]
        return values
