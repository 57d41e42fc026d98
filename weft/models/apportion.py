"""Convert fractional expected counts to integer counts by systematic sampling."""

import math
from typing import Any

import numpy as np

from weft.kernels import kernel
from weft.marginals.marginal import Array

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def apportion_records(weights: Array, n: int, rng: np.random.Generator) -> Array:
    """Divide exactly n records over cells in proportion to non-negative weights.

    Each cell gets the floor of its expected count; the remaining records are assigned by systematic sampling of the
    fractional parts. Every count is unbiased and differs from its expected value by less than one.

    >>> apportion_records(np.array([1.0, 1.0, 2.0]), 8, np.random.default_rng(0))
    array([2, 2, 4])
    """
    largest = weights.max(initial=0.0)
    # Scale first to avoid overflow and underflow of the sum.
    weights = weights / largest if largest > 0 else np.ones_like(weights)
    expected = weights * (n / weights.sum())
    floors: Array = np.floor(expected).astype(np.int64)
    left = n - int(floors.sum())
    if left > 0:
        # The fractional parts sum to `left` up to rounding. Ticks at unit distance from a random start hit each cell
        # with probability equal to its fractional part; shuffling decorrelates adjacent cells.
        order = rng.permutation(expected.size)
        ends = np.cumsum((expected - floors).ravel()[order])
        ticks = (rng.random() + np.arange(left)) * (ends[-1] / left)
        hit = order[np.minimum(np.searchsorted(ends, ticks, side="right"), expected.size - 1)]
        np.add.at(floors.ravel(), hit, 1)
    return floors


def apportion_groups(table: Array, group: Array, rng: np.random.Generator) -> Array:
    """Assign a cell to each record: the records of group g are divided over the cells in proportion to `table[g]`.

    Systematic sampling: with F the cumulative expected counts of a group and u uniform, cell r gets
    floor(F_r + u) - floor(F_(r-1) + u) of its records, which is unbiased and differs from the expected count by less
    than one. Records of a group are shuffled, so cells depend on records only through the group.
    """
    # Golden-ratio offsets instead of independent ones: each is uniform, and adjacent groups, which have similar
    # distributions, do not round up the same cells.
    offsets = (rng.random() + _GOLDEN * np.arange(len(table))) % 1.0
    drawn = np.empty(len(group), np.uint32)
    _divide_groups(np.ascontiguousarray(table), group, rng.permutation(len(group)), offsets, drawn)
    return drawn


@kernel(cache=True, nogil=True)
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
            # The last possible cell takes the rest, so that rounding neither loses nor adds a record.
            upto = count if r == last else min(count, math.floor(running / total * count + offsets[g]))
            for i in range(start[g] + given, start[g] + upto):
                drawn[member[i]] = r
            given = max(given, upto)
