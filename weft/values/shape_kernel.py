"""The loop that says what a text looks like: a number, a date, a time of day, or words. One pass over its bytes.

The answer of each text is one whole number made of small fields (`weft.values.shapes` names them). A text is looked at
by itself: nothing of another decides.
"""

from __future__ import annotations

import numpy as np
from numba import njit

BLANK, WORDS, PROSE, NUMBER, MOMENT, CLOCK = range(6)
"""What a text is: the lowest three bits."""

_LONG = 48
"""Bytes from which words are prose, and with so many spaces, too."""
_SPACES = 5


@njit(cache=True, nogil=True)
def _digits(data, at, end):  # type: ignore[no-untyped-def]
    """Return where a run of digits ends, and its value (of the first nine)."""
    value = 0
    start = at
    while at < end and 48 <= data[at] <= 57:
        if at - start < 9:
            value = value * 10 + data[at] - 48
        at += 1
    return at, value


@njit(cache=True, nogil=True)
def _prefix(data, at, end):  # type: ignore[no-untyped-def]
    """Return a currency sign ($ 1, euro 2, pound 3, none 0), and the place behind it."""
    if at < end and data[at] == 36:
        return 1, at + 1
    if at + 2 < end and data[at] == 0xE2 and data[at + 1] == 0x82 and data[at + 2] == 0xAC:
        return 2, at + 3
    if at + 1 < end and data[at] == 0xC2 and data[at + 1] == 0xA3:
        return 3, at + 2
    return 0, at


@njit(cache=True, nogil=True)
def _number(data, at, end):  # type: ignore[no-untyped-def]
    """Return the shape of a number, or -1.

    Fields: currency sign (2 bits), percent (1), thousands (1), how the fraction is written (3: none, 1 to 4 digits, 5
    for more or an exponent, 6 for noughts alone), leading noughts (1), a possible yyyymmdd (1), a comma for the point
    (1).
    """
    signed = at < end and (data[at] == 45 or data[at] == 43)
    if signed:
        at += 1
    sign, at = _prefix(data, at, end)
    if sign and not signed and at < end and data[at] == 45:
        signed = True
        at += 1
    first = at
    at, value = _digits(data, at, end)
    whole = at - first
    if whole > 18:
        return -1
    padded = whole > 1 and data[first] == 48
    groups, comma, fraction, noughts = 0, 0, 0, True
    while at < end and data[at] == 44:
        after, _ = _digits(data, at + 1, end)
        length = after - at - 1
        if length == 3 and 1 <= whole <= 3 and data[first] != 48 and not comma:  # 0,123 may be less than one
            groups += 1
        elif whole and groups == 0 and not comma and 1 <= length <= 2 and after == end:
            comma = 1
            fraction = length
        else:
            return -1
        at = after
    point = False
    if at < end and data[at] == 46 and not comma:
        point = True
        start = at + 1
        at, _ = _digits(data, start, end)
        fraction = at - start
        for i in range(start, at):
            noughts = noughts and data[i] == 48
    if whole == 0 and fraction == 0:
        return -1
    exponent = False
    if at < end and (data[at] == 101 or data[at] == 69) and not comma and not groups:
        at += 1
        if at < end and (data[at] == 45 or data[at] == 43):
            at += 1
        start = at
        at, _ = _digits(data, start, end)
        exponent = start < at <= start + 3
        if not exponent:
            return -1
    percent = 0
    if at < end and data[at] == 37:
        percent = 1
        at += 1
    if at != end:
        return -1
    written = min(fraction, 5)
    if point and noughts:
        written = 6
    if exponent:
        written = 5
    plain = not (signed or sign or percent or groups or comma or point or exponent)
    year, month, date = value // 10_000, value // 100 % 100, value % 100
    day = 1 if plain and whole == 8 and 1800 <= year <= 2199 and 1 <= month <= 12 and 1 <= date <= 31 else 0
    thousands = 1 if groups else 0
    zeros = 1 if padded else 0
    shape = sign | percent << 2 | thousands << 3 | written << 4 | zeros << 7 | day << 8 | comma << 9
    return NUMBER | shape << 3


