"""Maximum spanning trees of a weight matrix or of scored attribute pairs."""

from collections.abc import Mapping

import numpy as np

from weft.marginals.domain import Clique
from weft.marginals.marginal import Array


def spanning_forest(weights: Array) -> tuple[list[int], list[int]]:
    """Return visiting order and parents (-1: none) of a maximum spanning forest (Prim from node 0; -inf: no edge)."""
    waiting = np.arange(len(weights))
    best, nearest = np.full(len(weights), -np.inf), np.full(len(weights), -1)
    reached: list[int] = []
    while waiting.size:
        at = int(np.argmax(best[waiting]))
        i = int(waiting[at])
        waiting = np.delete(waiting, at)
        reached.append(i)
        closer = waiting[weights[i, waiting] > best[waiting]]
        best[closer], nearest[closer] = weights[i, closer], i
    return reached, nearest.tolist()


def spanning_tree(weights: Mapping[Clique, float]) -> list[Clique]:
    """Return the pairs of a maximum spanning tree (or forest), heaviest first, ties in order of names.

    >>> spanning_tree({("a", "b"): 3.0, ("b", "c"): 1.0, ("a", "c"): 2.0})
    [('a', 'b'), ('a', 'c')]
    """
    ranked = sorted(weights, key=lambda pair: (-weights[pair], pair))
    at = {name: i for i, name in enumerate(sorted({name for pair in weights for name in pair}))}
    ranks = np.full((len(at), len(at)), -np.inf)
    for rank, (a, b) in enumerate(ranked):
        ranks[at[a], at[b]] = ranks[at[b], at[a]] = -rank
    _, parents = spanning_forest(ranks)
    edges = {frozenset((child, parent)) for child, parent in enumerate(parents)}
    return [(a, b) for a, b in ranked if frozenset((at[a], at[b])) in edges]
