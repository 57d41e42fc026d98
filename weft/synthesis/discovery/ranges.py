"""Where the values of a column lie, from noisy counts on a public grid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft.marginals.marginal import Array
from weft.values.timestamps import name_span, name_step, parse_span, parse_step

MIN_SUM_DEVIATIONS = 5.5
"""Noise, in standard deviations of a sum of cells, above which rows are found anywhere on a grid."""

NEAR = 4.0
"""The same beside cells that hold rows, where a look goes no further than `REACH`."""

REACH = 16
"""Cells beside those that hold rows which are looked at next: a little more than a power of ten."""

_STEPS = ("1d", "1h", "1min", "1s", "1ms", "1us")

FINE = 1000
"""Steps that the longest length of time has at least: whoever knows a coarser one states it."""


def estimate_extent(counts: Array, sigma: float) -> tuple[int, int]:
    """Return the first and the last cell that hold rows, as far as the noise lets one tell.

    A cell by itself may drown where it and its neighbours together do not, so runs of 1, 2, 4, ... cells are looked at.
    What stands out of the noise anywhere comes first; from there on, less is enough. Where nothing does, the run that
    comes nearest to it is the range: a guess, and with few rows mostly the right one.

    >>> estimate_extent(np.array([0, 3, 90, 200, 40, 40, 0, 1]), 10.0)
    (2, 4)
    """
    cells = np.asarray(counts, np.float64)
    found = _find_filled_runs(cells, MIN_SUM_DEVIATIONS * sigma)
    if not found:
        return _find_likeliest_run(cells)
    first, last = min(end for _, end in found), max(start for start, _ in found)
    first, last = min(first, last), max(first, last)
    while more := _find_filled_runs(cells[max(first - REACH, 0) : first][::-1], NEAR * sigma):
        first -= max(start for start, _ in more) + 1
    while more := _find_filled_runs(cells[last + 1 : last + 1 + REACH], NEAR * sigma):
        last += max(start for start, _ in more) + 1
    return first, last


def _find_filled_runs(cells: Array, sure: float) -> list[tuple[int, int]]:
    """Return the first and last cell of each run of 1, 2, 4, ... cells, up to `REACH`, that hold rows together."""
    return [
        (int(first), int(first) + length - 1)
        for length, scores in _iterate_run_scores(cells)
        for first in np.flatnonzero(scores > sure)
    ]


def _find_likeliest_run(cells: Array) -> tuple[int, int]:
    """Return the run that stands out most."""
    best = [(float(scores.max()), int(scores.argmax()), length) for length, scores in _iterate_run_scores(cells)]
    _, first, length = max(best)
    return first, first + length - 1


def _iterate_run_scores(cells: Array) -> Iterator[tuple[int, Array]]:
    """Yield lengths of runs, and the sum of each run of that length in standard deviations of such a sum's noise."""
    total = np.concatenate([[0.0], np.cumsum(cells)])
    length = 1
    while length <= min(len(cells), REACH):
        yield length, (total[length:] - total[:-length]) / math.sqrt(length)
        length *= 2


def number_range(edges: Sequence[Any], cells: tuple[int, int], whole: bool, decimals: int | None = None) -> list[Any]:
    """Return the range of the cells from one to another: of whole numbers, without the edge where the next begins.

    With so many decimals its ends are numbers that have them, so that there is always one in it, and no number that is
    too large for a float to have them.

    >>> number_range([0.0, 1e-6, 2e-6], (1, 1), False, 2)
    [0.0, 0.01]
    >>> number_range([0.0, 1.0, 1e16], (0, 1), False, 2)
    [0.0, 90071992547409.0]
    """
    first, last = cells
    low, high = edges[first], edges[last + 1]
    if whole:
        return [low, high - 1] if last + 2 < len(edges) else [low, high]
    if decimals is None:
        return [low, high]
    unit = 10**decimals
    most = float(2**53 // unit)
    if low >= most or high <= -most:
        low, high = (most / 2, most) if low >= most else (-most, -most / 2)
    ends = math.floor(max(low, -most) * unit) / unit, math.ceil(min(high, most) * unit) / unit
    return [max(ends[0], -most), min(ends[1], most)]


def found_range(entry: Mapping[str, Any], edges: Sequence[Any], cells: tuple[int, int], unit: int) -> dict[str, Any]:
    """Return what an entry says of the cells from one to another; lengths of time have units of so many nanoseconds."""
    if entry["kind"] == "datetime":
        return {"range": [f"{edges[cells[0]][:4]}-01-01", f"{edges[cells[1]][:4]}-12-31"]}
    if entry["kind"] == "duration":
        return span_range(edges, cells, unit, entry.get("step"))
    return {"range": number_range(edges, cells, entry["kind"] == "integer", entry.get("decimals"))}


def span_range(edges: Sequence[str], cells: tuple[int, int], unit: int, step: str | None = None) -> dict[str, Any]:
    """Return the range of the cells from one to another, and a step that tells the longest to a thousandth.

    >>> span_range(["0d", "1min", "6h"], (0, 1), 1000)
    {'range': ['0d', '6h'], 'step': '1s'}
    """
    low, high = parse_span(edges[cells[0]]), parse_span(edges[cells[1] + 1])
    longest = max(abs(low), abs(high))
    fine = next((each for each in _STEPS if longest >= FINE * parse_step(each) and parse_step(each) >= unit), None)
    size = parse_step(step) if step else parse_step(fine) if fine else unit
    return {"range": [name_span(low // size * size), name_span(-(-high // size) * size)], "step": name_step(size)}


def select_outlying_specials(special: Iterable[tuple[Any, int]], sigma: float, low: Any, high: Any) -> list[Any]:
    """Return the special values that rows have and that lie outside a range."""
    return [value for value, count in special if count > MIN_SUM_DEVIATIONS * sigma and not low <= value <= high]
