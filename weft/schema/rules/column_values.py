"""Convert the values of a column to numbers, which rules compare, and back to the column's type.

Listed texts become their position in the list, dates and times become microseconds since 1970. The conversion depends
on the schema only, so that each row is interpreted independently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.schema.kinds.attributes import coder_of, plain_coder
from weft.schema.kinds.datetime import Datetime
from weft.schema.kinds.integer import Integer
from weft.schema.kinds.kind import Coder, Column, Scalar, suggest_known_word
from weft.schema.kinds.numeric_bins import BinnedColumn, GridCoder
from weft.schema.kinds.real import Real
from weft.values.storage import decode_dictionary
from weft.values.text_numbers import is_text, read_floats, read_integers, read_moments
from weft.values.timestamps import DAY, Moment, parse_step

Mask = NDArray[np.bool_]

MICRO = 1_000
"""Unit in which dates and times are compared, in nanoseconds."""


class UnfitValueError(ValueError):
    """Error for a value in a rule that its column cannot contain; the text gives the reason and the remedy."""


@dataclass(frozen=True)
class Values:
    """Values of a column as numbers."""

    numbers: NDArray[Any]
    """Integers or floats; arbitrary where missing."""
    missing: Mask
    reader: ColumnReader

    def __len__(self) -> int:
        return len(self.missing)

    def take(self, rows: Any) -> Values:
        """Select rows."""
        return Values(self.numbers[rows], self.missing[rows], self.reader)


class ColumnReader:
    """Reader and writer of one column in one Arrow type."""

    def __init__(self, column: Column, field: pa.Field) -> None:
        self.column, self.field = column, field
        self.type = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        self._nan = not field.nullable and pa.types.is_floating(self.type)
        self._coder: Coder | None = None
        self._table: NDArray[Any] | None = None
        if column.modelled and column.listed is not None:
            self._coder = plain_coder(coder_of(column, field))
            spelled = isinstance(column.listed[0], str)
            self._table = np.arange(len(column.listed)) if spelled else np.asarray(column.listed) + 0

    @property
    def comparable(self) -> bool:
        """Whether the values have an order that a rule can use."""
        if self._table is not None:
            return self.column.listed is not None and not isinstance(self.column.listed[0], str)
        return isinstance(self.column, BinnedColumn) or not is_text(self.type)

    @property
    def follows(self) -> bool:
        """Whether the column is encoded as a difference from another one, which its range then describes."""
        return getattr(self.column, "after", None) is not None

    @property
    def whole(self) -> bool:
        """Whether the values are integers."""
        return isinstance(self.column, Integer) or (self._table is not None and self._table.dtype.kind in "iu")

    @property
    def listed(self) -> bool:
        """Whether the values are those of a list."""
        return self._table is not None

    @property
    def moments(self) -> bool:
        """Whether the values are dates or times."""
        return isinstance(self.column, Datetime) or pa.types.is_temporal(self.type)

    def read(self, array: pa.Array) -> Values:
        """Return the values of an array; unreadable values count as missing."""
        array = decode_dictionary(array)
        if pa.types.is_null(array.type):
            return Values(np.zeros(len(array), np.int64), np.ones(len(array), bool), self)
        if self._coder is not None and self._table is not None:
            codes = self._coder.encode(array)
            missing = codes >= len(self._table)
            return Values(self._table[np.where(missing, 0, codes)], missing, self)
        numbers, missing = self._numbers(array)
        return Values(numbers, missing, self)

    def _numbers(self, array: pa.Array) -> tuple[NDArray[Any], Mask]:
        missing = pc.is_null(array, nan_is_null=True).to_numpy(zero_copy_only=False)
        held = array.type
        if pa.types.is_floating(held) or pa.types.is_decimal(held):
            values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
            return np.where(missing, 0.0, values), missing
        if is_text(held):
            return self._spelled(array, missing)
        if pa.types.is_date(held):
            array = array.cast(pa.timestamp("ms"))
        if pa.types.is_time32(held):
            array = array.cast(pa.int32())
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.timestamp("us", getattr(array.type, "tz", None)), safe=False)
        if pa.types.is_uint64(array.type) and self.column.largest >= 2**63:
            return array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64), missing
        return array.cast(pa.int64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False), missing

    def _spelled(self, array: pa.Array, missing: Mask) -> tuple[NDArray[Any], Mask]:
        if isinstance(self.column, Integer):
            whole, off, unreadable = read_integers(array)
            return whole.astype(np.int64), missing | off | unreadable
        if isinstance(self.column, Real):
            floats, unreadable = read_floats(array)
            return np.where(unreadable | missing, 0.0, floats), missing | unreadable
        if isinstance(self.column, Datetime):
            stamps = read_moments(array, *self.column.spellings)
            lost = pc.is_null(stamps).to_numpy(zero_copy_only=False)
            return stamps.cast(pa.timestamp("us")).cast(pa.int64()).fill_null(0).to_numpy(), lost
        # Other text is only compared for equality within one block, for keys and donors.
        return array.dictionary_encode().indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), missing

    def span(self, value: Any) -> tuple[Any, Any]:
        """Return the lowest and highest number that a value in a rule represents (for a date, the whole day)."""
        if self._table is not None:
            place = self._listed_place(value)
            return self._table[place], self._table[place]
        if isinstance(self.column, Datetime):
            try:
                moment = Moment.parse(value)
                low = moment.instant(self.column.timezone or getattr(self.type, "tz", None))
            except (ValueError, TypeError):
                raise UnfitValueError('must be a date such as "2013-01-31" or "2013-01-31 18:30:00"') from None
            return _saturate(low // MICRO), _saturate((low + (DAY if moment.whole_day else MICRO) - 1) // MICRO)
        _check_number(value)
        if isinstance(self.column, Integer) and value != int(value):
            raise UnfitValueError("must be a whole number")
        number = float(np.float32(value)) if pa.types.is_float32(self.type) else value
        return number, number

    def bound(self, value: Any) -> tuple[Any, Any]:
        """Return the numbers that an end of a range represents; the end need not be a possible value."""
        if self._table is None:
            return self.span(value)
        _check_number(value)
        return value, value

    def _listed_place(self, value: Any) -> int:
        listed = self.column.listed or ()
        if isinstance(listed[0], float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        for place, known in enumerate(listed):
            if type(known) is type(value) and known == value:
                return place
        near = suggest_known_word(value, [v for v in listed if isinstance(v, str)]) if isinstance(value, str) else ""
        raise UnfitValueError(f"is not one of its values.{near} Use a value that the schema lists for it")

    def point(self, value: Any) -> Any:
        """Return the number of a value; raise UnfitValueError if the column cannot contain it."""
        low, high = self.span(value)
        if self._table is None and not self.fits(np.array([low, high])).any():
            raise UnfitValueError("lies outside its range. Widen the range, or change the value")
        return low

    def typed(self, text: str) -> Scalar | None:
        """Parse a cell of a CSV file, or a key of a map; None for missing."""
        listed = self.column.listed
        if listed is not None:
            spelled = {("true" if v else "false") if isinstance(v, bool) else str(v): v for v in listed}
            if text in spelled:
                return spelled[text]
            if not text:
                return None
            raise UnfitValueError(f"is not one of its values.{suggest_known_word(text, spelled)}")
        if not text:
            return None
        try:
            return int(text) if isinstance(self.column, Integer) else float(text) if not self.moments else text
        except ValueError:
            raise UnfitValueError("must be a number") from None

    @property
    def ends(self) -> tuple[Any, Any]:
        """Lowest and highest number that the column can contain, except special values."""
        if self._table is not None:
            return self._table.min(), self._table.max()
        if isinstance(self.column, BinnedColumn) and not self.follows:
            low, high = self.column.ends
            return self.span(low)[0], self.span(high)[1]
        return -np.inf, np.inf

    @property
    def special(self) -> list[Any]:
        """Numbers of the special values."""
        if not isinstance(self.column, BinnedColumn) or self.follows:
            return []
        return [self.span(value)[0] for value in self.column.special]

    def fits(self, numbers: NDArray[Any]) -> Mask:
        """Return which numbers the column can contain."""
        if self._table is not None:
            return np.isin(numbers, self._table)
        low, high = self.ends
        fits = (numbers >= low) & (numbers <= high)
        if isinstance(self.column, Integer) and not self.follows:
            fits &= (numbers - low) % self.column.step == 0
        return np.asarray(fits | np.isin(numbers, self.special))

    @cached_property
    def codes(self) -> Values | None:
        """Value of each code; None if a code represents several values."""
        if self._table is not None and self._coder is not None:
            numbers, size = self._table, self._coder.size
        elif isinstance(self.column, Integer) and not pa.types.is_decimal(self.type) and not self.follows:
            coder = plain_coder(coder_of(self.column, self.field))
            assert isinstance(coder, GridCoder)
            if max(coder.bins.values()[1]) > 1 or self.column.largest >= 2**63:
                return None
            numbers = np.append(coder.bins.starts(), np.array(self.column.special, np.int64))
            size = coder.size
        else:
            return None
        padded = np.append(numbers, numbers[:1].repeat(size - len(numbers)))
        return Values(padded, np.arange(size) >= len(numbers), self)

    def make(self, numbers: NDArray[Any]) -> pa.Array:
        """Convert possible numbers to the column's value type."""
        if self._table is not None and self._coder is not None:
            order = np.argsort(self._table)
            places = order[np.searchsorted(self._table[order], numbers)]
            return self._coder.decode(places, np.random.default_rng(0))
        if self.moments:
            stamps = pa.array(np.asarray(numbers, np.int64), pa.timestamp("us"))
            if is_text(self.type):
                assert isinstance(self.column, Datetime)
                form = self.column.spellings[0]
                return pc.strftime(stamps.cast(pa.timestamp("s"), safe=False), format=form).cast(self.type)
            if pa.types.is_timestamp(self.type):
                return stamps.cast(pa.int64()).cast(pa.timestamp("us", self.type.tz)).cast(self.type, safe=False)
            return stamps.cast(self.type, safe=False)
        if isinstance(self.column, Integer) and not pa.types.is_decimal(self.type):
            return pa.array(np.asarray(numbers, np.int64)).cast(self.type)
        digits = getattr(self.column, "decimals", None)
        floats = np.asarray(numbers, np.float64)
        rounded = floats if digits is None else np.round(floats, digits)
        if pa.types.is_integer(self.type):
            return pa.array(np.rint(rounded).astype(np.int64)).cast(self.type)
        return pa.array(rounded).cast(self.type)

    def uniform(self, count: int, rng: np.random.Generator, low: Any = None, high: Any = None) -> NDArray[Any]:
        """Sample possible numbers of the column uniformly between `low` and `high`; empty if there are none."""
        if self._table is None and not isinstance(self.column, Integer | Real | Datetime):
            return np.empty(0)  # durations and times of day have no numbers in rules
        first, last = self.ends
        if self._table is not None:
            inside = self._table[(self._table >= (first if low is None else low))]
            inside = inside[inside <= (last if high is None else high)]
            return np.asarray(inside[rng.integers(0, len(inside), count)] if len(inside) else inside)
        low, high = first if low is None else max(first, low), last if high is None else min(last, high)
        if not np.isfinite([float(low), float(high)]).all() or low > high:
            return np.empty(0)
        if isinstance(self.column, Real):
            return np.asarray(rng.uniform(low, high, count))
        step = self.step
        start = first - (first - int(np.ceil(low))) // step * step
        places = (int(high) - start) // step + 1
        return start + step * rng.integers(0, places, count) if places > 0 else np.empty(0, np.int64)

    @property
    def step(self) -> int:
        """Distance between possible numbers of dates, times and integers."""
        if isinstance(self.column, Datetime):
            whole = DAY if self.column.plain_date or pa.types.is_date(self.type) else 1_000_000 * MICRO
            return max((parse_step(self.column.step) if self.column.step else whole) // MICRO, 1)
        return int(getattr(self.column, "step", 1))

    @property
    def null(self) -> pa.Scalar:
        """Representation of a missing value: null or NaN."""
        return pa.scalar(float("nan"), self.type) if self._nan else pa.scalar(None, self.type)


def _check_number(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnfitValueError("must be a number")
    _saturate(value)


def _saturate(number: Any) -> Any:
    """Validate that a number fits 64 bits."""
    if not -(2**63) < number < 2**63:
        raise UnfitValueError("is too large to be compared; remove it from the rule")
    return number


def concatenate_values(a: Values, b: Values) -> Values:
    """Concatenate values that have the same representation as numbers."""
    return Values(np.concatenate([a.numbers, b.numbers]), np.concatenate([a.missing, b.missing]), a.reader)


def joint_keys(columns: Sequence[Values]) -> NDArray[np.int64]:
    """Compute one number per row, equal for rows that agree in all these columns."""
    keys = np.zeros(len(columns[0]), np.int64)
    for values in columns:
        _, places = np.unique(values.numbers, return_inverse=True)
        places = np.where(values.missing, places.max(initial=0) + 1, places)
        _, keys = np.unique(keys * (int(places.max(initial=0)) + 1) + places, return_inverse=True)
    return keys
