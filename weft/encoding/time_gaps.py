"""Times between consecutive rows of a family, as codes on a public grid.

Code 0 marks the first row of a family; code c + 1 is cell c of the grid: 0 to 15 steps one by one, then two cells for
each power of two. A step is the resolution of the time column: 1 for integers, a day for dates, a second for times.
Cells do not depend on rows, so a code depends on two rows of one family only.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.marginals.domain import Order
from weft.schema.rules.column_values import ColumnReader

Ints = NDArray[np.int64]

YEAR = 365.25 * 86_400e6
"""A year in microseconds."""

EXACT = 16
"""Gaps below this number of steps have a cell each."""
OCTAVES = 24

_EDGES = np.unique(
    np.concatenate([np.arange(EXACT), np.ceil(EXACT * 2.0 ** (np.arange(2 * OCTAVES + 1) / 2)).astype(np.int64)])
)
GAP_CODES = len(_EDGES) + 1
"""Number of codes: the first row, and the cells."""
GAP_ORDER = Order(ordered=True, apart=frozenset({0}))


def count_years(reader: ColumnReader, times: NDArray[Any]) -> NDArray[np.float64]:
    """Return times in years, or as they are if they are numbers."""
    return times / YEAR if reader.moments else times.astype(np.float64)


def encode_gaps(times: NDArray[Any], family: Ints, step: int) -> Ints:
    """Return the code of each row, given ascending times within families, whose rows are adjacent.

    >>> encode_gaps(np.array([3, 3, 5, 9]), np.array([0, 0, 0, 1]), 1).tolist()
    [0, 1, 3, 0]
    """
    codes = np.zeros(len(times), np.int64)
    later = np.flatnonzero(np.diff(family) == 0) + 1
    gaps = np.maximum((times[later] - times[later - 1]) // step, 0)
    codes[later] = np.searchsorted(_EDGES, gaps, side="right")
    return codes


def count_possible_codes(most: int) -> int:
    """Return the number of codes whose gaps have at most `most` steps in part: the first ones."""
    return int(np.searchsorted(_EDGES, most, side="right")) + 1


def draw_gaps(codes: Ints, step: int, most: int, rng: np.random.Generator) -> Ints:
    """Return a gap of at most `most` steps for each code, spread evenly over its cell; 0 for a first row.

    >>> draw_gaps(np.array([0, 1, 2, GAP_CODES - 1]), 7, 30, np.random.default_rng(0)).tolist()
    [0, 0, 7, 210]
    """
    cell = np.maximum(codes - 1, 0)
    low, high = (np.minimum(ends, most)[cell] for ends in (_EDGES, np.append(_EDGES[1:], _EDGES[-1] + 1)))
    steps = low + (rng.random(len(codes)) * (high - low)).astype(np.int64)
    return np.asarray(np.where(codes > 0, steps * step, 0))


def place_times(first: NDArray[Any], gaps: Ints, family: Ints, ends: tuple[int, int], step: int) -> NDArray[Any]:
    """Return the times of all rows: the first time of each family plus the gaps, kept within the range.

    A family that would end after the range starts earlier; if it still does not fit, its gaps are shortened in
    proportion, and distinct times stay distinct while the range has room.

    >>> place_times(np.array([4]), np.array([0, 1, 1]), np.array([0, 0, 0]), (1, 5), 1).tolist()
    [3, 4, 5]
    """
    if not len(family):
        return np.asarray(first[:0])
    starts = np.flatnonzero(np.diff(family, prepend=-1))
    number = np.cumsum(np.diff(family, prepend=-1) != 0) - 1
    since = np.cumsum(gaps)
    since = since - since[starts][number]
    last = np.maximum.reduceat(since, starts)
    low, high = ends
    room = (high - low) // step * step
    rank = np.arange(len(family)) - starts[number]
    most = np.append(np.diff(starts), len(family) - starts[-1]) - 1
    spread = np.where(
        most[number] * step <= room, rank * (room // np.maximum(most, 1))[number] // step * step, rank * 0
    )
    shorter = np.maximum(since * (room / np.maximum(last, 1)[number]) // step * step, 0).astype(np.int64)
    tight = (last > room)[number]
    same = (np.diff(number) == 0) & (np.diff(shorter) == 0) & (np.diff(since) > 0)
    merged = np.isin(number, number[1:][same])  # shortened gaps that would join times: spread the rows evenly
    since = np.where(tight, np.where(merged, spread, shorter), since)
    last = np.maximum.reduceat(since, starts)
    begin = np.clip(first, low, low + room - last)  # the end of a range, such as a day's, is off the grid
    return np.asarray(begin[number] + since)
