"""Carriers for text columns: numbers, dates and times written as text, converted to exact integers and back."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.values import text_numbers as text
from weft.values.storage import Mask, Reading, decimal_array, missing_of, round_to_scale

_SPAN = r"^(?P<sign>-?)(?P<hours>[0-9]{1,8}):(?P<minutes>[0-5][0-9]):(?P<seconds>[0-5][0-9])$"


class TextIntegers:
    """Whole numbers written as text."""

    low, high = 1 - 10**18, 10**18 - 1

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._type = arrow_type

    def read(self, array: pa.Array) -> Reading:
        """Parse each text as a number."""
        values, off, unreadable = text.read_integers(array)
        return Reading(values, missing_of(array), off, unreadable)

    def write(self, values: NDArray[np.uint64], missing: Mask) -> pa.Array:
        """Return the numbers in digits."""
        return pa.array(values.view(np.int64), mask=missing).cast(pa.string()).cast(self._type)


class TextDecimals:
    """Numbers with a fixed number of decimals written as text, in units of the last digit."""

    low, high = -(2**53), 2**53

    def __init__(self, arrow_type: pa.DataType, digits: int) -> None:
        self._type, self._digits = arrow_type, digits

    def read(self, array: pa.Array) -> Reading:
        """Parse each text as the nearest number with these decimals."""
        floats, unreadable = text.read_floats(array)
        missing = np.isnan(floats) & ~unreadable
        held = np.where(np.isnan(floats), 0.0, floats)
        return Reading(round_to_scale(held, 10.0**self._digits), missing, None, unreadable)

    def write(self, values: NDArray[np.uint64], missing: Mask) -> pa.Array:
        """Return the numbers with all their decimals."""
        return decimal_array(values.view(np.int64), self._digits, missing).cast(pa.string()).cast(self._type)


class TextMoments:
    """Dates and times written as text in given formats, in seconds."""

    low, high = -(2**63), 2**63 - 1

    def __init__(self, arrow_type: pa.DataType, forms: tuple[str, ...]) -> None:
        """Set the accepted formats; the first one is used for output."""
        self._type, self._forms = arrow_type, forms

    def read(self, array: pa.Array) -> Reading:
        """Parse each text as a date or time."""
        missing = missing_of(array)
        moments = text.read_moments(array, *self._forms)
        unreadable = missing_of(moments) & ~missing
        return Reading(moments.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), missing, None, unreadable)

    def write(self, values: NDArray[np.uint64], missing: Mask) -> pa.Array:
        """Return the dates and times in the first format."""
        moments = pa.array(values.view(np.int64), mask=missing).cast(pa.timestamp("s"))
        return pc.strftime(moments, format=self._forms[0]).cast(self._type)


class TextTimes(TextMoments):
    """Times of day written as text, in seconds since midnight."""

    low, high = 0, 86_399

    def read(self, array: pa.Array) -> Reading:
        """Parse each text as a time of day."""
        reading = super().read(array)
        return replace(reading, values=reading.values % 86_400)


class TextSpans:
    """Durations written as hours, minutes and seconds (1:30:00), in seconds."""

    low, high = -(10**12), 10**12

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._type = arrow_type

    def read(self, array: pa.Array) -> Reading:
        """Parse each text as a duration."""
        missing = missing_of(array)
        found = pc.extract_regex(text.repair_text(array), _SPAN)
        hours, minutes, seconds = (text.digits_of(pc.struct_field(found, p)) for p in ("hours", "minutes", "seconds"))
        negative = pc.equal(pc.struct_field(found, "sign"), "-").fill_null(False).to_numpy(zero_copy_only=False)
        total = (hours * 60 + minutes) * 60 + seconds
        return Reading(np.where(negative, -total, total), missing, None, missing_of(found) & ~missing)

    def write(self, values: NDArray[np.uint64], missing: Mask) -> pa.Array:
        """Return hours, minutes and seconds."""
        total = np.abs(values.view(np.int64))
        sign = pc.if_else(pa.array(values.view(np.int64) < 0), "-", "")
        hours, minutes, seconds = (
            pa.array(part, mask=missing).cast(pa.string()) for part in (total // 3600, total // 60 % 60, total % 60)
        )
        minutes, seconds = (pc.utf8_lpad(part, width=2, padding="0") for part in (minutes, seconds))
        clock = pc.binary_join_element_wise(hours, minutes, seconds, ":")
        return pc.binary_join_element_wise(sign, clock, "").cast(self._type)
