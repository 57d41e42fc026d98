"""The loop that turns integers into codes: one pass, no temporary arrays."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def locate(  # type: ignore[no-untyped-def]
    values, low, span, room, starts, code, clip, step, shift, special, special_code
):
    """Return the code of each value, all arithmetic modulo 2^64; -1 where it has none, never with `clip`.

    Bins are the `starts` above `low`, the last one ending at low + span; `room` is the distance from `low` to
    the largest number of the type, which tells values above the range from those below. A `step` above 1
    refuses values off the grid whose origin lies `shift` below `low`.
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
