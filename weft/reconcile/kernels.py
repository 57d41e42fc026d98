"""The two loops of reconciliation: agree on every shared set, and fit every table.

Sizes: `agree` works on projections only (small); `fit` reads every cell once and keeps one table at a time in
cache.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from weft.reconcile.simplex import threshold


@njit(cache=True, nogil=True)
def agree(  # type: ignore[no-untyped-def]
    projected,
    total,
    link_start,
    width,
    at,
    share,
    weight,
    sub_start,
    sub_map,
    cell_map,
    sub_link_start,
    sub_link,
    shift,
):
    """Find the shift of each table's cells that makes the tables with these projections agree.

    Sets come after their subsets. At each set the target is the weighted mean of the current projections (the
    total, for the empty set), and a table reaches it by adding (target - projection) / g to each of its
    cells: all cells of a table are equally noisy, so the least-squares correction spreads evenly. A shift
    made for one set does not disturb another, unless that contains it: it sums to zero over all they share,
    which agreed before.
    """
    for a in range(width.size):
        first, last = link_start[a], link_start[a + 1]
        subs = sub_start[a + 1] - sub_start[a]
        cells = width[a]
        target = np.zeros(cells)
        for e in range(first, last):
            here = at[e]
            for j in range(cells):
                shift[here + j] = projected[here + j]
            for k in range(subs):
                below = at[sub_link[sub_link_start[a] + (e - first) * subs + k]]
                where = sub_map[sub_start[a] + k]
                for j in range(cells):
                    shift[here + j] += share[e] * shift[below + cell_map[where + j]]
            for j in range(cells):
                target[j] += weight[e] * shift[here + j]
        if a == 0:
            target[0] = total
        for e in range(first, last):
            here = at[e]
            for j in range(cells):
                shift[here + j] = (target[j] - shift[here + j]) / share[e]


@njit(cache=True, nogil=True)
def fit(  # type: ignore[no-untyped-def]
    cell, shift, total, cut, cells, at, layout, address, table_start, table_link, projected
):
    """Shift every table, project it onto the simplex of `total` if `cut`, and sum it onto its sets."""
    for i in range(cells.size - 1):
        begin, size = cells[i], cells[i + 1] - cells[i]
        x = cell[begin : begin + size]
        for t in range(table_start[i], table_start[i + 1]):
            e = table_link[t]
            _spread(x, shift[at[e] :], layout[e, 0], layout[e, 1], address[layout[e, 2] :])
        if cut:
            tau = threshold(x, total, 0.0)  # the shifts gave it the total: zero is near
            for j in range(size):
                x[j] = max(x[j] - tau, 0.0)
        for t in range(table_start[i], table_start[i + 1]):
            e = table_link[t]
            _gather(x, projected[at[e] :], layout[e, 0], layout[e, 1], address[layout[e, 2] :])


@njit(cache=True, nogil=True)
def disagreement(projected, link_start, width, at):  # type: ignore[no-untyped-def]
    """Return the greatest sum over a set's cells of the range (highest minus lowest) of its projections."""
    worst = 0.0
    for a in range(width.size):
        spread = 0.0
        for j in range(width[a]):
            low = high = projected[at[link_start[a]] + j]
            for e in range(link_start[a] + 1, link_start[a + 1]):
                value = projected[at[e] + j]
                low, high = min(low, value), max(high, value)
            spread += high - low
        worst = max(worst, spread)
    return worst


@njit(cache=True, nogil=True)
def _spread(x, shift, inner, step, address):  # type: ignore[no-untyped-def]
    for o in range(x.size // inner):
        begin, where = o * inner, address[o]
        if step == 1:
            for j in range(inner):
                x[begin + j] += shift[where + j]
        else:
            for j in range(inner):
                x[begin + j] += shift[where]


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def _gather(x, projected, inner, step, address):  # type: ignore[no-untyped-def]
    for o in range(x.size // inner):
        where = address[o]
        if step == 1:
            for j in range(inner):
                projected[where + j] = 0.0
        else:
            projected[where] = 0.0
    for o in range(x.size // inner):
        begin, where = o * inner, address[o]
        if step == 1:
            for j in range(inner):
                projected[where + j] += x[begin + j]
        else:
            summed = 0.0
            for j in range(inner):
                summed += x[begin + j]
            projected[where] += summed
