"""Draws one attribute of many records given their parents' values, with no more randomness than rounding needs.

The records that share a parents' configuration are a group. A group of m records is divided over the child's codes
by systematic sampling: with F the running sum of m times the probabilities and u uniform, code r goes to
floor(F_r + u) - floor(F_(r-1) + u) records, which has the right mean and is off by less than one. Which records of the
group get which code is a fresh random order, so nothing but the parents ties the child to other attributes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from weft.marginal import Array

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def draw_child(table: Array, group: Array, rng: np.random.Generator) -> Array:
    """Return one code a record: `table[g]` is the distribution of the code in group g, summing to one."""
    # A golden-ratio sequence instead of independent numbers: every offset is uniform, and neighbouring groups, which
    # have similar distributions, do not round the same codes up.
    offsets = (rng.random() + _GOLDEN * np.arange(len(table))) % 1.0
    drawn = np.empty(len(group), np.uint32)
    _divide(np.ascontiguousarray(table), group, rng.permutation(len(group)), offsets, drawn)
    return drawn


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _divide(table: Array, group: Array, shuffled: Array, offsets: Array, drawn: Array) -> Any:
    groups, codes = table.shape
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
        m = start[g + 1] - start[g]
        if m == 0:
            continue
        last = 0
        for r in range(codes):
            if table[g, r] > 0.0:
                last = r
        running, given = 0.0, 0
        for r in range(last + 1):
            running += table[g, r]
            # Rounding of the running sum may neither lose nor add a record: the last possible code takes the rest.
            upto = m if r == last else min(m, math.floor(running * m + offsets[g]))
            for i in range(start[g] + given, start[g] + upto):
                drawn[member[i]] = r
            given = max(given, upto)
