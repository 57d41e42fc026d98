"""Integer columns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.schema.kinds.draft_facts import (
    MAX_CATEGORY_INTEGERS,
    ColumnEvidence,
    Guess,
    find_sentinels,
    with_codes,
    with_spikes,
)
from weft.schema.kinds.kind import ColumnError, Label
from weft.schema.kinds.numeric_bins import GridCoder, Number, Scale, small_decimal
from weft.values.bins import MAX_CODES, BinGrid, equal_width
from weft.values.storage import Carrier, Decimals, Integers, WholeFloats
from weft.values.text_columns import TextIntegers
from weft.values.text_numbers import is_text

_EACH = 100  # range size up to which a draft declares numbers, however few different ones were seen
INTEGER_LIMITS = (-(2**63), 2**64 - 1)


@dataclass(frozen=True)
class Integer(Number):
    """An integer."""

    step: int = field(default=1, kw_only=True)
    """Distance between possible values, starting from the lowest."""

    kind: ClassVar[str] = "integer"
    flipped: ClassVar[tuple[str, ...]] = ("range", "step", "special", "missing", "outside")

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = isinstance(self.step, int) and not isinstance(self.step, bool)
        self._need(whole and 1 <= self.step < 2**63, "step must be a whole number, at least 1", "step")
        low, high = self.ends
        count = (high - low) // self.step + 1
        self._need(count <= 2**64, "range must contain at most 2^64 values", "range")
        self._need(
            self.bins != "each" or count <= MAX_CODES,
            f'bins = "each" gives more than {MAX_CODES} codes; set a number of bins',
            "bins",
        )

    def _member(self, value: Any, key: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ColumnError(self.name, f"{key} must contain whole numbers", key)
        low, high = INTEGER_LIMITS
        self._need(low <= value <= high, f"{key} must lie between -2^63 and 2^64 - 1", key)
        return value

    def plain_type(self) -> pa.DataType:
        """Return a 64-bit integer type, unsigned if the range requires it."""
        if self.after is not None:
            return pa.int64()
        return pa.uint64() if max(*self.ends, *self.special) >= 2**63 else pa.int64()

    def scale(self, arrow_type: pa.DataType, nan: bool) -> Scale:
        """Return how integers, floats, decimals or text hold the values as integers."""
        carrier: Carrier
        unit = 1
        if pa.types.is_integer(arrow_type):
            carrier = Integers(arrow_type)
        elif pa.types.is_float32(arrow_type) or pa.types.is_float64(arrow_type):
            carrier = WholeFloats(arrow_type, nan)
        elif small_decimal(arrow_type):
            carrier, unit = Decimals(arrow_type), 10**arrow_type.scale
        elif is_text(arrow_type):
            carrier = TextIntegers(arrow_type)
        else:
            raise self.unfit(arrow_type)
        return Scale(carrier, Fraction(1, unit), Fraction(1))

    def coder(self, arrow_type: pa.DataType, nan: bool) -> GridCoder:
        """Return the coder for integers, floats, decimals or text."""
        scale = self.scale(arrow_type, nan)
        carrier, unit = scale.carrier, scale.unit.denominator
        low, high = self.ends
        self.need_fit(carrier.low <= low * unit and high * unit <= carrier.high, arrow_type, "range")
        for value in self.special:
            self.need_fit(carrier.low <= value * unit <= carrier.high, arrow_type, "special")
        return GridCoder(self, self.gaps(scale), carrier)

    def gaps(self, scale: Scale) -> BinGrid:
        """Compute the bins in units of the scale."""
        unit = scale.unit.denominator
        low, high = self.ends
        edges = self.edges
        cuts = equal_width(low, high, self.step, self.bins) if edges is None else [*edges[:-1], high + 1]
        scaled = [cut * unit for cut in cuts[:-1]] + [high * unit + 1]
        special = [value * unit for value in self.special]
        return BinGrid(scaled, low * unit, self.step * unit, special, strict=True)

    def labels(self, arrow_type: pa.DataType, size: int) -> list[Label]:
        """Return the labels of bins with a non-special value, then of special values."""
        low, high = self.ends
        edges = self.edges
        cuts = equal_width(low, high, self.step, self.bins) if edges is None else [*edges[:-1], high + 1]
        return [Label(_format_whole(a), _format_whole(b), "bin") for a, b in self._runs(cuts)] + self.special_labels(
            _format_whole
        )

    def _runs(self, cuts: Sequence[int]) -> list[tuple[int, int]]:
        """Return the first and last possible value of each bin with a non-special value."""
        low, step, runs = self.ends[0], self.step, []
        on_grid = [s for s in self.special if (s - low) % step == 0]
        for start, end in pairwise(cuts):
            first = low - (low - start) // step * step
            last = low + (end - 1 - low) // step * step
            if (last - first) // step + 1 > sum(first <= s <= last for s in on_grid):
                runs.append((first, last))
        return runs

    @property
    def largest(self) -> int:
        """Largest absolute value in the range or among special values."""
        return max(abs(int(value)) for value in (*self.ends, *self.special))

    @classmethod
    def recognise(cls, evidence: ColumnEvidence) -> Guess | None:
        """Recognise integers, except few different values over a wide range, which look like codes."""
        if not pa.types.is_integer(evidence.type):
            return None
        if not len(evidence.values):
            return Guess({"kind": cls.kind, "range": [0, 1]}, "No value was seen: declare the possible range.")
        wide = pa.uint64() if pa.types.is_uint64(evidence.type) else pa.int64()
        every, many = np.unique(evidence.values.cast(wide).to_numpy(), return_counts=True)
        codes = find_sentinels(every)
        kept = ~np.isin(every, np.array(codes, every.dtype))
        different, counts = every[kept], many[kept]
        low, high = int(different[0]), int(different[-1])
        step = common_step(different)
        entry = {"kind": cls.kind, "range": [low, high]} | ({"step": step} if step > 1 else {})
        if (high - low) // step + 1 <= _EACH:
            return with_codes(Guess(entry, "Whole numbers, few enough for one code each."), codes)
        if len(different) <= MAX_CATEGORY_INTEGERS:
            return None
        return with_codes(with_spikes(Guess(entry, "Whole numbers over a wide range."), different, counts), codes)


def common_step(different: NDArray[Any]) -> int:
    """Compute the largest common divisor of the gaps between sorted integers."""
    gaps = np.unique(np.diff(different).view(np.uint64))  # modular, so exact even across the whole 64-bit range
    step = reduce(math.gcd, (int(gap) for gap in gaps[:10_000]), 0)
    # The divisor is computed from the first gaps only; all others must agree, or the step is 1.
    return step if step and step < 2**63 and bool((gaps % np.uint64(step) == 0).all()) else 1


def _format_whole(value: int) -> str:
    return f"{value:,}" if abs(value) >= 10_000 else str(value)
