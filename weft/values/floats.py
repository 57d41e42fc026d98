"""Bins over floating-point numbers, as the column's own type (32 or 64 bits) can hold them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.values.cells import public_cuts
from weft.values.runs import Runs, keep

Floats = NDArray[np.float64]
_TINY = 1e-300
_DIGITS = 6  # significant digits by which cells of floats without decimals are told apart


def public_edges(
    low: float, high: float, decimals: int | None, dtype: type[np.floating[Any]] = np.float64
) -> list[float]:
    """Edges of the fine public grid of numbers with these decimals (None: of about seven significant digits).

    Without decimals, the cell of a round number holds this number alone.
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


def equal_edges(low: float, high: float, bins: int) -> list[float]:
    """Edges of equal-width bins, each the nearest float to its exact place."""
    a, b = Fraction(low), Fraction(high)
    return [float(a + (b - a) * i / bins) for i in range(bins)] + [high]


class FloatBins:
    """Bins between rising edges, left-closed, the last one closed.

    Edges and special values are rounded to the column's type first, so that 0.1 in a schema means the 0.1
    of the column. Codes are the bins that hold a drawable value, in order, then the special values.
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
        self._kept, self._code, self._nearest = keep(drawable)

    @property
    def bins(self) -> int:
        """Number of bins with a code."""
        return len(self._kept)

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.bins + len(self._special)

    @property
    def repeats_special(self) -> bool:
        """Whether two special values are one number in the column's type."""
        return len(set(self._special.tolist())) < len(self._special)

    def values(self) -> tuple[list[int], list[int]]:
        """Return the first value of each bin that has a code and how many it has, both in units of its digits."""
        if self._decimals is not None:
            first = [self._runs.first[bin_] for bin_ in self._kept]
            return first, [self._runs.drawable[bin_] for bin_ in self._kept]
        low, high = self._low[self._kept], self._high[self._kept]
        top = max(float(np.abs(self._edges).max()), _TINY)
        unit = 10.0 ** (math.floor(math.log10(top)) - _DIGITS)
        counts = np.maximum(np.ceil((high - low) / unit), 1).astype(int)
        return np.rint(low / unit).astype(int).tolist(), counts.tolist()

    def _ends(self) -> tuple[Floats, Floats]:
        """Lowest and highest drawable number of each bin, stepping inwards over special values."""
        low = self._edges[:-1].astype(self._dtype)
        high = self._beside(self._edges[1:].astype(self._dtype), -np.inf)
        high[-1] = self._dtype(self._edges[-1])
        for _ in self._special:
            low = np.where(np.isin(low, self._special), self._beside(low, np.inf), low)
            high = np.where(np.isin(high, self._special), self._beside(high, -np.inf), high)
        return low.astype(np.float64) + 0.0, high.astype(np.float64) + 0.0

    def _digits(self, decimals: int) -> Runs:
        """For each bin the whole numbers k for which k / 10^decimals, in the column's type, lies in it."""
        starts = [self._first_at(edge, decimals) for edge in self._edges]
        past = [*starts[1:-1], self._first_at(self._next(self._edges[-1]), decimals)]
        gaps = [(self._first_at(s, decimals), self._first_at(self._next(s), decimals) - 1) for s in self._inner()]
        return Runs(starts[:-1], [k - 1 for k in past], [g for g in gaps if g[0] <= g[1]])

    def _inner(self) -> list[float]:
        """Special values between the outer edges."""
        return [s for s in self._special.tolist() if self._edges[0] <= s <= self._edges[-1]]

    def _first_at(self, edge: float, decimals: int) -> int:
        """Smallest k with k / 10^decimals at or above the edge. Rounding is monotone, so bisection finds it."""
        guess = int(Fraction(edge) * 10**decimals)
        spread = 2 + int(abs(guess) * 2.0**-22)  # a 32-bit float may stand for many k
        low, high = guess - spread, guess + spread
        while low < high:
            middle = (low + high) // 2
            if float(self._dtype(middle / 10**decimals)) >= edge:
                high = middle
            else:
                low = middle + 1
        return low

    def _beside(self, values: NDArray[Any], towards: float) -> NDArray[Any]:
        """Next numbers of the column's type; beyond the largest one lies infinity, which empties a bin."""
        with np.errstate(over="ignore"):
            return np.asarray(np.nextafter(values, self._dtype(towards)))

    def _next(self, value: float) -> float:
        return float(self._beside(np.array(value, self._dtype), np.inf))

    def locate(self, values: Floats, clip: bool) -> NDArray[np.int64]:
        """Return the code of each value (infinities allowed, no NaN); -1 where it has none, never with `clip`."""
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
            values = self._continuous(bins, rng)
        else:
            # Whole numbers below 2^53 over a power of ten below 2^63: one correctly rounded division.
            whole = self._runs.draw(bins, rng).view(np.int64)
            values = (whole / 10.0**self._decimals).astype(self._dtype).astype(np.float64)
        if len(self._special):
            values[~in_bin] = self._special[codes[~in_bin] - self.bins]
        return values

    def _continuous(self, bins: NDArray[Any], rng: np.random.Generator) -> Floats:
        low, high = self._low[bins], self._high[bins]
        share = rng.random(len(bins))
        # Two products do not overflow where high - low would; rounding may step outside, hence the clip.
        values = np.clip(low * (1 - share) + high * share, low, high).astype(self._dtype)
        for _ in self._special:  # a drawn special value moves to the next number; the highest is never special
            values = np.where(np.isin(values, self._special), self._beside(values, np.inf), values)
        wide: Floats = values.astype(np.float64)
        return wide + 0.0
