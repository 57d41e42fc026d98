"""Lengths of time as programs hold and write them, each one by itself: Python's, numpy's and pandas' objects, and text.

Which of these a library makes of a column hangs on its other rows, so that all of them must come to the same length.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.values.instants import DAY, UNIT, parse_step
from weft.values.storage import Mask, missing_of
from weft.values.text import digits_of, readable
from weft.values.written import TextSpans

_LONGEST = 2**63 - 1
"""Units of the longest length of time: what is longer is not told from it."""

_OWN = {"W": 7 * DAY, "D": DAY, "h": parse_step("1h"), "m": parse_step("1min"), **UNIT, "generic": UNIT["ns"]}
"""Nanoseconds in the units of numpy that pandas takes: it takes no months, years or parts of a nanosecond, and numbers
without a unit as nanoseconds."""

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
"""How Polars spells a length of time: the most digits of each part, and its unit."""


def nanoseconds(value: Any) -> int | None:
    """Return how many nanoseconds an object holds; None if it is no length of time, or one without an exact length.

    >>> nanoseconds(np.timedelta64(2, "h")) == nanoseconds(timedelta(hours=2)) == 2 * 3600 * 10**9
    True
    >>> nanoseconds(np.timedelta64(2, "M")) is None
    True
    """
    if isinstance(value, timedelta):
        whole = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
        return whole * 1000 + int(getattr(value, "nanoseconds", 0))  # which pandas has besides
    if not isinstance(value, np.timedelta64) or np.isnat(value):
        return None
    unit, times = np.datetime_data(value.dtype)
    return int(value.astype(np.int64)) * times * _OWN[unit] if unit in _OWN else None


def exact(length: int) -> str:
    """Write nanoseconds as `read_lengths` reads them: in microseconds, or nanoseconds if there are some.

    >>> exact(-86_399_999_995_000), exact(1001)
    ('-86399999995us', '1001ns')
    """
    if length % 1000 and abs(length) <= _LONGEST:
        return f"{length}ns"
    return f"{min(max(length // 1000, -_LONGEST), _LONGEST)}us"


def clock(length: int) -> str:
    """Write nanoseconds as hours, minutes and seconds.

    >>> clock(-5_400_000_000_000)
    '-1:30:00'
    """
    seconds = abs(round(length, -9)) // 10**9
    sign = "-" if length < 0 and seconds else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


@dataclass(frozen=True)
class Lengths:
    """Lengths of time: whole seconds, rounded down, the nanoseconds beyond them, and which texts were none."""

    seconds: NDArray[np.int64]
    beyond: NDArray[np.int64]
    unreadable: Mask

    def held(self, unit: int) -> tuple[NDArray[np.int64], Mask]:
        """Return them in units of so many nanoseconds, rounded down, and which of them that changed."""
        each = UNIT["s"] // unit
        most = _LONGEST // each - 1  # two seconds less than there is room for, and beyond what a schema can state
        far = np.abs(self.seconds) > most
        made = np.clip(self.seconds, -most, most) * each + np.where(far, 0, self.beyond // unit)
        return made, far | (self.beyond % unit != 0)


def read_lengths(array: pa.Array) -> Lengths:
    """Read text: hours, minutes and seconds (1:30:00), what `exact` writes, or what Polars does (1h 30m)."""
    words, unread = readable(array), ~missing_of(array)
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
    number = np.minimum(digits, _LONGEST).astype(np.int64)
    number = np.where(_is(found, "sign", "-"), -number, number)
    each = np.where(_is(found, "unit", "us"), UNIT["us"], UNIT["ns"])
    seconds, beyond = np.divmod(number, UNIT["s"] // each)
    return seconds, beyond * each, missing_of(found)


def _of_polars(words: pa.Array, sign: str) -> _Read:
    """Read parts that all have the sign, as 1d 2h 30m 5s 3ms or -1h -30m."""
    parts = [f"(?:{sign}(?P<{name}>[0-9]{{1,{most}}}){unit}(?: |$))?" for name, (most, unit) in _PARTS.items()]
    found = pc.extract_regex(words, f"^{''.join(parts)}$")
    day, hour, minute, second, milli, micro, nano = (digits_of(pc.struct_field(found, name)) for name in _PARTS)
    seconds = ((day * 24 + hour) * 60 + minute) * 60 + second
    beyond = (milli * 1000 + micro) * 1000 + nano
    if sign:
        seconds, beyond = -seconds, -beyond
    none = missing_of(found) | pc.equal(words, "").to_numpy(zero_copy_only=False)
    return seconds + beyond // UNIT["s"], beyond % UNIT["s"], none


def _is(found: pa.StructArray, part: str, word: str) -> Mask:
    same: Mask = pc.equal(pc.struct_field(found, part), word).fill_null(False).to_numpy(zero_copy_only=False)
    return same
