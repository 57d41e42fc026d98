"""Greedy elimination of a graph's vertices, as one kernel: cheap enough to try for every candidate clique."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from weft.marginals.marginal import Array


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _score(graph: Array, alive: Array, logs: Array, v: int, rule: int) -> Any:
    # Cost of eliminating v. Ties between equal fills go to the smaller clique through the small second term.
    d = len(logs)
    weight = logs[v]
    fill = 0.0
    for a in range(d):
        if a == v or not alive[a] or not graph[v, a]:
            continue
        weight += logs[a]
        if rule > 0:
            for b in range(a + 1, d):
                if b != v and alive[b] and graph[v, b] and not graph[a, b]:
                    fill += logs[a] + logs[b] if rule == 1 else 1.0
    return weight if rule == 0 else fill + 1e-6 * weight


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def triangulate(start: Array, logs: Array, rule: int, limit: float) -> Any:
    """Eliminate greedily. Returns the maximal cliques as rows, log2 of the largest one's cells, and all cells."""
    d = len(logs)
    graph = start.copy()
    alive = np.ones(d, np.bool_)
    score = np.empty(d)
    for v in range(d):
        score[v] = _score(graph, alive, logs, v, rule)
    clusters = np.zeros((d, d), np.bool_)
    touched = np.empty(d, np.bool_)
    largest, total = 0.0, 0.0
    step_of = np.full(d, -1)
    for step in range(d):
        v = -1
        for a in range(d):
            if alive[a] and (v < 0 or score[a] < score[v]):
                v = a
        weight = 0.0
        for a in range(d):
            member = a == v or (alive[a] and graph[v, a])
            clusters[step, a] = member
            if member:
                weight += logs[a]
        if weight > limit:
            return clusters, weight, np.inf
        largest = max(largest, weight)
        alive[v] = False
        step_of[v] = step
        touched[:] = False
        filled = False
        for a in range(d):
            if alive[a] and clusters[step, a]:
                touched[a] = True
                for b in range(d):
                    if b != a and alive[b] and clusters[step, b] and not graph[a, b]:
                        graph[a, b] = True
                        graph[b, a] = True
                        filled = True
        if rule > 0 and filled:
            # A new edge changes the fill of whoever sees both its ends: neighbours of the eliminated one's neighbours.
            for a in range(d):
                if alive[a] and clusters[step, a]:
                    for b in range(d):
                        if alive[b] and graph[a, b]:
                            touched[b] = True
        for a in range(d):
            if touched[a]:
                score[a] = _score(graph, alive, logs, a, rule)
    # A cluster without its first vertex lies in the cluster of the next one eliminated; it equals it exactly when
    # both have the same size, and then the later one is not maximal.
    keep = np.ones(d, np.bool_)
    for step in range(d):
        size, after = 0, d
        for a in range(d):
            if clusters[step, a]:
                size += 1
                if step_of[a] > step:
                    after = min(after, step_of[a])
        if after < d and clusters[after].sum() == size - 1:
            keep[after] = False
    for step in range(d):
        if keep[step]:
            weight = 0.0
            for a in range(d):
                if clusters[step, a]:
                    weight += logs[a]
            total += 2.0**weight
        else:
            clusters[step] = False
    return clusters, largest, total
