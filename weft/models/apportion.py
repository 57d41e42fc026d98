"""Whole records out of fractional expectations, with no more randomness than rounding needs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from weft.marginals.marginal import Array

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def apportion_records(weights: Array, n: int, rng: np.random.Generator) -> Array:
    """Divide n records over cells in proportion to non-negative weights, exactly n in all.

    Each cell gets the floor of its expectation; what is left goes to cells drawn by systematic sampling of the
    fractional parts, so every cell's count has the right mean and is off by less than one.

    >>> apportion_records(np.array([1.0, 1.0, 2.0]), 8, np.random.default_rng(0))
    array([2, 2, 4])
    """
    largest = weights.max(initial=0.0)
    # Scaled first, so that their sum neither vanishes nor overflows.
    weights = weights / largest if largest > 0 else np.ones_like(weights)
    expected = weights * (n / weights.sum())
    floors: Array = np.floor(expected).astype(np.int64)
    left = n - int(floors.sum())
    if left > 0:
        # Fractional parts sum to `left` up to rounding; ticks one apart from a random start hit each cell with
        # probability equal to its part. The order is shuffled so that neighbours are not drawn together.
        order = rng.permutation(expected.size)
        ends = np.cumsum((expected - floors).ravel()[order])
        ticks = (rng.random() + np.arange(left)) * (ends[-1] / left)
        hit = order[np.minimum(np.searchsorted(ends, ticks, side="right"), expected.size - 1)]
        np.add.at(floors.ravel(), hit, 1)
    return floors


def apportion_groups(table: Array, group: Array, rng: np.random.Generator) -> Array:
    """Return one cell a record: those of group g are divided over the cells in proportion to `table[g]`.

    By systematic sampling: with F the running sum of a group's expectations and u uniform, cell r goes to
    floor(F_r + u) - floor(F_(r-1) + u) of its records, which has the right mean and is off by less than one. Which
    records of the group get which cell is a fresh random order, so nothing but the group ties cells to records.
    """
    # A golden-ratio sequence instead of independent numbers: every offset is uniform, and neighbouring groups, which
    # have similar distributions, do not round the same cells up.
    offsets = (rng.random() + _GOLDEN * np.arange(len(table))) % 1.0
    drawn = np.empty(len(group), np.uint32)
    _divide_groups(np.ascontiguousarray(table), group, rng.permutation(len(group)), offsets, drawn)
    return drawn


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _divide_groups(table: Array, group: Array, shuffled: Array, offsets: Array, drawn: Array) -> Any:
    groups, cells = table.shape
    start = np.zeros(groups + 1, np.int64)
    for g in group:
        start[g + 1] += 1
    for g in range(groups):
        start[g + 1] += start[g]
    member = np.empty(len(group), np.int64)
    filled = start[:-1].copy()
    for record in shuffled:
        g = group[record]
        member[filled[g]] = record
        filled[g] += 1
    for g in range(groups):
        count = start[g + 1] - start[g]
        if count == 0:
            continue
        total, last = 0.0, 0
        for r in range(cells):
            total += table[g, r]
            if table[g, r] > 0.0:
                last = r
        running, given = 0.0, 0
        for r in range(last + 1):
            running += table[g, r]
            # Rounding of the running sum may neither lose nor add a record: the last possible cell takes the rest.
            upto = count if r == last else min(count, math.floor(running / total * count + offsets[g]))
            for i in range(start[g] + given, start[g] + upto):
                drawn[member[i]] = r
            given = max(given, upto)
