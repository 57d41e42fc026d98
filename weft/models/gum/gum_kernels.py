"""Kernels of GUM: the paper's update of one marginal, and the guided sweep.

Records are stored in row-major order, so that a record is copied as one block. Random numbers come from a splitmix64
stream whose state is a one-element array: the seed alone determines the result, for any number of threads, and the
plain Python implementation in the tests draws the same numbers.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels import kernel
from weft.marginals.marginal import Array

UNIT_BITS = 20  # numbers of records are integers in units of 2^-20, so that gains and losses sum to the same integer
CHUNK = 1024  # number of rows that a guided sweep processes at a time, by attribute, to keep tables in the cache


class Views(NamedTuple):
    """Views of tables by attribute: a view of attribute j is a table that contains j.

    The views of attribute j are `first[j]` to `first[j + 1]`; the other attributes of view e are `other[e]` to
    `other[e + 1]` in `column`, `stride` (into the flat tables) and `row_stride` (into `cumulative`).
    """

    sizes: Array
    first: Array
    cell: Array
    own: Array
    other: Array
    column: Array
    stride: Array
    row_stride: Array
    row: Array
    cumulative: Array


@kernel(cache=True, nogil=True)
def draw_bits(state: Array) -> Any:
    """Return the next 32 random bits of a splitmix64 stream."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(32))


@kernel(cache=True, nogil=True)
def draw_below(state: Array, bound: int) -> Any:
    """Return a uniform integer from 0 to bound - 1 (bound below 2^31)."""
    return (draw_bits(state) * bound) >> 32


@kernel(cache=True, nogil=True)
def count_rows(rows: Array, start: Array, column: Array, stride: Array, offset: Array, counts: Array) -> None:
    """Add the marginals of the rows over all cliques to the flat `counts`."""
    for low in range(0, rows.shape[0], CHUNK):
        high = min(low + CHUNK, rows.shape[0])
        for m in range(len(start) - 1):
            for i in range(low, high):
                cell = offset[m]
                for q in range(start[m], start[m + 1]):
                    cell += rows[i, column[q]] * stride[q]
                counts[cell] += 1


@kernel(cache=True, nogil=True)
def compute_moves(counts: Array, target: Array, alpha: float, fill: bool = True) -> tuple[Array, Array]:
    """Compute the gain and loss of each cell, in units; both sum to the same integer.

    With count c and target t, an under-counted cell gains min(t - c, alpha c). An empty one, which cannot grow by a
    factor, gains min(t, alpha t) if `fill`, else nothing (PrivSyn as printed). Over-counted cells lose min(c - t, beta
    c) with the exact beta: sorted by (c - t)/c, the loss is linear between thresholds.
    """
    unit = 1 << UNIT_BITS
    cells = len(counts)
    gain, loss = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
    gained, over, held = np.int64(0), 0, 0.0
    for c in range(cells):
        gap = target[c] - counts[c]
        if gap > 0:
            if counts[c] == 0 and not fill:
                continue
            wish = alpha * (counts[c] if counts[c] > 0 else target[c])
            gain[c] = gap * unit if wish >= gap else np.int64(wish * unit)
            gained += gain[c]
        elif gap < 0:
            over += 1
            held += counts[c]
    index, threshold = np.empty(over, np.int64), np.empty(over)
    k = 0
    for c in range(cells):
        if counts[c] > target[c]:
            index[k], threshold[k] = c, (counts[c] - target[c]) / counts[c]
            k += 1
    need, beta = gained / unit, 1.0
    for rank in np.argsort(threshold, kind="mergesort"):
        if need <= threshold[rank] * held:
            beta = need / held
            break
        full = index[rank]
        need -= counts[full] - target[full]
        held -= counts[full]
    lost = np.int64(0)
    for cell in index:
        loss[cell] = min((counts[cell] - target[cell]) * unit, np.int64(beta * counts[cell] * unit))
        lost += loss[cell]
    # Rounding beta makes the two sums differ by a few units: correct the difference where the bounds allow.
    for cell in index:
        change = min(max(gained - lost, -loss[cell]), (counts[cell] - target[cell]) * unit - loss[cell])
        loss[cell] += change
        lost += change
    return gain, loss


@kernel(cache=True, nogil=True)
def round_to_records(parts: Array, shift: int) -> Array:
    """Round units to records by systematic sampling: unbiased floor or ceiling; equal sum and shift give equal sums."""
    rounded = np.empty(len(parts), np.int64)
    seen = shift
    for c in range(len(parts)):
        rounded[c] = ((seen + parts[c]) >> UNIT_BITS) - (seen >> UNIT_BITS)
        seen += parts[c]
    return rounded


