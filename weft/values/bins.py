"""Bins of exact integers (whole numbers, dates in their type's unit, decimals in their last digit) and of floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.values.timestamps import DAY, UNIT, parse_step

MAX_CODES = 1_000_000
"""Largest number of codes per column: no table over more could be counted."""

EACH_CODE = 1 << 17
"""Largest number of possible values for which a whole-number column gets one code per value by default."""

EACH_CELL = 8192
"""Largest number of possible values counted individually in a one-way marginal; more are counted in cells."""


Whole = NDArray[np.uint64]
_WRAP = (1 << 64) - 1


def wrap_to_64_bits(value: int) -> np.uint64:
    """Return a Python integer modulo 2^64, so that unsigned arithmetic is exact for any 64-bit type."""
    return np.uint64(value & _WRAP)


class Runs:
    """For each bin the integers from first to last, without those in the gaps, for uniform draws.

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
            # Empty bins share the next bin's start; the gap belongs to the last bin that starts at or below it.
            if bin_ >= 0 and high <= last[bin_]:
                taken[bin_] += high - low + 1
                held.append((wrap_to_64_bits(low - self._base), wrap_to_64_bits(high - low + 1), bin_))
        self.drawable = [max(b - a + 1, 0) - t for a, b, t in zip(first, last, taken, strict=True)]
        """Number of integers that can be drawn, by bin."""
        self.first = first
        """First integer of each bin."""
        self._gaps = held
        self._first = np.array([wrap_to_64_bits(a - self._base) for a in first], dtype=np.uint64)
        self._top = np.array([wrap_to_64_bits(max(n - 1, 0)) for n in self.drawable], dtype=np.uint64)

    def draw(self, bins: NDArray[Any], rng: np.random.Generator) -> Whole:
        """Draw one integer for each bin number, modulo 2^64."""
        drawn: Whole = rng.integers(0, self._top[bins], endpoint=True, dtype=np.uint64) + self._first[bins]
        for start, width, bin_ in self._gaps:
            # Gaps are increasing, so skipping each in turn maps the run without gaps onto the run with them.
            drawn[(bins == bin_) & (drawn >= start)] += width
        drawn += wrap_to_64_bits(self._base)
        return drawn


