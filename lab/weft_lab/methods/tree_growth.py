"""Grow junction trees greedily from ranked cliques, within limits on cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from weft.marginals.domain import Clique, Domain
from weft.models.mrf import MAX_CELLS, MAX_TOTAL, JunctionTree, junction_tree
from weft.models.mrf.junction_tree import RULES, build_adjacency, compute_log_sizes, is_within_limits


def fits_with_clique(
    tree: JunctionTree, added: Sequence[str], *, max_cells: int = MAX_CELLS, max_total: int = MAX_TOTAL
) -> bool:
    """Return whether a tree of `tree.given` and one more clique stays within the limits.

    Exact for the rules of `junction_tree`; takes tens of microseconds for 30 attributes and milliseconds for 130.
    """
    at = [tree.domain.index(name) for name in added]
    if tree.graph[np.ix_(at, at)].all():
        return tree.cells <= max_total and max(tree.sizes) <= max_cells
    # A clique that the tree contains only by fill edges still changes the graph, and with it the greedy order.
    if tree.domain.cells(added) > max_cells:
        return False
    graph = tree.graph.copy()
    graph[np.ix_(at, at)] = True
    logs = compute_log_sizes(tree.domain)
    return any(is_within_limits(graph, logs, rule, max_cells, max_total) for rule in RULES.values())


def grow_tree(
    domain: Domain, ranked: Iterable[Clique], *, max_cells: int = MAX_CELLS, max_total: int = MAX_TOTAL
) -> JunctionTree:
    """Build a tree greedily from the cliques, in the order given, that fit the limits.

    A rejected clique is never retried: later cliques free no cells. An attribute above `max_cells` remains alone.
    """
    graph, logs, rules = build_adjacency(domain, []), compute_log_sizes(domain), list(RULES.values())
    kept: list[Clique] = []
    for c in ranked:
        members = [domain.index(name) for name in c]
        at = np.ix_(members, members)
        if kept and graph[at].all():
            kept.append(c)
            continue
        if domain.cells(c) > max_cells:
            continue
        wider = graph.copy()
        wider[at] = True
        fitting = next((rule for rule in rules if is_within_limits(wider, logs, rule, max_cells, max_total)), None)
        if fitting is not None:
            rules.remove(fitting)  # try the last successful rule first
            rules.insert(0, fitting)
            graph = wider
            kept.append(c)
    if not kept:
        return junction_tree(domain, [], max_cells=max(domain.shape), max_total=sum(domain.shape))
    return junction_tree(domain, kept, max_cells=max_cells, max_total=max_total)
