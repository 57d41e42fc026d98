"""Estimate the range of a column from noisy counts on a public grid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft.marginals.marginal import Array
from weft.values.timestamps import name_span, name_step, parse_span, parse_step

MIN_SUM_DEVIATIONS = 5.5  # threshold anywhere on a grid, in standard deviations of the noise of a sum of cells
NEAR = 4.0  # threshold within `REACH` of cells already found to contain rows
REACH = 16  # number of neighbouring cells to test next: a little more than a power of ten
_STEPS = ("1d", "1h", "1min", "1s", "1ms", "1us")

FINE = 1000  # minimum number of steps in the longest duration; a schema may state a coarser step


def estimate_extent(counts: Array, sigma: float) -> tuple[int, int]:
    """Estimate the first and the last cell that contain rows.

    Runs of 1, 2, 4, ... cells are tested, since neighbouring cells may exceed the noise only together. Runs above the
    threshold anywhere are found first; next to them a lower threshold applies. If there are none, the run with the
    largest score is returned: a guess, and with few rows usually the right one.

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
    """Return the first and last cell of each run of 1, 2, 4, ... cells, up to `REACH`, above the threshold."""
    return [
        (int(first), int(first) + length - 1)
        for length, scores in _iterate_run_scores(cells)
        for first in np.flatnonzero(scores > sure)
    ]


def _find_likeliest_run(cells: Array) -> tuple[int, int]:
    best = [(float(scores.max()), int(scores.argmax()), length) for length, scores in _iterate_run_scores(cells)]
    _, first, length = max(best)
    return first, first + length - 1


def _iterate_run_scores(cells: Array) -> Iterator[tuple[int, Array]]:
    """Yield run lengths, and for each run of that length its sum divided by the square root of the length."""
    total = np.concatenate([[0.0], np.cumsum(cells)])
    length = 1
    while length <= min(len(cells), REACH):
        yield length, (total[length:] - total[:-length]) / math.sqrt(length)
        length *= 2


def number_range(edges: Sequence[Any], cells: tuple[int, int], whole: bool, decimals: int | None = None) -> list[Any]:
    """Return the range from the first to the last cell; for whole numbers, without the edge of the next cell.

    With `decimals`, the ends are rounded outwards, so that the range contains at least one such number, and limited to
    numbers that a float represents with these decimals.

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
    """Return the range of these cells for an entry; `unit` is the unit of durations in nanoseconds."""
    if entry["kind"] == "datetime":
        return {"range": [f"{edges[cells[0]][:4]}-01-01", f"{edges[cells[1]][:4]}-12-31"]}
    if entry["kind"] == "duration":
        return span_range(edges, cells, unit, entry.get("step"))
    return {"range": number_range(edges, cells, entry["kind"] == "integer", entry.get("decimals"))}


def span_range(edges: Sequence[str], cells: tuple[int, int], unit: int, step: str | None = None) -> dict[str, Any]:
    """Return the duration range of these cells, and its step (default: a thousandth of the longest, or the unit).

    >>> span_range(["0d", "1min", "6h"], (0, 1), 1000)
    {'range': ['0d', '6h'], 'step': '1s'}
    """
    low, high = parse_span(edges[cells[0]]), parse_span(edges[cells[1] + 1])
    longest = max(abs(low), abs(high))
    fine = next((each for each in _STEPS if longest >= FINE * parse_step(each) and parse_step(each) >= unit), None)
    size = parse_step(step) if step else parse_step(fine) if fine else unit
    return {"range": [name_span(low // size * size), name_span(-(-high // size) * size)], "step": name_step(size)}


def select_outlying_specials(special: Iterable[tuple[Any, int]], sigma: float, low: Any, high: Any) -> list[Any]:
    """Return the special values outside a range whose counts exceed the threshold."""
    return [value for value, count in special if count > MIN_SUM_DEVIATIONS * sigma and not low <= value <= high]
