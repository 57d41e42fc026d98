"""Dates, times and durations as exact integers: nanoseconds (since 1970) in unbounded Python integers, any year.

>>> Moment.parse("1066-10-14").nanoseconds // parse_step("1d")
-329893
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.values.storage import Mask, missing_of
from weft.values.text_columns import TextSpans
from weft.values.text_numbers import digits_of, repair_text

DAY = 86_400_000_000_000
UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds in one unit of an Arrow timestamp."""


def moment_unit(arrow_type: pa.DataType) -> int | None:
    """Return the unit of a date or timestamp type in nanoseconds; None for other types."""
    if pa.types.is_date(arrow_type):
        return DAY if pa.types.is_date32(arrow_type) else UNIT["ms"]
    return UNIT[arrow_type.unit] if pa.types.is_timestamp(arrow_type) else None


_STEPS = {"d": DAY, "h": 3_600_000_000_000, "min": 60_000_000_000, **UNIT}
_MOMENT = re.compile(
    r"(?P<year>[+-]?\d{4,6})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[ T](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?)?"
)
_OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)")
_SPAN = re.compile(r"(-?\d{1,9})\s*(d|h|min|s|ms|us|ns)")
_EPOCH = date(1970, 1, 1).toordinal()
_CYCLE_DAYS = 146_097  # the calendar repeats every 400 years


@dataclass(frozen=True)
class Moment:
    """A local date and time, or an instant if `zoned`."""

    nanoseconds: int
    whole_day: bool
    """Whether it was given as a date without time."""
    zoned: bool = False
    """Whether it was given with an offset from UTC, and so already is an instant."""

    @classmethod
    def parse(cls, text: str) -> Moment:
        """Parse "2013-01-31", "2013-01-31 18:30", "2013-01-31T18:30:00.25Z"; ValueError otherwise."""
        found = _MOMENT.fullmatch(text)
        if found is None:
            raise ValueError("not a date")
        cycle, year = divmod(int(found["year"]), 400)
        # The same day in the 400-year cycle, within the range of Python's calendar.
        day = date(2000 + year, int(found["month"]), int(found["day"])).toordinal() + (cycle - 5) * _CYCLE_DAYS
        total = (day - _EPOCH) * DAY
        if found["hour"] is None:
            return cls(total, True)
        hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
        if hour > 23 or minute > 59 or second > 59:
            raise ValueError("not a time")
        total += ((hour * 60 + minute) * 60 + second) * UNIT["s"] + int((found["fraction"] or "0").ljust(9, "0"))
        if found["zone"] is None:
            return cls(total, False)
        return cls(total - _parse_offset(found["zone"]), False, True)

    def instant(self, zone: str | None) -> int:
        """Return nanoseconds since 1970 in UTC for a local time in `zone` (None or UTC: no shift)."""
        if self.zoned or zone is None or zone.upper() in ("UTC", "GMT", "Z", "ETC/UTC"):
            return self.nanoseconds
        seconds, rest = divmod(self.nanoseconds, UNIT["s"])
        try:
            local = datetime(1970, 1, 1) + timedelta(seconds=seconds)
            shift = local.replace(tzinfo=_parse_zone(zone)).utcoffset() or timedelta()
        except OverflowError:
            raise ValueError("years outside 1 to 9999 need a column in UTC") from None
        return (seconds - (shift.days * 86_400 + shift.seconds)) * UNIT["s"] + rest


def write_moment(nanoseconds: int, whole_day: bool, zoned: bool) -> str:
    """Format nanoseconds since 1970 for `Moment.parse`.

    >>> write_moment(1_500_000_000, whole_day=False, zoned=True)
    '1970-01-01 00:00:01.5Z'
    """
    days, rest = divmod(nanoseconds, DAY)
    cycle, day = divmod(days + _EPOCH - 1, _CYCLE_DAYS)  # days since 0001-01-01
    when = date.fromordinal(day + 1)
    text = f"{when.year + 400 * cycle:04d}-{when.month:02d}-{when.day:02d}"
    if whole_day:
        return text
    seconds, fraction = divmod(rest, UNIT["s"])
    text += f" {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if fraction:
        text += f".{fraction:09d}".rstrip("0")
    return text + ("Z" if zoned else "")


