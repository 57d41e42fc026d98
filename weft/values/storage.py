"""Conversion between Arrow arrays and exact integers: how each Arrow type stores numbers and dates."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
_INT64 = (-(2**63), 2**63 - 1)
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Reading:
    """Integers read from an Arrow array."""

    values: NDArray[Any]
    """int64 or uint64; undefined for missing or unreadable values."""
    missing: Mask
    off: Mask | None = None
    """Numbers with a fraction; `values` holds their floor."""
    unreadable: Mask | None = None
    """Text that is not a number or date."""


class Carrier(Protocol):
    """Reads and writes one Arrow type as integers between `low` and `high`."""

    low: int
    high: int

    def read(self, array: pa.Array) -> Reading:
        """Return the integers of an array."""
        ...

    def write(self, values: NDArray[np.uint64], missing: Mask) -> pa.Array:
        """Return an array of integers modulo 2^64."""
        ...


def missing_of(array: pa.Array) -> Mask:
    """Return a mask of the nulls of an array."""
    mask: Mask = pc.is_null(array).to_numpy(zero_copy_only=False)
    return mask


def decode_dictionary(array: pa.Array) -> pa.Array:
    """Return the values of a dictionary-encoded array; any other array unchanged."""
    if not isinstance(array, pa.DictionaryArray):
        return array
    values = array.dictionary
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())  # Arrow's take does not support views
    return values.take(array.indices)


def floats_of(array: pa.Array) -> NDArray[np.float64]:
    """Return the floats of a 32- or 64-bit column; NaN for null."""
    values: NDArray[np.float64] = array.cast(pa.float64()).fill_null(float("nan")).to_numpy(zero_copy_only=False)
    return values


class Integers:
    """Integer types, and dates and timestamps, which are stored as integers."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._type = arrow_type
        if pa.types.is_date32(arrow_type) or pa.types.is_time32(arrow_type):
            self._stored = pa.int32()
        elif pa.types.is_temporal(arrow_type):
            self._stored = pa.int64()
        else:
            self._stored = arrow_type
        self._dtype = np.dtype(self._stored.to_pandas_dtype())
        info = np.iinfo(self._dtype)
        self.low, self.high = int(info.min), int(info.max)

    def read(self, array: pa.Array) -> Reading:
        """Return the stored integers."""
        values = array.cast(self._stored).fill_null(0).to_numpy(zero_copy_only=False)
        wide = np.uint64 if self._dtype == np.uint64 else np.int64
        return Reading(values.astype(wide), missing_of(array))

    def write(self, values: NDArray[np.uint64], missing: Mask) -> pa.Array:
        """Return an array of the integers."""
        return pa.array(values.astype(self._dtype), type=self._stored, mask=missing).cast(self._type)


