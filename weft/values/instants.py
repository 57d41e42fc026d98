"""Dates and times as exact integers: nanoseconds since 1970 in Python's unbounded integers, any year.

>>> Moment.parse("1066-10-14").nanoseconds // parse_step("1d")
-329893
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

DAY = 86_400_000_000_000
UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds in one unit of an Arrow time stamp."""

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
    """A point on the wall clock, or an instant if `zoned`."""

    nanoseconds: int
    whole_day: bool
    """Given as a plain date."""
    zoned: bool = False
    """Given with an offset from UTC, and so already an instant."""

    @classmethod
    def parse(cls, text: str) -> Moment:
        """Read "2013-01-31", "2013-01-31 18:30", "2013-01-31T18:30:00.25Z"; ValueError otherwise."""
        found = _MOMENT.fullmatch(text)
        if found is None:
            raise ValueError("not a date")
        cycle, year = divmod(int(found["year"]), 400)
        # The same day of the same place in the 400-year cycle, where Python's calendar reaches.
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
        return cls(total - _offset(found["zone"]), False, True)

    def instant(self, zone: str | None) -> int:
        """Nanoseconds since 1970 in UTC, the wall clock being that of `zone` (None or UTC: no shift)."""
        if self.zoned or zone is None or zone.upper() in ("UTC", "GMT", "Z", "ETC/UTC"):
            return self.nanoseconds
        seconds, rest = divmod(self.nanoseconds, UNIT["s"])
        try:
            local = datetime(1970, 1, 1) + timedelta(seconds=seconds)
            shift = local.replace(tzinfo=_zone(zone)).utcoffset() or timedelta()
        except OverflowError:
            raise ValueError("years outside 1 to 9999 need a column in UTC") from None
        return (seconds - (shift.days * 86_400 + shift.seconds)) * UNIT["s"] + rest


def write_moment(nanoseconds: int, whole_day: bool, zoned: bool) -> str:
    """Write nanoseconds since 1970 as `Moment.parse` reads them.

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
    """Nanoseconds of a step such as "1d", "15min" or "1ms"; ValueError if it is none.

    >>> parse_step("15min") // UNIT["s"]
    900
    """
    found = re.fullmatch(r"(\d{1,9})\s*(d|h|min|s|ms|us|ns)", text) if isinstance(text, str) else None
    if found is None or int(found[1]) == 0:
        raise ValueError("not a step")
    return int(found[1]) * _STEPS[found[2]]


def parse_span(given: object) -> int:
    """Nanoseconds of a length of time such as "0d", "36h" or "-15min", or of a plain number of days.

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
    """Write a length of time in its largest whole unit, as `parse_span` reads it."""
    return name_step(nanoseconds) if nanoseconds else "0d"


def parse_time(given: object) -> int:
    """Nanoseconds since midnight of "08:30" or "08:30:15.5"; ValueError if it is no time of day.

    >>> parse_time("08:30") // parse_step("1min")
    510
    """
    if not isinstance(given, str) or len(given) < 5:
        raise ValueError("not a time of day")
    return Moment.parse(f"1970-01-01 {given}").nanoseconds


def name_time(nanoseconds: int) -> str:
    """Write a time of day as `parse_time` reads it, without seconds where there are none."""
    return write_moment(nanoseconds % DAY, whole_day=False, zoned=False)[11:].removesuffix(":00")


def name_step(nanoseconds: int) -> str:
    """Write a step in its largest whole unit, as `parse_step` reads it."""
    unit = next(name for name, size in _STEPS.items() if nanoseconds % size == 0)
    return f"{nanoseconds // _STEPS[unit]}{unit}"


def known_zone(name: str) -> bool:
    """Whether a time zone is known, by its name or as an offset such as "+02:00"."""
    try:
        _zone(name)
    except (ValueError, TypeError, OSError, LookupError):
        return False
    return True


def _zone(name: str) -> tzinfo:
    if _OFFSET.fullmatch(name):
        return timezone(timedelta(microseconds=_offset(name) // 1000))
    return ZoneInfo(name)


def _offset(text: str) -> int:
    found = _OFFSET.fullmatch(text)
    if found is None:  # Z
        return 0
    minutes = int(found["hours"]) * 60 + int(found["minutes"])
    return (-1 if found["sign"] == "-" else 1) * minutes * _STEPS["min"]