def parse_step(text: str) -> int:
    """Return the nanoseconds of a step such as "1d", "15min" or "1ms"; ValueError if it is invalid.

    >>> parse_step("15min") // UNIT["s"]
    900
    """
    found = re.fullmatch(r"(\d{1,9})\s*(d|h|min|s|ms|us|ns)", text) if isinstance(text, str) else None
    if found is None or int(found[1]) == 0:
        raise ValueError("not a step")
    return int(found[1]) * _STEPS[found[2]]


def parse_span(given: object) -> int:
    """Return the nanoseconds of a duration such as "0d", "36h" or "-15min", or of a plain number of days.

    >>> parse_span("-36h") == parse_span(-1) + parse_span("-12h")
    True
    """
    if isinstance(given, int) and not isinstance(given, bool):
        return given * DAY
    found = _SPAN.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise ValueError("not a length of time")
    return int(found[1]) * _STEPS[found[2]]


def name_span(nanoseconds: int) -> str:
    """Format a duration in its largest whole unit for `parse_span`."""
    return name_step(nanoseconds) if nanoseconds else "0d"


def parse_time(given: object) -> int:
    """Return the nanoseconds since midnight of "08:30" or "08:30:15.5"; ValueError if it is not a time of day.

    >>> parse_time("08:30") // parse_step("1min")
    510
    """
    if not isinstance(given, str) or len(given) < 5:
        raise ValueError("not a time of day")
    return Moment.parse(f"1970-01-01 {given}").nanoseconds


def name_time(nanoseconds: int) -> str:
    """Format a time of day for `parse_time`, without seconds if they are 0."""
    return write_moment(nanoseconds % DAY, whole_day=False, zoned=False)[11:].removesuffix(":00")


def name_step(nanoseconds: int) -> str:
    """Format a step in its largest whole unit for `parse_step`."""
    unit = next(name for name, size in _STEPS.items() if nanoseconds % size == 0)
    return f"{nanoseconds // _STEPS[unit]}{unit}"


def is_known_zone(name: str) -> bool:
    """Return whether a time zone is known, by name or as an offset such as "+02:00"."""
    try:
        _parse_zone(name)
    except (ValueError, TypeError, OSError, LookupError):
        return False
    return True


