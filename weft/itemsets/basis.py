"""A basis set (PrivBasis; Li, Qardaji, Su, Cao; PVLDB 2012): few sets of items that hold all item sets of interest.

Every frequent set is a clique in the graph of frequent pairs, so that its largest cliques hold them all. A clique that
is too large for one table is covered by tables that have every three of its items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.marginals.domain import Domain
from weft.select.views import covering_views

LONGEST = 8
"""Items of a basis: its table has 2 to that power cells."""

MOST_CLIQUES = 20_000
"""Cliques after which no more are looked for."""


def maximal_cliques(neighbours: Mapping[int, frozenset[int]], most: int = MOST_CLIQUES) -> list[frozenset[int]]:
    """Return the largest sets of nodes that are all neighbours of each other (Bron and Kerbosch, with pivots).

    >>> graph = {0: frozenset({1, 2}), 1: frozenset({0, 2}), 2: frozenset({0, 1, 3}), 3: frozenset({2})}
    >>> sorted(map(sorted, maximal_cliques(graph)))
    [[0, 1, 2], [2, 3]]
    """
    found: list[frozenset[int]] = []
    waiting = [(frozenset[int](), frozenset(neighbours), frozenset[int]())]
    while waiting and len(found) < most:
        clique, possible, done = waiting.pop()
        if not possible and not done:
            found.append(clique)
            continue
        if not possible:
            continue
        pivot = max(possible | done, key=lambda node: len(neighbours[node] & possible))
        for node in sorted(possible - neighbours[pivot]):
            waiting.append((clique | {node}, possible & neighbours[node], done & neighbours[node]))
            possible -= {node}
            done |= {node}
    return found


def bases(pairs: np.ndarray, least: float, most: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Return sets of three items or more that hold every clique of pairs that are frequent enough, at most so many.

    `pairs` are noisy counts of pairs of items, in the upper part of a matrix. Where there are too many, those are kept
    whose rarest pairs are the most frequent.
    """
    n = len(pairs)
    both = pairs + pairs.T
    neighbours = {i: frozenset(j for j in range(n) if j != i and both[i, j] >= least) for i in range(n)}
    cliques = [sorted(c) for c in maximal_cliques(neighbours) if len(c) > 2]
    made: dict[tuple[int, ...], float] = {}
    for clique in cliques:
        for basis in _split(clique, rng):
            inside = both[np.ix_(basis, basis)][np.triu_indices(len(basis), 1)]
            made[tuple(basis)] = float(np.sort(inside)[-3:].min())
    ranked = sorted(made, key=lambda basis: (-made[basis], basis))
    return ranked[:most]


def _split(clique: Sequence[int], rng: np.random.Generator) -> list[list[int]]:
    if len(clique) <= LONGEST:
        return [list(clique)]
    names = {f"{node:06}": node for node in clique}
    views = covering_views(Domain(tuple(names), (2,) * len(names)), 3, 1 << LONGEST, rng, restarts=1)
    return [[names[name] for name in view] for view in views]
