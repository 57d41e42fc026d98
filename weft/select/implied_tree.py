"""The spanning tree that implies most of what is known of all pairs, not only of its own.

A maximum spanning tree looks at its edges alone. Where many trees are nearly as heavy, they differ in what they imply
for the pairs between: along a chain dependence multiplies. For two-valued columns the correlations of a Markov chain
do so exactly, and a pair's distance from independence is its correlation times a number that the columns tell. For
columns of a few values this is a good guess; for wide ones, which may copy each other at many levels, it is not, so
edges between those stay as the maximum spanning tree has them. Works on noisy distances: costs no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.marginals.domain import Clique
from weft.marginals.marginal import Array
from weft.marginals.spanning import spanning_tree

_GAIN = 1e-3
"""A swap must lower the error by this part."""


def implied_tree(
    gaps: Mapping[Clique, float], columns: Mapping[str, Array], *, keep: float = 0.85, widest: int = 20
) -> list[Clique]:
    """Return a spanning tree whose implied distances of all pairs are close to `gaps`, heaviest edge first.

    `gaps` are L1 distances from independence in counts, `columns` the one-way tables of one total. From the maximum
    spanning tree on, an edge is swapped for another that closes the same cycle, if that has at least the part `keep`
    of its distance and columns of at most `widest` values, and the sum over all pairs of |implied - known| falls.
    """
    tree = spanning_tree(gaps)
    names = sorted(columns)
    at = {name: i for i, name in enumerate(names)}
    if len(tree) < max(len(names) - 1, 2):  # a forest, or nothing to swap
        return tree
    known = np.zeros((len(names), len(names)))
    for (a, b), gap in gaps.items():
        known[at[a], at[b]] = known[at[b], at[a]] = max(gap, 0.0)
    search = _Search(known, _farthest([columns[name] for name in names]), [(at[a], at[b]) for a, b in tree])
    narrow = [i for i, name in enumerate(names) if columns[name].size <= widest]
    offers = [(a, b) for k, a in enumerate(narrow) for b in narrow[k + 1 :]]
    offers = sorted(offers, key=lambda edge: -known[edge])[: 5 * len(names)]
    for _ in range(len(names)):
        if not sum(search.offer(edge, keep) for edge in offers):
            break
    found = [(names[min(edge)], names[max(edge)]) for edge in search.edges]
    return sorted(found, key=lambda pair: (-gaps[pair], pair))


def _farthest(tables: list[Array]) -> Array:
    """Give the distance that a correlation of 1 would mean: for two values 4 n sqrt(p(1-p) q(1-q))."""
    total = max(float(tables[0].sum()), 1.0)
    unlike = np.array([1.0 - ((table / total) ** 2).sum() for table in tables])
    return np.asarray(2 * total * np.sqrt(np.maximum(np.outer(unlike, unlike), 1e-18)))


class _Search:
    """A tree under way, with the correlation that it implies for every pair."""

    def __init__(self, known: Array, farthest: Array, edges: list[tuple[int, int]]) -> None:
        self.known, self.farthest = known, farthest
        self.direct = np.minimum(known / farthest, 1.0)
        self.edges = edges
        self._settle()

    def _settle(self) -> None:
        d = len(self.known)
        self.near: list[list[int]] = [[] for _ in range(d)]
        for a, b in self.edges:
            self.near[a].append(b)
            self.near[b].append(a)
        self.implied = np.eye(d)
        placed = [0]
        for u in placed:  # grows while it is read: parents before children
            for v in self.near[u]:
                if v not in placed:
                    self.implied[v, placed] = self.implied[placed, v] = self.implied[u, placed] * self.direct[u, v]
                    placed.append(v)
        self.error = float(np.abs(self.known - self.farthest * self.implied).sum()) / 2

    def offer(self, edge: tuple[int, int], keep: float) -> bool:
        """Swap the best edge of the cycle for this one, if that lowers the error; tell whether it did."""
        a, b = edge
        path, hangs = self._path(a, b)
        if len(path) < 3:
            return False
        best, gain = 0, _GAIN * self.error
        for k in range(1, len(path)):
            if self.known[edge] < keep * self.known[path[k - 1], path[k]]:
                continue
            here, there = np.flatnonzero(hangs < k), np.flatnonzero(hangs >= k)
            block = np.ix_(here, there)
            anew = np.outer(self.implied[here, a], self.implied[b, there]) * self.direct[edge]
            before = np.abs(self.known[block] - self.farthest[block] * self.implied[block]).sum()
            lower = before - np.abs(self.known[block] - self.farthest[block] * anew).sum()
            if lower > gain:
                best, gain = k, lower
        if best:
            old = {path[best - 1], path[best]}
            self.edges = [*(pair for pair in self.edges if set(pair) != old), edge]
            self._settle()
        return best > 0

    def _path(self, a: int, b: int) -> tuple[list[int], Array]:
        """Return the way from a to b, and for each attribute at which place of the way it hangs."""
        above = {a: a}
        order = [a]
        for u in order:
            for v in self.near[u]:
                if v not in above:
                    above[v] = u
                    order.append(v)
        path = [b]
        while path[-1] != a:
            path.append(above[path[-1]])
        path.reverse()
        hangs = np.zeros(len(self.near), np.int64)
        place = {name: k for k, name in enumerate(path)}
        for u in order:
            hangs[u] = place[u] if u in place else hangs[above[u]]
        return path, hangs