def _parse_zone(name: str) -> tzinfo:
    if _OFFSET.fullmatch(name):
        return timezone(timedelta(microseconds=_parse_offset(name) // 1000))
    return ZoneInfo(name)


def _parse_offset(text: str) -> int:
    found = _OFFSET.fullmatch(text)
    if found is None:  # Z
        return 0
    minutes = int(found["hours"]) * 60 + int(found["minutes"])
    return (-1 if found["sign"] == "-" else 1) * minutes * _STEPS["min"]


_MAX_LENGTH = 2**63 - 1
"""Largest duration in its unit; longer ones are clipped to it."""

_OWN = {"W": 7 * DAY, "D": DAY, "h": parse_step("1h"), "m": parse_step("1min"), **UNIT, "generic": UNIT["ns"]}
"""Nanoseconds in the numpy units that pandas accepts: no months, years or fractions; no unit means nanoseconds."""

_EXACT = r"^(?P<sign>-?)(?P<number>[0-9]{1,19})(?P<unit>us|ns)$"
_PARTS = {
    "day": (12, "d"),
    "hour": (2, "h"),
    "minute": (2, "m"),
    "second": (2, "s"),
    "milli": (3, "ms"),
    "micro": (6, "[uµ\u03bc]s"),
    "nano": (9, "ns"),
}
"""Polars' notation of durations: the largest number of digits of each part, and its unit."""


def count_nanoseconds(value: Any) -> int | None:
    """Return the nanoseconds of a Python, numpy or pandas duration; None for other objects or inexact units.

    >>> count_nanoseconds(np.timedelta64(2, "h")) == count_nanoseconds(timedelta(hours=2)) == 2 * 3600 * 10**9
    True
    >>> count_nanoseconds(np.timedelta64(2, "M")) is None
    True
    """
    if isinstance(value, timedelta):
        whole = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
        return whole * 1000 + int(getattr(value, "nanoseconds", 0))  # pandas only
    if not isinstance(value, np.timedelta64) or np.isnat(value):
        return None
    unit, times = np.datetime_data(value.dtype)
    return int(value.astype(np.int64)) * times * _OWN[unit] if unit in _OWN else None


def write_length(length: int) -> str:
    """Format nanoseconds for `read_lengths`: in microseconds, or in nanoseconds if necessary.

    >>> write_length(-86_399_999_995_000), write_length(1001)
    ('-86399999995us', '1001ns')
    """
    if length % 1000 and abs(length) <= _MAX_LENGTH:
        return f"{length}ns"
    return f"{min(max(length // 1000, -_MAX_LENGTH), _MAX_LENGTH)}us"


def write_clock(length: int) -> str:
    """Format nanoseconds as hours, minutes and seconds.

    >>> write_clock(-5_400_000_000_000)
    '-1:30:00'
    """
    seconds = abs(round(length, -9)) // 10**9
    sign = "-" if length < 0 and seconds else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


@dataclass(frozen=True)
class Lengths:
    """Durations: whole seconds, rounded down, the remaining nanoseconds, and a mask of unreadable texts."""

    seconds: NDArray[np.int64]
    beyond: NDArray[np.int64]
    unreadable: Mask

    def held(self, unit: int) -> tuple[NDArray[np.int64], Mask]:
        """Return durations in units of `unit` nanoseconds, rounded down, and a mask of those that rounding changed."""
        each = UNIT["s"] // unit
        most = _MAX_LENGTH // each - 1  # below the limit of 64 bits, and beyond what a schema can state
        far = np.abs(self.seconds) > most
        made = np.clip(self.seconds, -most, most) * each + np.where(far, 0, self.beyond // unit)
        return made, far | (self.beyond % unit != 0)


def read_lengths(array: pa.Array) -> Lengths:
    """Parse durations in text: hours, minutes and seconds (1:30:00), `write_length`'s format, or Polars' (1h 30m)."""
    words, unread = repair_text(array), ~missing_of(array)
    seconds, beyond = np.zeros(len(array), np.int64), np.zeros(len(array), np.int64)
    for read in (_of_clock, _of_exact, partial(_of_polars, sign=""), partial(_of_polars, sign="-")):
        if len(rest := np.flatnonzero(unread)):
            seconds[rest], beyond[rest], unread[rest] = read(words.take(pa.array(rest)))
    return Lengths(seconds, beyond, unread)


_Read = tuple[NDArray[np.int64], NDArray[np.int64], Mask]


def _of_clock(words: pa.Array) -> _Read:
    read = TextSpans(words.type).read(words)
    assert read.unreadable is not None
    return read.values, np.zeros(len(words), np.int64), read.unreadable


def _of_exact(words: pa.Array) -> _Read:
    found = pc.extract_regex(words, _EXACT)
    digits = pc.struct_field(found, "number").cast(pa.uint64()).fill_null(0).to_numpy(zero_copy_only=False)
    number = np.minimum(digits, _MAX_LENGTH).astype(np.int64)
    number = np.where(_part_equals(found, "sign", "-"), -number, number)
    each = np.where(_part_equals(found, "unit", "us"), UNIT["us"], UNIT["ns"])
    seconds, beyond = np.divmod(number, UNIT["s"] // each)
    return seconds, beyond * each, missing_of(found)


def _of_polars(words: pa.Array, sign: str) -> _Read:
    """Parse parts that all have the sign, as 1d 2h 30m 5s 3ms or -1h -30m."""
    parts = [f"(?:{sign}(?P<{name}>[0-9]{{1,{most}}}){unit}(?: |$))?" for name, (most, unit) in _PARTS.items()]
    found = pc.extract_regex(words, f"^{''.join(parts)}$")
    day, hour, minute, second, milli, micro, nano = (digits_of(pc.struct_field(found, name)) for name in _PARTS)
    seconds = ((day * 24 + hour) * 60 + minute) * 60 + second
    beyond = (milli * 1000 + micro) * 1000 + nano
    if sign:
        seconds, beyond = -seconds, -beyond
    none = missing_of(found) | pc.equal(words, "").to_numpy(zero_copy_only=False)
    return seconds + beyond // UNIT["s"], beyond % UNIT["s"], none


def _part_equals(found: pa.StructArray, part: str, word: str) -> Mask:
    same: Mask = pc.equal(pc.struct_field(found, part), word).fill_null(False).to_numpy(zero_copy_only=False)
    return same