@njit(cache=True, nogil=True)
def _clock(data, at, end):  # type: ignore[no-untyped-def]
    """Return a time of day's precision (1 minutes, 2 seconds, 3 finer, -1 none), the place behind it, and its sum."""
    after, hour = _digits(data, at, end)
    if not 1 <= after - at <= 2 or hour > 23 or after >= end or data[after] != 58:
        return -1, at, 0
    at = after + 1
    after, minute = _digits(data, at, end)
    if after - at != 2 or minute > 59:
        return -1, at, 0
    if after >= end or data[after] != 58:
        return 1, after, hour + minute
    at = after + 1
    after, second = _digits(data, at, end)
    if after - at != 2 or second > 59:
        return -1, at, 0
    if after < end and data[after] == 46:
        at = after + 1
        after, fraction = _digits(data, at, end)
        return (3 if 1 <= after - at <= 9 else -1), after, hour + minute + second + fraction
    return 2, after, hour + minute + second


@njit(cache=True, nogil=True)
def _offset(data, at, end):  # type: ignore[no-untyped-def]
    """Say whether what is left is an offset from UTC: Z, +02, +0200 or +02:00."""
    if data[at] == 90:
        return at + 1 == end
    if data[at] != 43 and data[at] != 45:
        return False
    after, _ = _digits(data, at + 1, end)
    if after - at - 1 == 2 and after < end and data[after] == 58:
        last, _ = _digits(data, after + 1, end)
        return last == end and last - after == 3
    return after == end and (after - at == 3 or after - at == 5)


@njit(cache=True, nogil=True)
def _moment(data, at, end):  # type: ignore[no-untyped-def]
    """Return the shape of a date or a moment, or -1.

    Fields: the order (2 bits: year first, day first, month first, or either), the mark between (2: dash, slash, dot),
    the clock (2: none, minutes, seconds, finer), T before it (1), an offset from UTC (1), midnight (1).
    """
    first, a = _digits(data, at, end)
    la = first - at
    if la == 0 or first >= end:
        return -1
    mark = data[first]
    if mark != 45 and mark != 47 and mark != 46:
        return -1
    second, b = _digits(data, first + 1, end)
    lb = second - first - 1
    if second >= end or data[second] != mark or not 1 <= lb <= 2:
        return -1
    third, c = _digits(data, second + 1, end)
    lc = third - second - 1
    if la == 4 and 1 <= lc <= 2:
        if not (1 <= b <= 12 and 1 <= c <= 31):
            return -1
        order = 0
    elif lc == 4 and 1 <= la <= 2:
        as_day = 1 <= a <= 31 and 1 <= b <= 12
        as_month = 1 <= a <= 12 and 1 <= b <= 31
        if not (as_day or as_month):
            return -1
        order = 3 if as_day and as_month else (1 if as_day else 2)
    else:
        return -1
    between = 0 if mark == 45 else (1 if mark == 47 else 2)
    clock, letter, offset, midnight = 0, 0, 0, 0
    if third < end:
        if data[third] != 32 and data[third] != 84:
            return -1
        letter = 1 if data[third] == 84 else 0
        clock, third, told = _clock(data, third + 1, end)
        if clock < 0:
            return -1
        midnight = 1 if told == 0 else 0
        if third < end:
            if not _offset(data, third, end):
                return -1
            offset = 1
    shape = order | between << 2 | clock << 4 | letter << 6 | offset << 7 | midnight << 8
    return MOMENT | shape << 3


@njit(cache=True, nogil=True)
def describe(data, offsets, valid):  # type: ignore[no-untyped-def]
    """Return the shape of each text; `valid` is false where there is none."""
    out = np.empty(len(offsets) - 1, np.int32)
    for i in range(len(out)):
        at, end = offsets[i], offsets[i + 1]
        while at < end and (data[at] == 32 or 9 <= data[at] <= 13):
            at += 1
        while end > at and (data[end - 1] == 32 or 9 <= data[end - 1] <= 13):
            end -= 1
        if at == end or not valid[i]:
            out[i] = BLANK
            continue
        shape = _number(data, at, end)
        if shape < 0:
            shape = _moment(data, at, end)
        if shape < 0:
            clock, after, _ = _clock(data, at, end)
            shape = CLOCK | clock << 3 if clock > 0 and after == end else -1
        if shape < 0:
            spaces = 0
            for j in range(at, end):
                spaces += data[j] == 32
            shape = PROSE if end - at > _LONG or spaces >= _SPACES else WORDS
        out[i] = shape
    return out
