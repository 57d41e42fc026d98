"""Days and moments written in text, each read by itself: with or without seconds, a fraction, an offset from UTC."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.values.instants import DAY, UNIT
from weft.values.storage import missing_of
from weft.values.text import read_moments

Mask = NDArray[np.bool_]
_CLOCK = r"(?P<whole>[^ ]+ [0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)(?:\.(?P<fraction>[0-9]{1,9}))?"
_PARTS = rf"^{_CLOCK} ?(?P<zone>|Z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)$"
_UTC = ("UTC", "GMT", "Z", "ETC/UTC")
_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d", "%Y-%m-%d %H:%M")


def read_instants(words: pa.Array, wanted: pa.DataType, form: str | None, *, clip: bool) -> tuple[pa.Array, Mask]:
    """Return text as dates or time stamps, and a mask of what cannot be read as such.

    In a column with a time zone, an offset is taken into account, and a text without one is what a clock in that zone
    shows. In other columns only the offset nought is read. A time of day is dropped from a plain date under clip alone.
    """
    missing = missing_of(words)
    zone = wanted.tz if pa.types.is_timestamp(wanted) else None
    nanoseconds = np.zeros(len(words), np.int64)
    shifted = np.zeros(len(words), bool)
    if form is not None:
        moments = read_moments(words, form)
        seconds = _seconds(moments)
    else:
        parts = pc.extract_regex(pc.replace_substring_regex(words, r"^(.{10})T", r"\1 "), _PARTS)
        fraction, offset = (pc.struct_field(parts, name) for name in ("fraction", "zone"))
        nanoseconds = _number(pc.utf8_rpad(fraction, width=9, padding="0"))
        plain = pc.coalesce(pc.struct_field(parts, "whole"), words)
        moments = pc.coalesce(*(read_moments(plain, each) for each in _FORMS))
        seconds = _seconds(moments)
        away, shifted = _offsets(offset)
        naive = pc.equal(offset, "").fill_null(True).to_numpy(zero_copy_only=False)
        seconds = np.where(naive, _from_clock(moments, zone), seconds - away) if zone is not None else seconds
    unreadable = missing_of(moments) & ~missing
    if zone is None:
        unreadable |= shifted & ~missing
    stored = pa.int32() if pa.types.is_date32(wanted) else pa.int64()
    if pa.types.is_date(wanted):
        days = seconds // 86_400
        if not clip:
            unreadable |= (seconds % 86_400 != 0) & ~missing
        values = days if pa.types.is_date32(wanted) else days * (DAY // UNIT["ms"])
    else:
        unit = UNIT[wanted.unit]
        bound = (2**63 - 1) // (UNIT["s"] // unit) - 1
        values = np.clip(seconds, -bound, bound) * (UNIT["s"] // unit) + nanoseconds // unit
    return pa.array(values, mask=missing | unreadable).cast(stored).cast(wanted), unreadable


def _seconds(moments: pa.Array) -> NDArray[np.int64]:
    found: NDArray[np.int64] = moments.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return found


def _number(digits: pa.Array) -> NDArray[np.int64]:
    found: NDArray[np.int64] = (
        pc.if_else(pc.equal(digits, ""), None, digits).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    )
    return found


def _offsets(zones: pa.Array) -> tuple[NDArray[np.int64], Mask]:
    """Return the seconds by which each offset is ahead of UTC, and whether it is any."""
    parts = pc.extract_regex(zones, r"^(?P<sign>[+-])(?P<hours>[0-9]{2}):?(?P<minutes>[0-9]{0,2})$")
    hours, minutes = (_number(pc.struct_field(parts, name)) for name in ("hours", "minutes"))
    negative = pc.equal(pc.struct_field(parts, "sign"), "-").fill_null(False).to_numpy(zero_copy_only=False)
    seconds = (hours * 60 + minutes) * 60
    return np.where(negative, -seconds, seconds), seconds != 0


def _from_clock(moments: pa.Array, zone: str) -> NDArray[np.int64]:
    """Return the instants at which a clock in a zone shows these moments; the earlier one where there are two."""
    if zone.upper() in _UTC:
        return _seconds(moments)
    return _seconds(pc.assume_timezone(moments, zone, ambiguous="earliest", nonexistent="earliest"))
