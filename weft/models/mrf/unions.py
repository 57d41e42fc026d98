"""Which unions to go through when one large table is summed down to many small ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from weft.marginals.marginal import Array


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def merges(member: Array, count: int, logs: Array) -> Any:
    """Greedy unions. Returns rows (a, b, the node that stands for both from now on: a, b, or a new one)."""
    width = len(logs)
    full = logs.sum()
    alive = np.zeros(2 * count, np.bool_)
    alive[:count] = True
    size = np.zeros(2 * count)
    for a in range(count):
        for v in range(width):
            if member[a, v]:
                size[a] += logs[v]
    best = np.full(2 * count, np.inf)
    mate = np.full(2 * count, -1)
    found = np.empty((count, 3), np.int64)
    made, nodes = 0, count
    for a in range(count):
        for b in range(a):
            union = _union(member, a, b, logs)
            if union < best[a]:
                best[a], mate[a] = union, b
    while True:
        a = -1
        for k in range(nodes):
            if alive[k] and mate[k] >= 0 and (a < 0 or best[k] < best[a]):
                a = k
        if a < 0:
            break
        b = mate[a]
        # A union must be under half the clique; a table inside another one always hangs below it.
        if best[a] > full - 1.0 + 1e-9 and best[a] > max(size[a], size[b]) + 1e-9:
            best[a] = np.inf
            mate[a] = -1
            for k in range(a):
                if alive[k]:
                    union = _union(member, a, k, logs)
                    if union <= max(size[a], size[k]) + 1e-9 and union < best[a]:
                        best[a], mate[a] = union, k
            if mate[a] < 0:
                continue
            b = mate[a]
        if best[a] <= size[a] + 1e-9 and _within(member, b, a):
            new = a
        elif best[a] <= size[b] + 1e-9 and _within(member, a, b):
            new = b
        else:
            new = nodes
            nodes += 1
            for v in range(width):
                member[new, v] = member[a, v] or member[b, v]
            size[new] = best[a]
            alive[new] = True
        found[made] = (a, b, new)
        made += 1
        for k in (a, b):
            if k != new:
                alive[k] = False
        # Whoever had lost its mate looks again among the living before it; the new one looks at all.
        for k in range(nodes):
            if alive[k] and (k == new or (mate[k] >= 0 and not alive[mate[k]])):
                best[k], mate[k] = np.inf, -1
                for j in range(k):
                    if alive[j]:
                        union = _union(member, k, j, logs)
                        if union < best[k]:
                            best[k], mate[k] = union, j
    return found[:made]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _union(member: Array, a: int, b: int, logs: Array) -> Any:
    total = 0.0
    for v in range(len(logs)):
        if member[a, v] or member[b, v]:
            total += logs[v]
    return total


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _within(member: Array, a: int, b: int) -> Any:
    return not np.any(member[a] & ~member[b])
