"""Kernels of the chains: records moved one attribute, or one cluster of attributes, at a time.

All take a block of records (rows of `records`, int32) and a seed, and draw their uniforms from a splitmix64
stream of their own: what comes out depends on the seed of the block only, not on who runs it or when.

A conditional distribution is a product of rows. Every table of potentials has one copy for each of its
attributes, exponentiated, with that attribute last and every row scaled to a largest entry of one; the loop over
values is then a plain multiplication of contiguous rows, without exponentials. See `weft.models.chains.layout`.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX1 = np.uint64(0xBF58476D1CE4E5B9)
MIX2 = np.uint64(0x94D049BB133111EB)
UNIT = 2.0**-53

_SMALL = np.float32(1e-30)
"""Below this sum a product of float32 rows has lost its digits and is taken again in logarithms."""


@njit(cache=True, nogil=True, inline="always")
def uniform(state):  # type: ignore[no-untyped-def]
    """Return the next number in [0, 1) of the splitmix64 stream whose state is state[0]."""
    state[0] += GOLDEN
    z = state[0]
    z = (z ^ (z >> uint64(30))) * MIX1
    z = (z ^ (z >> uint64(27))) * MIX2
    z = z ^ (z >> uint64(31))
    return float(z >> uint64(11)) * UNIT


@njit(cache=True, nogil=True, inline="always")
def pick(w, k, u):  # type: ignore[no-untyped-def]
    """Return the value at which the running sum of w[:k] passes u."""
    v = 0
    acc = w[0]
    while acc <= u and v < k - 1:
        v += 1
        acc += w[v]
    while w[v] == 0 and v > 0:  # rounding must not lead to an impossible value
        v -= 1
    return v


@njit(cache=True, nogil=True, inline="always")
def multiply(w, k, rows, at, m):  # type: ignore[no-untyped-def]
    """Put the product of the m rows of k entries that start at at[0], ..., at[m - 1] into w.

    Long rows are taken four at a time, as slices, so that the loop over values runs in lanes and w is seldom touched.
    """
    if k < 8:
        for v in range(k):
            w[v] = 1.0
        for e in range(m):
            base = at[e]
            for v in range(k):
                w[v] *= rows[base + v]
        return
    e = m % 4
    if e == 0:
        for v in range(k):
            w[v] = 1.0
    elif e == 1:
        a = rows[at[0] : at[0] + k]
        for v in range(k):
            w[v] = a[v]
    elif e == 2:
        a, b = rows[at[0] : at[0] + k], rows[at[1] : at[1] + k]
        for v in range(k):
            w[v] = a[v] * b[v]
    else:
        a, b, c = rows[at[0] : at[0] + k], rows[at[1] : at[1] + k], rows[at[2] : at[2] + k]
        for v in range(k):
            w[v] = a[v] * b[v] * c[v]
    while e < m:
        a, b = rows[at[e] : at[e] + k], rows[at[e + 1] : at[e + 1] + k]
        c, d = rows[at[e + 2] : at[e + 2] + k], rows[at[e + 3] : at[e + 3] + k]
        for v in range(k):
            w[v] *= a[v] * b[v] * (c[v] * d[v])
        e += 4


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def gibbs(records, free, sizes, entry_start, row_start, other_start, other, step, rows, seed):  # type: ignore[no-untyped-def]
    """Redraw every free attribute of every record once from its conditional distribution.

    Entries `entry_start[j]` to `entry_start[j + 1]` are the tables that contain attribute j. The row of entry e
    starts at row_start[e] + sum of the record's values of `other` times `step`, over other_start[e] to
    other_start[e + 1].
    """
    state = np.empty(1, np.uint64)
    state[0] = seed
    widest = 1
    for j in range(sizes.size):
        widest = max(widest, sizes[j])
    w = np.empty(widest, np.float32)
    at = np.empty(entry_start[-1], np.int64)
    for j in range(sizes.size):  # one attribute of all records at a time: its tables stay in the cache
        first, last = entry_start[j], entry_start[j + 1]
        if not free[j] or first == last:
            continue
        k = sizes[j]
        for i in range(records.shape[0]):
            for e in range(first, last):
                base = row_start[e]
                for q in range(other_start[e], other_start[e + 1]):
                    base += records[i, other[q]] * step[q]
                at[e - first] = base
            multiply(w, k, rows, at, last - first)
            total = np.float32(0)
            for v in range(k):
                total += w[v]
            if total < _SMALL and not _in_logs(
                records[i], j, k, entry_start, row_start, other_start, other, step, rows, w
            ):
                continue  # every value is impossible beside the others: the record stays
            if total < _SMALL:
                total = np.float32(0)
                for v in range(k):
                    total += w[v]
            records[i, j] = pick(w, k, np.float32(uniform(state)) * total)


@njit(cache=True, nogil=True)
def _in_logs(record, j, k, entry_start, row_start, other_start, other, step, rows, w):  # type: ignore[no-untyped-def]
    """Take the product of rows in logarithms and scale it to a largest entry of one; False if all is zero."""
    logs = np.zeros(k)
    for e in range(entry_start[j], entry_start[j + 1]):
        base = row_start[e]
        for q in range(other_start[e], other_start[e + 1]):
            base += record[other[q]] * step[q]
        for v in range(k):
            logs[v] += np.log(rows[base + v]) if rows[base + v] > 0 else -np.inf
    top = logs.max()
    if top == -np.inf:
        return False
    for v in range(k):
        w[v] = np.exp(logs[v] - top)
    return True


@njit(cache=True, nogil=True, inline="always")
def add(w, k, rows, at, m):  # type: ignore[no-untyped-def]
    """Put the sum of the m rows of k entries that start at at[0], ..., at[m - 1] into w, two at a time."""
    e = m % 2
    if e == 0:
        for v in range(k):
            w[v] = 0.0
    else:
        a = rows[at[0] : at[0] + k]
        for v in range(k):
            w[v] = a[v]
    while e < m:
        a, b = rows[at[e] : at[e] + k], rows[at[e + 1] : at[e + 1] + k]
        for v in range(k):
            w[v] += a[v] + b[v]
        e += 2


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def herd(  # type: ignore[no-untyped-def]
    records, sizes, entry_start, row_start, other_start, other, step, rows, own_step, line_start, line, gap,
    feedback, seed,
):  # fmt: skip
    """Gibbs sweep with negative feedback on `gap`, the excess of records in every measured cell over its target.

    `gap` is kept current while records move and is subtracted, times `feedback`, from the logits: the records
    follow the measured tables far more closely than independent draws would. While an attribute is redrawn, the gaps
    of its tables lie as its rows do: cell v of row r of entry e is line[line_start[e] + r] + own_step[e] v in `gap`.
    """
    state = np.empty(1, np.uint64)
    state[0] = seed
    widest, most = 1, 0
    for j in range(sizes.size):
        widest = max(widest, sizes[j])
        most = max(most, (line_start[entry_start[j + 1]] - line_start[entry_start[j]]) * sizes[j])
    w = np.empty(widest, np.float32)
    excess = np.empty(widest, np.float32)
    near = np.empty(most, np.float32)
    at = np.empty(entry_start[-1], np.int64)
    here = np.empty(entry_start[-1], np.int64)
    for j in range(sizes.size):
        first, last = entry_start[j], entry_start[j + 1]
        if first == last:
            continue
        k = sizes[j]
        start = row_start[first]
        for e in range(first, last):
            for r in range(line_start[e], line_start[e + 1]):
                for v in range(k):
                    near[(r - line_start[first]) * k + v] = gap[line[r] + v * own_step[e]]
        for i in range(records.shape[0]):
            old = records[i, j]
            for e in range(first, last):
                base = row_start[e]
                for q in range(other_start[e], other_start[e + 1]):
                    base += records[i, other[q]] * step[q]
                at[e - first] = base
                here[e - first] = base - start
            multiply(w, k, rows, at, last - first)
            add(excess, k, near, here, last - first)
            excess[old] -= last - first  # the record is out of its own cells while it is redrawn
            least = excess[0]
            for v in range(1, k):
                least = min(least, excess[v])
            total = np.float32(0)
            for v in range(k):
                if w[v] > 0:
                    w[v] *= np.exp(feedback * (least - excess[v]))
                total += w[v]
            if total < _SMALL:
                continue
            new = pick(w, k, np.float32(uniform(state)) * total)
            if new != old:
                records[i, j] = new
                for e in range(last - first):
                    near[here[e] + old] -= 1
                    near[here[e] + new] += 1
        for e in range(first, last):
            for r in range(line_start[e], line_start[e + 1]):
                for v in range(k):
                    gap[line[r] + v * own_step[e]] = near[(r - line_start[first]) * k + v]


@njit(cache=True, nogil=True)
def grow(records, order, parent, sizes, start, cumulative, seed):  # type: ignore[no-untyped-def]
    """Draw every record from a forest: attributes in `order`, each given its parent (-1: none).

    The cumulative distribution of attribute j given value p of its parent is the row of sizes[j] cells at
    start[j] + p sizes[j].
    """
    state = np.empty(1, np.uint64)
    state[0] = seed
    for i in range(records.shape[0]):
        for j in order:
            at = start[j]
            if parent[j] >= 0:
                at += records[i, parent[j]] * sizes[j]
            records[i, j] = _search(cumulative, at, sizes[j], uniform(state))


@njit(cache=True, nogil=True, inline="always")
def _search(cumulative, at, k, u):  # type: ignore[no-untyped-def]
    low, high = 0, k - 1
    while low < high:
        middle = (low + high) >> 1
        if cumulative[at + middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def redraw_cluster(  # type: ignore[no-untyped-def]
    records, order, parent, sizes, start, cumulative, log_given, cliques, member_start, member, member_step,
    cell_start, potentials, seed,
):  # fmt: skip
    """Offer every record a new draw of one cluster (attributes `order`) from the forest, by Metropolis-Hastings.

    Near copies of each other cannot move one at a time. Here they move together: the draw follows the forest,
    and is accepted with the ratio of what the model and the forest say of old and new, so the model stays the
    stationary law. `cliques` are the tables that touch the cluster. Returns how many records moved.
    """
    state = np.empty(1, np.uint64)
    state[0] = seed
    new = np.empty(records.shape[1], records.dtype)
    moved = 0
    for i in range(records.shape[0]):
        old = records[i]
        for j in range(new.size):
            new[j] = old[j]
        ratio = 0.0
        for j in order:
            at_new = start[j]
            at_old = start[j]
            if parent[j] >= 0:
                at_new += new[parent[j]] * sizes[j]
                at_old += old[parent[j]] * sizes[j]
            new[j] = _search(cumulative, at_new, sizes[j], uniform(state))
            ratio += log_given[at_old + old[j]] - log_given[at_new + new[j]]
        for c in cliques:
            here = cell_start[c]
            there = cell_start[c]
            for q in range(member_start[c], member_start[c + 1]):
                here += old[member[q]] * member_step[q]
                there += new[member[q]] * member_step[q]
            ratio += potentials[there] - potentials[here]
        if np.log(uniform(state) + 1e-300) < ratio:
            moved += 1
            for j in order:
                old[j] = new[j]
    return moved