def number_drawable_bins(drawable: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the bin of each code, the code of each bin (-1: nothing to draw), and the code of the nearest bin."""
    has = np.array([n > 0 for n in drawable], dtype=bool)
    kept = np.flatnonzero(has).astype(np.int64)
    code = np.where(has, np.cumsum(has) - 1, -1).astype(np.int64)
    if not len(kept):
        return kept, code, code
    return kept, code, np.where(has, code, find_nearest(kept, len(has)))


def find_nearest(kept: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return for each number below n the index of the nearest one in a sorted array that is not empty."""
    every = np.arange(n)
    right = np.clip(np.searchsorted(kept, every), 0, len(kept) - 1)
    left = np.maximum(right - 1, 0)
    return np.where(np.abs(kept[left] - every) <= np.abs(kept[right] - every), left, right)


DIGITS = 2
"""Digits after the first in which the cells of a wide range differ."""

MAX_BIN_CELLS = 16_384
"""Largest number of cells; above it, cells differ in fewer digits."""

_ROUND = (5, 10, 50, 100, 500, 1000, 5000, 10_000, 50_000)  # grains of the levels of roundness


def public_cuts(low: int, high: int, step: int = 1) -> list[int]:
    """Return the left ends of the cells of low, low + step, ..., high, and one past the highest.

    The grid is chosen from the range and step only, never from rows.

    >>> public_cuts(0, 5)
    [0, 1, 2, 3, 4, 5, 6]
    >>> cuts = public_cuts(0, 10**6)
    >>> [cut for cut in cuts if 72_900 <= cut < 73_100]
    [72900, 72901, 73000, 73001]
    """
    if (high - low) // step + 1 <= EACH_CELL:
        return [*range(low, high + 1, step), high + 1]
    for digits in range(DIGITS, -1, -1):
        cuts = _make_cuts(low, high, digits)
        if len(cuts) <= MAX_BIN_CELLS:
            break
    return cuts


def _make_cuts(low: int, high: int, digits: int) -> list[int]:
    if high >= 0:
        least = max(low, 0)
        found = _make_rising_cuts(least, high, digits, _choose_growth(least, high))
    else:
        found = []
    if low < 0:
        nearest = max(-high, 1)
        below = _make_rising_cuts(nearest, -low, digits, _choose_growth(nearest, -low))
        found = [*(1 - cut for cut in reversed(below)), *found[1:]] if found else [1 - cut for cut in reversed(below)]
    return sorted({low, *(cut for cut in found if low < cut <= high), high + 1})


def _choose_growth(low: int, high: int) -> int:
    """Return 1 if cell widths grow with the number, 0 if not, as for years from 1900 to 2100."""
    return 0 if high < 10 * low else 1


def _make_rising_cuts(low: int, high: int, digits: int, growing: int) -> list[int]:
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


def measure_roundness(
    starts: Sequence[int] | NDArray[np.int64], widths: Sequence[int] | NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the roundness level of each cell's value; 0 if a cell has several values.

    >>> measure_roundness([0, 1, 20, 25, 100, 101], [1, 1, 1, 1, 1, 99]).tolist()
    [9, 0, 2, 1, 4, 0]
    """
    return _measure_levels(starts, widths, _ROUND)


def _measure_levels(
    starts: Sequence[int] | NDArray[np.int64], widths: Sequence[int] | NDArray[Any], grains: Sequence[int]
) -> NDArray[np.int64]:
    """Return for each cell of a single value the number of the last grain that divides it; 0 for other cells."""
    values, single = np.asarray(starts, dtype=np.int64), np.asarray(widths) == 1
    levels = np.zeros(len(values), np.int64)
    for level, grain in enumerate(grains, start=1):
        levels[single & (values % grain == 0)] = level
    return levels


Mask = NDArray[np.bool_]
_NONE = np.empty(0, np.uint64), np.empty(0, np.int64)


def equal_width(low: int, high: int, step: int, bins: int | str | None) -> list[int]:
    """Return the left edges of the bins of the grid low, low + step, ..., and one past the highest value.

    With m grid values in N bins, bin i starts at low + floor(i m / N) step. None: one bin per value up to `EACH_CODE`
    values, otherwise the cells of the public grid.

    >>> equal_width(0, 9, 1, 3)
    [0, 3, 6, 10]
    """
    count = (high - low) // step + 1
    if bins is None and count > EACH_CODE:
        return public_cuts(low, high, step)
    bins = bins or "each"
    n = count if bins == "each" else min(int(bins), count)
    return [low + i * count // n * step for i in range(n)] + [high + 1]


class CodedBins:
    """Bins with a code each, followed by special values."""

    _kept: NDArray[np.int64]
    _special: Sequence[float] | NDArray[np.float64]

    @property
    def bins(self) -> int:
        """Number of bins with a code."""
        return len(self._kept)

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.bins + len(self._special)


class BinGrid(CodedBins):
    """Bins between increasing cuts (the last one exclusive) over the integers origin, origin + step, ...

    Codes are the bins with a drawable value, in order, then the special values. Arithmetic is modulo 2^64 on unsigned
    integers, hence exact for every value of a signed or unsigned 64-bit type.
    """

    def __init__(self, cuts: Sequence[int], origin: int, step: int, special: Sequence[int], strict: bool) -> None:
        self.low, self.high = cuts[0], cuts[-1] - 1
        self._origin, self._step, self._strict = origin, step, strict
        first = [-((origin - cut) // step) for cut in cuts[:-1]]
        last = [(cut - 1 - origin) // step for cut in cuts[1:]]
        gaps = [((s - origin) // step,) * 2 for s in special if self.low <= s <= self.high and (s - origin) % step == 0]
        self._runs = Runs(first, last, gaps)
        self._kept, self._code, self._nearest = number_drawable_bins(self._runs.drawable)
        self._starts = np.array([cut - self.low for cut in cuts[:-1]], dtype=np.uint64)
        self._special = special
        self._special_value = np.array([wrap_to_64_bits(s) for s in special], dtype=np.uint64)
        order = np.argsort(self._special_value)
        self._special_sorted = self._special_value[order], order.astype(np.int64) + self.bins

    def values(self) -> tuple[list[int], list[int]]:
        """Return the first value of each bin with a code, in steps from zero, and its number of values."""
        shift = self._origin // self._step if self._origin % self._step == 0 else 0
        first = [self._runs.first[bin_] + shift for bin_ in self._kept]
        return first, [self._runs.drawable[bin_] for bin_ in self._kept]

    def aligned(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the next value on the grid, clipped to its ends."""
        next_up = self._origin - (self._origin - values) // self._step * self._step
        last = self._origin + (self.high - self._origin) // self._step * self._step
        return np.clip(next_up, self.low, last)

    def starts(self) -> NDArray[np.int64]:
        """Return the first value of each bin with a code."""
        found = (self._runs.first[bin_] * self._step + self._origin for bin_ in self._kept)
        return np.fromiter(found, np.int64, len(self._kept))

    def locate(self, values: NDArray[Any], off: Mask | None, clip: bool) -> NDArray[np.int64]:
        """Return the code of each value (int64 or uint64); -1 if it has none.

        `off` marks values that lie between this integer and the next. With `clip` every value has a code: that of the
        nearest bin, if it lies outside or in a bin without drawable values.
        """
        codes = self._find(values, clip, self._special_sorted)
        if off is not None and off.any():
            # A number with a fraction is never special, even if its floor is.
            codes[off] = self._find(values[off], clip, _NONE) if clip else -1
        return codes

    def _find(self, values: NDArray[Any], clip: bool, special: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[np.int64]:
        from weft.values.digit_kernels import locate_codes  # load compiled code only when rows are read

        top = int(np.iinfo(values.dtype).max)
        codes: NDArray[np.int64] = locate_codes(
            values.view(np.uint64),
            wrap_to_64_bits(self.low),
            wrap_to_64_bits(self.high - self.low),
            wrap_to_64_bits(top - self.low),
            self._starts,
            self._nearest if clip else self._code,
            clip,
            np.uint64(self._step if self._strict else 1),
            wrap_to_64_bits(self.low - self._origin),
            *special,
        )
        return codes

    def draw(self, codes: NDArray[Any], rng: np.random.Generator) -> NDArray[np.uint64]:
        """Draw a value for each code, modulo 2^64."""
        in_bin = codes < self.bins
        values = self._runs.draw(self._kept[np.where(in_bin, codes, 0)], rng) * np.uint64(self._step)
        values += wrap_to_64_bits(self._origin)
        if self._special:
            values[~in_bin] = self._special_value[codes[~in_bin] - self.bins]
        return values


Floats = NDArray[np.float64]
_TINY = 1e-300
_DIGITS = 6  # significant digits that distinguish cells of floats without decimals


def public_edges(
    low: float, high: float, decimals: int | None, dtype: type[np.floating[Any]] = np.float64
) -> list[float]:
    """Return the edges of the fine public grid of numbers with these decimals (None: about seven significant digits).

    Without decimals, the cell of a round number contains this number only.
    """
    top = max(abs(low), abs(high), _TINY)
    digits = _DIGITS - math.floor(math.log10(top)) if decimals is None else decimals
    scale = Fraction(10) ** digits
    first, last = math.ceil(Fraction(low) * scale), math.floor(Fraction(high) * scale)
    if first > last:
        return [low, high]
    cuts = public_cuts(first, last)
    places = [float(dtype(float(min(Fraction(cut) / scale, Fraction(high))))) for cut in cuts]
    if decimals is None:
        for i in range(1, len(cuts) - 1):
            if cuts[i] - cuts[i - 1] == 1 < cuts[i + 1] - cuts[i]:
                places[i] = float(np.nextafter(dtype(places[i - 1]), dtype(np.inf)))
    inner = sorted({place for place in places if low < place < high})
    return [low, *inner, high]


class FloatBins(CodedBins):
    """Bins of floats between increasing edges, left-closed, the last one closed.

    Edges and special values are rounded to the column's type (32 or 64 bits) first, so that 0.1 in a schema means the
    0.1 of the column. Codes are the bins with a drawable value, in order, then the special values.
    """

    def __init__(
        self, edges: Sequence[float], special: Sequence[float], decimals: int | None, dtype: type[np.floating[Any]]
    ) -> None:
        self._dtype, self._decimals = dtype, decimals
        self._edges: Floats = np.array(edges, dtype=np.float64).astype(dtype).astype(np.float64)
        self._special: Floats = np.array(special, dtype=np.float64).astype(dtype).astype(np.float64) + 0.0
        self._order = np.argsort(self._special)
        self._sorted = self._special[self._order]
        if decimals is None:
            self._low, self._high = self._ends()
            drawable = (self._low <= self._high).astype(int).tolist()
        else:
            self._runs = self._digits(decimals)
            drawable = self._runs.drawable
        self._kept, self._code, self._nearest = number_drawable_bins(drawable)

    @property
    def repeats_special(self) -> bool:
        """Whether two special values are equal in the column's type."""
        return len(set(self._special.tolist())) < len(self._special)

    def values(self) -> tuple[list[int], list[int]]:
        """Return the first value of each bin with a code and its number of values, both in units of the last digit."""
        if self._decimals is not None:
            first = [self._runs.first[bin_] for bin_ in self._kept]
            return first, [self._runs.drawable[bin_] for bin_ in self._kept]
        low, high = self._low[self._kept], self._high[self._kept]
        top = max(float(np.abs(self._edges).max()), _TINY)
        unit = 10.0 ** (math.floor(math.log10(top)) - _DIGITS)
        counts = np.maximum(np.ceil((high - low) / unit), 1).astype(int)
        return np.rint(low / unit).astype(int).tolist(), counts.tolist()

    def _ends(self) -> tuple[Floats, Floats]:
        """Return the lowest and highest drawable number of each bin, skipping special values at the ends."""
        low = self._edges[:-1].astype(self._dtype)
        high = self._beside(self._edges[1:].astype(self._dtype), -np.inf)
        high[-1] = self._dtype(self._edges[-1])
        for _ in self._special:
            low = np.where(np.isin(low, self._special), self._beside(low, np.inf), low)
            high = np.where(np.isin(high, self._special), self._beside(high, -np.inf), high)
        return low.astype(np.float64) + 0.0, high.astype(np.float64) + 0.0

    def _digits(self, decimals: int) -> Runs:
        """Return for each bin the whole numbers k such that k / 10^decimals, in the column's type, lies in it."""
        starts = [self._first_at(edge, decimals) for edge in self._edges]
        past = [*starts[1:-1], self._first_at(self._next(self._edges[-1]), decimals)]
        gaps = [(self._first_at(s, decimals), self._first_at(self._next(s), decimals) - 1) for s in self._inner()]
        return Runs(starts[:-1], [k - 1 for k in past], [g for g in gaps if g[0] <= g[1]])

    def _inner(self) -> list[float]:
        return [s for s in self._special.tolist() if self._edges[0] <= s <= self._edges[-1]]

    def _first_at(self, edge: float, decimals: int) -> int:
        """Return the smallest k with k / 10^decimals >= edge, by bisection, since rounding is monotone."""
        guess = int(Fraction(edge) * 10**decimals)
        spread = 2 + int(abs(guess) * 2.0**-22)  # a 32-bit float may represent many k
        low, high = guess - spread, guess + spread
        while low < high:
            middle = (low + high) // 2
            if float(self._dtype(middle / 10**decimals)) >= edge:
                high = middle
            else:
                low = middle + 1
        return low

    def _beside(self, values: NDArray[Any], towards: float) -> NDArray[Any]:
        """Return the next numbers of the column's type; beyond the largest one is infinity, which empties a bin."""
        with np.errstate(over="ignore"):
            return np.asarray(np.nextafter(values, self._dtype(towards)))

    def _next(self, value: float) -> float:
        return float(self._beside(np.array(value, self._dtype), np.inf))

    def locate(self, values: Floats, clip: bool) -> NDArray[np.int64]:
        """Return the code of each value (infinities allowed, no NaN); -1 if it has none, never with `clip`."""
        values = values + 0.0  # -0.0 is 0.0
        bins = np.clip(np.searchsorted(self._edges, values, side="right") - 1, 0, len(self._code) - 1)
        codes = (self._nearest if clip else self._code)[bins]
        if not clip:
            codes[(values < self._edges[0]) | (values > self._edges[-1])] = -1
        if len(self._special):
            place = np.minimum(np.searchsorted(self._sorted, values), len(self._sorted) - 1)
            hit = self._sorted[place] == values
            codes[hit] = self.bins + self._order[place[hit]]
        return codes

    def draw(self, codes: NDArray[Any], rng: np.random.Generator) -> Floats:
        """Draw a value for each code, exactly representable in the column's type."""
        in_bin = codes < self.bins
        bins = self._kept[np.where(in_bin, codes, 0)]
        if self._decimals is None:
            low, high = self._low[bins], self._high[bins]
            share = rng.random(len(bins))
            # Two products cannot overflow, unlike high - low; rounding may fall outside, hence the clip.
            drawn = np.clip(low * (1 - share) + high * share, low, high).astype(self._dtype)
            for _ in self._special:  # replace a drawn special value by the next number; the highest is never special
                drawn = np.where(np.isin(drawn, self._special), self._beside(drawn, np.inf), drawn)
            values = drawn.astype(np.float64) + 0.0
        else:
            # Whole numbers below 2^53 over a power of ten below 2^63: one correctly rounded division.
            whole = self._runs.draw(bins, rng).view(np.int64)
            values = (whole / 10.0**self._decimals).astype(self._dtype).astype(np.float64)
        if len(self._special):
            values[~in_bin] = self._special[codes[~in_bin] - self.bins]
        return values


_GRAINS = tuple(map(parse_step, ("1s", "15s", "1min", "5min", "15min", "30min", "1h", "12h", "1d", "7d")))
_HOUR, _MINUTE = parse_step("1h"), parse_step("1min")
_WIDTHS = ((0, UNIT["s"]), (_HOUR, _MINUTE), (DAY, _HOUR), (60 * DAY, DAY), (3650 * DAY, 7 * DAY))


def span_cuts(step: int) -> Callable[[int, int], list[int]]:
    """Return a function that cuts a range of time steps into cells; `step` is in nanoseconds.

    Durations and times of day are typically rounded to quarters of an hour, hours and days, not to tens.

    >>> cuts = span_cuts(parse_step("1min"))(0, 20 * 1440)
    >>> [cut for cut in cuts if 2875 < cut < 3005]
    [2880, 2881, 2940, 2941, 3000, 3001]
    """

    def cuts(low: int, high: int) -> list[int]:
        if high - low + 1 <= EACH_CELL:
            return list(range(low, high + 2))
        widen = 1
        while len(found := _span_cuts(low, high, step, widen)) > MAX_BIN_CELLS:
            widen *= 4
        return found

    return cuts


def _span_cuts(low: int, high: int, step: int, widen: int) -> list[int]:
    top = max(abs(low), abs(high))
    ends = [max(start // step, 0) for start, _ in _WIDTHS[1:]] + [top + 1]
    found: set[int] = set()
    start = 0
    for (_, width), end in zip(_WIDTHS, ends, strict=True):
        wide = max(width // step, 1) * widen
        rising = range(-(-start // wide) * wide, min(end, top + 1), wide)
        found.update(rising if wide == 1 else chain(rising, (cut + 1 for cut in rising)))
        start = end
        if start > top:
            break
    both = found | {1 - cut for cut in found}
    return sorted({low, *(cut for cut in both if low < cut <= high), high + 1})


def span_levels(step: int) -> Callable[[Sequence[int], NDArray[np.float64]], NDArray[np.int64]]:
    """Return a function that computes the roundness level of each cell, in steps; 0 if a cell has several values.

    >>> span_levels(parse_step("1min"))([0, 1, 5, 45, 60, 61], np.array([1, 1, 1, 1, 1, 59.0])).tolist()
    [7, 0, 1, 2, 4, 0]
    """
    grains = [grain // step for grain in _GRAINS if grain > step and grain % step == 0]
    return partial(_measure_levels, grains=grains)