class Dates64:
    """Dates stored in milliseconds, in units of days, since the type allows whole days only."""

    low, high = -(2**63) // _DAY_MS + 1, (2**63 - 1) // _DAY_MS

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._type = arrow_type

    def read(self, array: pa.Array) -> Reading:
        """Return the days; an invalid time of day counts as a fraction."""
        stored = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return Reading(stored // _DAY_MS, missing_of(array), off=stored % _DAY_MS != 0)

    def write(self, values: NDArray[np.uint64], missing: Mask) -> pa.Array:
        """Return an array of the days."""
        return pa.array(values.view(np.int64) * _DAY_MS, mask=missing).cast(self._type)


class WholeFloats:
    """Whole numbers in a floating-point column, as pandas stores integers with missing values."""

    def __init__(self, arrow_type: pa.DataType, nan: bool, scale: float = 1.0) -> None:
        self._type, self._scale, self._nan = arrow_type, scale, nan
        self.high = 2**24 if pa.types.is_float32(arrow_type) else 2**53
        self.low = -self.high

    def read(self, array: pa.Array) -> Reading:
        """Return the floor of each number; infinities and huge numbers stay outside every range."""
        floats = floats_of(array)
        missing = np.isnan(floats)
        floor = np.floor(np.where(missing, 0.0, floats))
        held = np.clip(floor, 2.0 * self.low, 2.0 * self.high).astype(np.int64)
        return Reading(held, missing, off=(floor != floats) & ~missing)

    def write(self, values: NDArray[np.uint64], missing: Mask) -> pa.Array:
        """Return an array of the nearest floats, which are exact for whole numbers."""
        return write_floats(values.view(np.int64) / self._scale, missing, self._type, self._nan)


def write_floats(values: NDArray[np.float64], missing: Mask, arrow_type: pa.DataType, nan: bool) -> pa.Array:
    """Return a floating-point array, with null for missing, or NaN if the column forbids nulls."""
    if nan:
        return pa.array(np.where(missing, np.nan, values), type=pa.float64()).cast(arrow_type)
    return pa.array(values, type=pa.float64(), mask=missing).cast(arrow_type)


class ScaledFloats(WholeFloats):
    """Numbers with a fixed number of decimals in a floating-point column, in units of the last digit."""

    def __init__(self, arrow_type: pa.DataType, digits: int, nan: bool) -> None:
        super().__init__(arrow_type, nan, 10.0**digits)

    def read(self, array: pa.Array) -> Reading:
        """Return the nearest number with these decimals; infinities and huge numbers stay outside every range."""
        floats = floats_of(array)
        missing = np.isnan(floats)
        return Reading(round_to_scale(np.where(missing, 0.0, floats), self._scale), missing)


def round_to_scale(floats: NDArray[np.float64], scale: float) -> NDArray[np.int64]:
    """Return the nearest whole multiples of 1 / scale; huge ones stay outside every range."""
    with np.errstate(over="ignore"):
        return np.clip(np.rint(floats * scale), -(2.0**62), 2.0**62).astype(np.int64)


class Decimals:
    """Decimal columns, in units of their last digit."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._type = arrow_type
        # The outermost 64-bit integers represent anything larger, so no range may include them.
        self.high = min(10**arrow_type.precision - 1, 2**63 - 2)
        self.low = -self.high

    def read(self, array: pa.Array) -> Reading:
        """Return the unscaled integers, clipped to 64 bits."""
        missing = missing_of(array)
        array = array.cast(pa.decimal128(38, self._type.scale))
        words = np.frombuffer(array.buffers()[1] or b"", dtype=np.int64)
        words = words[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)
        low, high = words[:, 0], words[:, 1]
        values = np.where(high == low >> 63, low, np.where(high < 0, *_INT64))
        return Reading(np.where(missing, 0, values), missing)

    def write(self, values: NDArray[np.uint64], missing: Mask) -> pa.Array:
        """Return an array of the unscaled integers."""
        return decimal_array(values.view(np.int64), self._type.scale, missing).cast(self._type)


def decimal_array(values: NDArray[np.int64], scale: int, missing: Mask) -> pa.Array:
    """Return a decimal array from unscaled 64-bit integers."""
    words = np.stack([values, values >> 63], axis=1)
    valid = pa.array(~missing).buffers()[1]
    wide = pa.decimal128(38, scale)
    return pa.Array.from_buffers(wide, len(values), [valid, pa.py_buffer(np.ascontiguousarray(words))])


class DayNumbers:
    """Dates as whole numbers yyyymmdd, in units of days; a number that is not a date is unreadable."""

    low, high = -719_162, 2_932_896  # the years 1 to 9999

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._numbers = Integers(arrow_type)

    def read(self, array: pa.Array) -> Reading:
        """Return the day of each number."""
        reading = self._numbers.read(array)
        numbers = np.where((reading.values >= 10_101) & (reading.values <= 99_991_231), reading.values, 10_101)
        numbers = numbers.astype(np.int64)
        months = numbers // 100
        year, month = months // 100, np.clip(months % 100, 1, 12)
        first = ((year - 1970) * 12 + month - 1).astype("M8[M]").astype("M8[D]").astype(np.int64)
        days = first + np.clip(numbers % 100, 1, 31) - 1
        wrong = (_day_number(days) != reading.values) & ~reading.missing
        return Reading(days, reading.missing, None, wrong)

    def write(self, values: NDArray[np.uint64], missing: Mask) -> pa.Array:
        """Return an array of the days as numbers yyyymmdd."""
        days = np.where(missing, 0, values.view(np.int64))
        return self._numbers.write(_day_number(days).view(np.uint64), missing)


def _day_number(days: NDArray[np.int64]) -> NDArray[np.int64]:
    dates = days.astype("M8[D]")
    months = dates.astype("M8[M]")
    years = months.astype("M8[Y]").astype(np.int64) + 1970
    month = months.astype(np.int64) % 12 + 1
    return np.asarray(years * 10_000 + month * 100 + (dates - months.astype("M8[D]")).astype(np.int64) + 1)
