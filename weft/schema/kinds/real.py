"""Real-valued columns."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.schema.kinds.draft_facts import ColumnEvidence, Guess, find_sentinels, with_codes, with_spikes
from weft.schema.kinds.kind import Coder, ColumnError, Label, Policies
from weft.schema.kinds.numeric_bins import GridCoder, Number, PlacedCoder, Scale, small_decimal
from weft.values.bins import BinGrid, FloatBins, equal_width, public_edges
from weft.values.storage import Carrier, Decimals, Integers, ScaledFloats, decimal_array, floats_of, write_floats
from weft.values.text_columns import TextDecimals
from weft.values.text_numbers import is_text, read_floats


@dataclass(frozen=True)
class Real(Number):
    """A real number."""

    decimals: int | None = field(default=None, kw_only=True)
    """Decimal places of generated values (default: as many as the type holds)."""

    kind: ClassVar[str] = "real"
    flipped: ClassVar[tuple[str, ...]] = ("range", "decimals", "special", "missing", "outside")

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = isinstance(self.decimals, int) and not isinstance(self.decimals, bool)
        self._need(
            self.decimals is None or (whole and 0 <= int(self.decimals) <= 18),
            "decimals must be a whole number from 0 to 18",
            "decimals",
        )

    @property
    def fraction(self) -> int:
        """Decimal places of every number that is written in a declared number format."""
        return self.decimals or 0

    def _member(self, value: Any, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            raise ColumnError(self.name, f"{key} must contain finite numbers", key)
        return float(value) + 0.0  # so that -0.0 becomes 0.0

    def cuts(self, dtype: type[np.floating[Any]] = np.float64) -> Sequence[float]:
        """Compute the edges of the bins: declared, of equal width, or by default the fine public grid."""
        low, high = self.ends
        if self.edges is not None:
            return self.edges
        if self.bins is not None:
            first, width = Fraction(low), Fraction(high) - Fraction(low)  # so that each edge is rounded once
            return [float(first + width * i / int(self.bins)) for i in range(int(self.bins))] + [high]
        return public_edges(low, high, self.decimals, dtype)

    def plain_type(self) -> pa.DataType:
        """Return 64-bit floats."""
        return pa.float64()

    def coder(self, arrow_type: pa.DataType, nan: bool) -> Coder:
        """Return the coder for floats, text, decimals or integers."""
        if pa.types.is_float32(arrow_type) or pa.types.is_float64(arrow_type) or is_text(arrow_type):
            return FloatCoder(self, arrow_type, nan)
        carrier: Carrier
        if pa.types.is_integer(arrow_type):
            carrier, scale = Integers(arrow_type), 0
        elif small_decimal(arrow_type):
            carrier, scale = Decimals(arrow_type), arrow_type.scale
        else:
            raise self.unfit(arrow_type)
        low, high = (_scale_exactly(end, scale) for end in self.ends)
        self.need_fit(carrier.low <= low and high <= carrier.high, arrow_type, "range")
        special = [_scale_exactly(value, scale) for value in self.special]
        for value in special:
            self.need_fit(value.denominator == 1 and carrier.low <= value <= carrier.high, arrow_type, "special")
        if self.edges is not None:
            edges = [_scale_exactly(edge, scale) for edge in self.edges]
        elif self.bins is not None:
            edges = [low + (high - low) * i / int(self.bins) for i in range(int(self.bins))]
        else:
            edges = [_scale_exactly(edge, scale) for edge in public_edges(*self.ends, self._digits(scale))[:-1]]
        step = 10 ** (scale - self._digits(scale))
        # A bin contains the integers from its left edge, rounded up, to before that of the next bin.
        cuts = [math.ceil(edge) for edge in edges[: len(edges) - (self.edges is not None)]] + [math.floor(high) + 1]
        origin = cuts[0] // step * step
        return GridCoder(self, BinGrid(cuts, origin, step, [int(value) for value in special], strict=False), carrier)

    def scale(self, arrow_type: pa.DataType, nan: bool) -> Scale:
        """Return how floats, text, decimals or integers hold the values as multiples of the last digit."""
        if pa.types.is_integer(arrow_type):
            return Scale(Integers(arrow_type), Fraction(1), Fraction(1))
        if small_decimal(arrow_type):
            digits = self._digits(arrow_type.scale)
            whole = all(_scale_exactly(value, digits).denominator == 1 for value in self.special)
            unit = Fraction(1, 10**arrow_type.scale)
            return Scale(Decimals(arrow_type), unit, Fraction(1, 10**digits) if whole else unit)
        narrow = pa.types.is_float32(arrow_type)
        if not (narrow or pa.types.is_float64(arrow_type) or is_text(arrow_type)):
            raise self.unfit(arrow_type)
        if self.decimals is None:
            raise ColumnError(self.name, "differences are computed exactly: set decimals, such as 2", "decimals")
        digits = self.decimals
        fits = all(_scale_exactly(value, digits).denominator == 1 for value in self.special)
        self._need(fits, f"special must have at most {digits} decimals in a column with after", "special")
        carrier = TextDecimals(arrow_type, digits) if is_text(arrow_type) else ScaledFloats(arrow_type, digits, nan)
        return Scale(carrier, Fraction(1, 10**digits), Fraction(1, 10**digits))

    def gaps(self, scale: Scale) -> BinGrid:
        """Compute the bins of the difference from another column."""
        digits = len(str(scale.unit.denominator)) - 1
        step = 10 ** (digits - self._digits(digits))
        low, high = (_scale_exactly(end, digits) / step for end in self.ends)
        first, last = math.ceil(low), math.floor(high)
        self._need(first <= last, "range contains no number with these decimals; widen it", "range")
        if self.edges is None:
            cuts = equal_width(first, last, 1, self.bins)
        else:
            cuts = [*(math.ceil(_scale_exactly(edge, digits) / step) for edge in self.edges[:-1]), last + 1]
        special = [_scale_exactly(value, digits) for value in self.special]
        self._need(all(value.denominator == 1 for value in special), "special has too many decimals", "special")
        scaled = [cut * step for cut in cuts[:-1]] + [last * step + 1]
        return BinGrid(scaled, first * step, step, [int(value) for value in special], strict=False)

    def _digits(self, scale: int) -> int:
        return scale if self.decimals is None else min(self.decimals, scale)

    def labels(self, arrow_type: pa.DataType, size: int) -> list[Label]:
        """Return the labels of bins with a possible value, then of special values."""
        if self.after is not None:
            return self._gap_labels(arrow_type)
        edges = self.cuts()
        bins = [Label(_format_real(a), _format_real(b), "bin") for a, b in pairwise(edges)]
        wanted = size - len(self.special) - self.missing
        if len(bins) > wanted and self.decimals is not None:
            unit = 10.0**-self.decimals
            taken = [bisect_right(edges, s) - 1 for s in self.special]
            held = [round((b - a) / unit) - taken.count(i) for i, (a, b) in enumerate(pairwise(edges))]
            bins = [label for label, values in zip(bins, held, strict=True) if values > 0]
        return bins + self.special_labels(_format_real)

    def _gap_labels(self, arrow_type: pa.DataType) -> list[Label]:
        scale = self.scale(arrow_type, nan=False)
        grid, unit = self.gaps(scale), float(scale.unit)
        starts, (steps, widths) = grid.starts().tolist(), grid.values()
        step = (starts[-1] - starts[0]) // max(steps[-1] - steps[0], 1)
        ends = [start + (width - 1) * step for start, width in zip(starts, widths, strict=True)]
        bins = [Label(_format_real(a * unit), _format_real(b * unit), "bin") for a, b in zip(starts, ends, strict=True)]
        return bins + self.special_labels(_format_real)

    @classmethod
    def recognise(cls, evidence: ColumnEvidence) -> Guess | None:
        """Recognise floats and decimals."""
        if pa.types.is_decimal128(evidence.type):
            return _guess_decimal(evidence.values)
        if pa.types.is_float32(evidence.type) or pa.types.is_float64(evidence.type):
            return _guess_float(evidence.values.cast(pa.float64()).to_numpy(), pa.types.is_float32(evidence.type))
        return None


class FloatCoder(PlacedCoder):
    """Coder of floating-point numbers in a column of floats or text."""

    def __init__(self, column: Real, arrow_type: pa.DataType, nan: bool) -> None:
        self._type, self._nan, self._decimals = arrow_type, nan, column.decimals
        self._clip = column.outside == "clip"
        low, high = column.ends
        dtype = np.float32 if pa.types.is_float32(arrow_type) else np.float64
        top, most = max(abs(low), abs(high)), float(np.finfo(dtype).max)
        column.need_fit(top <= most, arrow_type, "range")
        column.need_fit(all(abs(value) <= most for value in column.special), arrow_type, "special")
        if column.decimals is not None and top * 10.0**column.decimals > 2.0**53:
            raise ColumnError(column.name, "a float cannot hold this many decimals over this range", "decimals")
        self.bins = FloatBins(column.cuts(dtype), column.special, column.decimals, dtype)
        column.need_bins(self.bins)
        if self.bins.repeats_special:
            raise ColumnError(column.name, f"two special values are equal in the type {arrow_type}", "special")
        self._outcomes = Policies(column, self.bins.size)
        self.size = self._outcomes.size

    def _locate(self, array: pa.Array, clip: bool) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        none = np.zeros(len(array), bool)
        values, unreadable = read_floats(array) if is_text(self._type) else (floats_of(array), none)
        codes = self.bins.locate(np.where(np.isnan(values), 0.0, values), clip)
        codes[unreadable] = -1
        missing = np.isnan(values) & ~unreadable
        return codes, missing | unreadable if clip else missing

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """Sample a value for each code."""
        codes = codes.astype(np.int64)
        missing = self._outcomes.is_missing(codes)
        values = self.bins.draw(np.where(missing, 0, codes), rng)
        if not is_text(self._type):
            return write_floats(values, missing, self._type, self._nan)
        if self._decimals is not None:
            scaled = np.rint(values * 10.0**self._decimals)
            whole = np.where(np.abs(scaled) < 2.0**62, scaled, 0.0).astype(np.int64)
            if np.array_equal(whole / 10.0**self._decimals, values):  # a special value may have more digits
                return decimal_array(whole, self._decimals, missing).cast(pa.string()).cast(self._type)
        return pa.array(values, mask=missing).cast(pa.string()).cast(self._type)


def _guess_float(values: NDArray[np.float64], narrow: bool) -> Guess:
    dtype = np.float32 if narrow else np.float64
    finite = values[np.isfinite(values)] + 0.0
    if not len(finite):
        guess = Guess({"kind": "real", "range": [0.0, 1.0]}, "No finite value was seen: declare the possible range.")
    else:
        every, many = np.unique(finite, return_counts=True)
        codes = find_sentinels(every)
        kept = ~np.isin(every, codes)
        different, counts = every[kept], many[kept]
        entry: dict[str, Any] = {"kind": "real", "range": [float(different[0]), float(different[-1])]}
        places = _count_decimals(different, dtype)
        if places is not None:
            entry["decimals"] = places
        guess = with_codes(with_spikes(Guess(entry, "Numbers with decimal places."), different, counts), codes)
    if len(finite) < len(values):
        # Infinite values are outside every range: only the clip policy accepts them, and it needs a code for missing.
        return Guess(guess.entry | {"outside": "clip", "missing": True}, f"{guess.reason} Infinite values are clipped.")
    return guess


def _count_decimals(different: NDArray[np.float64], dtype: type[np.floating[Any]]) -> int | None:
    top = float(np.abs(different).max())
    for places in range(7):
        if top * 10.0**places > 2.0**50:
            return None
        back = (np.rint(different * 10.0**places) / 10.0**places).astype(dtype).astype(np.float64)
        if np.array_equal(back, different):
            return places
    return None


def _guess_decimal(values: pa.Array) -> Guess:
    kind = values.type
    if not len(values):
        return Guess({"kind": "real", "range": [0.0, 1.0]}, "No value was seen: declare the possible range.")
    different, counts = np.unique(Decimals(kind).read(values).values, return_counts=True)
    ends = pc.min_max(values)
    low, high = float(ends["min"].as_py()), float(ends["max"].as_py())
    # The float nearest to a long decimal may be inside the range; then move outwards by one float.
    low = math.nextafter(low, -math.inf) if low > ends["min"].as_py() else low
    high = math.nextafter(high, math.inf) if high < ends["max"].as_py() else high
    entry = {"kind": "real", "range": [low, high], "decimals": min(kind.scale, 18)}
    guess = Guess(entry, "Decimal numbers.")
    return with_spikes(guess, different / 10.0**kind.scale, counts) if abs(high) < 1e9 > abs(low) else guess


def _scale_exactly(value: float, scale: int) -> Fraction:
    return Fraction(Decimal(repr(value))) * Fraction(10) ** scale


def _format_real(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and 10_000 <= abs(value) < 1e15 else f"{value:.6g}"


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False
