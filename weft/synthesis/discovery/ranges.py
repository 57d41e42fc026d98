"""Estimate the range of a column from noisy counts on a public grid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft.marginals.marginal import Array
from weft.values.timestamps import name_span, name_step, parse_span, parse_step

MIN_SUM_DEVIATIONS = 5.5  # threshold of a special value, in standard deviations of the noise
NEAR = 4.0  # threshold of a count that is tested alone
FAR = 4.5  # threshold of a run of cells anywhere on a grid, in standard deviations of the noise of its sum
CLOSE = 3.0  # threshold of a run within `PAD` cells of those already found to contain rows
SHARP = 5.0  # deviations of the noise above which the last cell may show that a range ends there
DROP, SILENT = 0.2, 2.5  # the next cell is below this ratio to it, and below these deviations of the noise
PAD = 6  # number of cells added beyond an end that is not sharp: two powers of ten
PAD_YEARS = 2  # the same for dates
MAX_PADS = 2  # maximum number of times that cells are added, the second time only if these seem to contain rows
_STEPS = ("1d", "1h", "1min", "1s", "1ms", "1us")

FINE = 1000  # minimum number of steps in the longest duration; a schema may state a coarser step


def estimate_extent(counts: Array, sigma: float, zero: int = 0, pad: int = PAD) -> tuple[int, int]:
    """Estimate the first and the last cell that contain rows; when in doubt, wider.

    The sums of runs of 1, 2, 4, ... cells are tested, up to all cells: a tail may exceed the noise only as a whole. If
    no run does, the run with the largest score is returned, which is usually right even with few rows. Beyond an end
    where counts do not drop sharply, the tail is continued by `pad` cells, but not across the cell `zero`.

    >>> estimate_extent(np.array([0, 3, 90, 200, 90, 0, 0, 1]), 10.0)
    (2, 4)
    >>> estimate_extent(np.array([200, 90, 40, 20, 15, 10, 0, 0, 0, 0, 0, 0]), 10.0)
    (0, 8)
    """
    cells = np.asarray(counts, np.float64)
    end = len(cells) - 1
    found = _find_filled_runs(cells, FAR * sigma) or [_find_likeliest_run(cells)]
    last = _extend(cells, sigma, max(first for first, _ in found), zero, pad)
    first = end - _extend(cells[::-1], sigma, max(end - last for _, last in found), end - zero, pad)
    return min(first, last), max(first, last)


def _extend(cells: Array, sigma: float, last: int, zero: int, pad: int) -> int:
    """Return the last cell that contains rows, starting from one that is certainly needed.

    Runs beyond it are tested in turn until none exceeds the threshold; then a tail that does not end sharply is
    continued.
    """
    while more := (
        _find_filled_runs(cells[last + 1 :], FAR * sigma)
        or _find_filled_runs(cells[last + 1 : last + 1 + PAD], CLOSE * sigma)
    ):
        last += max(first for first, _ in more) + 1
    for _ in range(MAX_PADS):
        beyond = cells[last + 1 : min(last + pad, zero if last <= zero else len(cells)) + 1]
        sharp = len(beyond) and cells[last] > SHARP * sigma and beyond[0] < min(DROP * cells[last], SILENT * sigma)
        if sharp or not len(beyond):
            break
        last += len(beyond)
        if beyond.sum() < 2 * sigma * math.sqrt(len(beyond)):
            break
    return last


def _find_filled_runs(cells: Array, least: float) -> list[tuple[int, int]]:
    """Return the first and last cell of each run of 1, 2, 4, ... cells with a score above the threshold."""
    return [
        (int(first), int(first) + length - 1)
        for length, scores in _iterate_run_scores(cells)
        for first in np.flatnonzero(scores > least)
    ]


def _find_likeliest_run(cells: Array) -> tuple[int, int]:
    best = [(float(scores.max()), int(scores.argmax()), length) for length, scores in _iterate_run_scores(cells)]
    _, first, length = max(best)
    return first, first + length - 1


def _iterate_run_scores(cells: Array) -> Iterator[tuple[int, Array]]:
    """Yield run lengths, and for each run of that length its sum divided by the square root of the length."""
    total = np.concatenate([[0.0], np.cumsum(cells)])
    length = 1
    while length <= len(cells):
        yield length, (total[length:] - total[:-length]) / math.sqrt(length)
        length *= 2


def include_zero(edges: Sequence[Any], cells: tuple[int, int]) -> tuple[int, int]:
    """Extend a range of positive numbers to 0 if it spans a power of ten: the cells below cost little.

    >>> include_zero([-1, 0, 1, 2, 5, 10, 20, 50], (3, 6))
    (1, 6)
    """
    first, last = cells
    return (edges.index(0), last) if 0 < 10 * edges[first] <= edges[last + 1] else cells


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
    cells = include_zero(edges, cells)
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