@kernel(cache=True, nogil=True)
def update_rows(
    rows: Array,
    column: Array,
    stride: Array,
    target: Array,
    alpha: float,
    share: float,
    state: Array,
    fill: bool = True,
) -> int:
    """Update the rows by one gradual step towards one marginal and return the number of changed rows.

    Victims are sampled uniformly from over-counted cells. A `share` of each cell's gain are duplicates: copies of whole
    records of that cell, each used once; other victims have the marginal's attributes replaced. Victims are in
    over-counted and sources in under-counted cells, so no source is overwritten.
    """
    n = rows.shape[0]
    code = np.empty(n, np.int64)
    counts = np.zeros(len(target), np.int64)
    for i in range(n):
        cell = 0
        for q in range(len(column)):
            cell += rows[i, column[q]] * stride[q]
        code[i] = cell
        counts[cell] += 1
    gain, loss = compute_moves(counts, target, alpha, fill)
    shift = draw_bits(state) >> (32 - UNIT_BITS)
    gain, loss = round_to_records(gain, shift), round_to_records(loss, shift)
    copies = round_to_records(gain * np.int64(share * (1 << UNIT_BITS)), draw_bits(state) >> (32 - UNIT_BITS))
    moved, copied = 0, 0
    for c in range(len(target)):
        copies[c] = min(copies[c], counts[c])
        moved += gain[c]
        copied += copies[c]
    victims, sources = np.empty(moved, np.int64), np.empty(copied, np.int64)
    v, s = 0, 0
    for i in range(n):
        c = code[i]
        need = loss[c] + copies[c]
        if need > 0:
            if draw_below(state, counts[c]) < need:
                if loss[c] > 0:
                    victims[v] = i
                    loss[c] -= 1
                    v += 1
                else:
                    sources[s] = i
                    copies[c] -= 1
                    gain[c] -= 1
                    s += 1
            counts[c] -= 1
    for i in range(moved - 1, 0, -1):
        j = draw_below(state, i + 1)
        victims[i], victims[j] = victims[j], victims[i]
    for k in range(copied):
        rows[victims[k]] = rows[sources[k]]
    k = copied
    for c in range(len(target)):
        for _ in range(gain[c]):
            rest = c
            for q in range(len(column)):
                rows[victims[k], column[q]] = rest // stride[q]
                rest %= stride[q]
            k += 1
    return moved


@kernel(cache=True, nogil=True)
def sweep_rows(rows: Array, views: Views, gap: Array, state: Array) -> int:
    """Propose one new value for every attribute of every row and return the number of accepted proposals.

    `gap[:, 0]` is the current minus the target count of every cell of every table, updated in place; `gap[:, 1]` is its
    weight. A proposal is drawn from the target conditional of a random view and accepted if it reduces the weighted sum
    of squared gaps over all tables that contain the attribute: a Replace that never increases the overall error.
    """
    half, one = np.float32(0.5), np.float32(1)
    n, d = rows.shape
    taken = 0
    widest = 0
    for j in range(d):
        widest = max(widest, views.first[j + 1] - views.first[j])
    base = np.empty(widest, np.int32)
    for low in range(0, n, CHUNK):
        for j in range(d):
            first, end = views.first[j], views.first[j + 1]
            if first == end:
                continue
            last = views.sizes[j] - 1
            for i in range(low, min(low + CHUNK, n)):
                e = first + draw_below(state, end - first)
                row = views.row[e]
                for q in range(views.other[e], views.other[e + 1]):
                    row += rows[i, views.column[q]] * views.row_stride[q]
                u = np.float32(draw_bits(state) * 2.0**-32) * views.cumulative[row + last]
                below_v, above_v = 0, last
                while below_v < above_v:
                    middle = (below_v + above_v) >> 1
                    if views.cumulative[row + middle] <= u:
                        below_v = middle + 1
                    else:
                        above_v = middle
                old, new = np.int32(rows[i, j]), np.int32(below_v)
                if new == old:
                    continue
                rise = np.float32(0)
                for e in range(first, end):
                    o = views.other[e]
                    cell = views.cell[e] + rows[i, views.column[o]] * views.stride[o]
                    for q in range(o + 1, views.other[e + 1]):
                        cell += rows[i, views.column[q]] * views.stride[q]
                    base[e - first] = cell
                    a, b = cell + old * views.own[e], cell + new * views.own[e]
                    rise += (gap[b, 0] + half) * gap[b, 1] - (gap[a, 0] - half) * gap[a, 1]
                if rise < 0:
                    for e in range(first, end):
                        gap[base[e - first] + old * views.own[e], 0] -= one
                        gap[base[e - first] + new * views.own[e], 0] += one
                    rows[i, j] = new
                    taken += 1
    return taken
