"""The fine public grid of lengths of time and times of day: people round them to quarters, hours and days, not to tens.

Few steps have a cell each. Where there are more, cells are as long as a step (or a second) up to an hour from zero, a
minute up to a day, an hour up to two months, and a day beyond; a round
length at the start of a cell has a cell of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from weft.values.cells import MOST_CELLS
from weft.values.instants import DAY, UNIT, parse_step
from weft.values.limits import EACH_CELL

_GRAINS = tuple(map(parse_step, ("1s", "15s", "1min", "5min", "15min", "30min", "1h", "12h", "1d", "7d")))
_HOUR, _MINUTE = parse_step("1h"), parse_step("1min")
_WIDTHS = ((0, UNIT["s"]), (_HOUR, _MINUTE), (DAY, _HOUR), (60 * DAY, DAY), (3650 * DAY, 7 * DAY))


def span_cuts(step: int) -> Callable[[int, int], list[int]]:
    """Return what cuts the steps from a lowest to a highest one into cells; a step has so many nanoseconds.

    >>> cuts = span_cuts(parse_step("1min"))(0, 20 * 1440)
    >>> [cut for cut in cuts if 2875 < cut < 3005]
    [2880, 2881, 2940, 2941, 3000, 3001]
    """

    def cuts(low: int, high: int) -> list[int]:
        if high - low + 1 <= EACH_CELL:
            return list(range(low, high + 2))
        widen = 1
        while len(found := _cuts(low, high, step, widen)) > MOST_CELLS:
            widen *= 4
        return found

    return cuts


def _cuts(low: int, high: int, step: int, widen: int) -> list[int]:
    top = max(abs(low), abs(high))
    ends = [max(start // step, 0) for start, _ in _WIDTHS[1:]] + [top + 1]
    found: set[int] = set()
    start = 0
    for (_, width), end in zip(_WIDTHS, ends, strict=True):
        wide = max(width // step, 1) * widen
        rising = range(-(-start // wide) * wide, min(end, top + 1), wide)
        found.update(rising if wide == 1 else chain(rising, (cut + 1 for cut in rising)))
        start = end
        if start > top:
            break
    both = found | {1 - cut for cut in found}
    return sorted({low, *(cut for cut in both if low < cut <= high), high + 1})


def span_levels(step: int) -> Callable[[Sequence[int], NDArray[np.float64]], NDArray[np.int64]]:
    """Return what tells how round the length of each cell is, in steps; 0 where a cell has several.

    >>> span_levels(parse_step("1min"))([0, 1, 5, 45, 60, 61], np.array([1, 1, 1, 1, 1, 59.0])).tolist()
    [7, 0, 1, 2, 4, 0]
    """
    grains = [grain // step for grain in _GRAINS if grain > step and grain % step == 0]

    def levels(starts: Sequence[int], widths: NDArray[np.float64]) -> NDArray[np.int64]:
        values = np.array(starts, np.int64)
        single = np.asarray(widths) == 1
        made = np.zeros(len(values), np.int64)
        for level, grain in enumerate(grains, start=1):
            made[single & (values % grain == 0)] = level
        return made

    return levels
