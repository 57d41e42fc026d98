"""Compiled loops that parse whole numbers from text and map integers to codes, without temporary arrays."""

import numpy as np

from weft.kernels import kernel


@kernel(cache=True, nogil=True)
def locate_codes(  # type: ignore[no-untyped-def]
    values, low, span, room, starts, code, clip, step, shift, special, special_code
):
    """Return the code of each value, with arithmetic modulo 2^64; -1 if it has none, never with `clip`.

    Bins start at the `starts` above `low`, and the last one ends at low + span; `room` is the distance from `low` to
    the largest number of the type, which distinguishes values above the range from those below. A `step` above 1
    rejects values off the grid whose origin lies `shift` below `low`.
    """
    out = np.empty(len(values), np.int64)
    last = len(starts) - 1
    for i in range(len(values)):
        value = values[i]
        if len(special):
            place = np.searchsorted(special, value)
            if place < len(special) and special[place] == value:
                out[i] = special_code[place]
                continue
        offset = value - low
        if offset > span:
            if not clip:
                out[i] = -1
            else:
                out[i] = code[last] if offset <= room else code[0]
            continue
        if not clip and step > 1 and (offset + shift) % step != 0:
            out[i] = -1
            continue
        left, right = 0, last
        while left < right:
            middle = (left + right + 1) >> 1
            if starts[middle] <= offset:
                left = middle
            else:
                right = middle - 1
        out[i] = code[left]
    return out


_SPACE, _PLUS, _MINUS, _POINT, _NOUGHT, _NINE = (ord(sign) for sign in " +-.09")
_DIGITS = 18  # always fit in 64 bits


@kernel(cache=True, nogil=True)
def whole_numbers(data, starts, missing, values, plain):  # type: ignore[no-untyped-def]
    """Parse texts such as 42, -7, +3 or 3.00 (spaces allowed), text i from byte starts[i]; mark them and nulls."""
    for i in range(len(values)):
        values[i] = 0
        plain[i] = missing[i]
        if missing[i]:
            continue
        at, end = starts[i], starts[i + 1]
        while at < end and data[at] == _SPACE:
            at += 1
        while end > at and data[end - 1] == _SPACE:
            end -= 1
        negative = at < end and data[at] == _MINUS
        if negative or (at < end and data[at] == _PLUS):
            at += 1
        number, digits = np.int64(0), 0
        while at < end and digits <= _DIGITS and _NOUGHT <= data[at] <= _NINE:
            number = number * 10 + (np.int64(data[at]) - _NOUGHT)
            at += 1
            digits += 1
        if at < end and data[at] == _POINT:
            at += 1
            while at < end and data[at] == _NOUGHT:
                at += 1
        if at == end and 0 < digits <= _DIGITS:
            values[i] = -number if negative else number
            plain[i] = True
