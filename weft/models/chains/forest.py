"""Where chains start: an exact draw from the best spanning forest of the tables' pairs, and its clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from weft.marginals.domain import Clique, Domain, clique
from weft.marginals.marginal import Array, project
from weft.marginals.spanning import spanning_tree


@dataclass(frozen=True)
class Forest:
    """A forest over all attributes with the distribution of each given its parent."""

    order: Array
    """Attributes, parents before children."""
    parent: Array
    """Parent of each attribute, -1 for none."""
    start: Array
    """Where the rows of each attribute begin."""
    cumulative: Array
    """Rows of cumulative probabilities: one for each value of the parent."""
    log_given: Array
    """The same rows as logarithms of probabilities."""
    edges: tuple[Clique, ...]
    """Pairs of the forest."""
    ties: Array
    """Of each attribute: mutual information with its parent over the smaller of their entropies, 0 for a root."""

    def clusters(self, threshold: float) -> list[Array]:
        """Return the groups of attributes that hang together by ties above the threshold, parents first."""
        group = np.arange(self.parent.size)
        for j in self.order:
            if self.parent[j] >= 0 and self.ties[j] > threshold:
                group[j] = group[self.parent[j]]
        found = [np.array([j for j in self.order if group[j] == g], np.int64) for g in np.unique(group)]
        return [cluster for cluster in found if cluster.size > 1]


def forest(domain: Domain, cliques: Sequence[Clique], tables: Sequence[Array], least: float = 0.0) -> Forest:
    """Return the maximum spanning forest by mutual information over the pairs that lie in some table.

    `tables` are probabilities that agree with each other. A pair in several tables is read from the smallest;
    pairs with mutual information of at most `least` nats are left out. An attribute in no table is uniform.
    """
    ones, pairs = _inside(cliques, tables)
    single = [ones.get(name, np.full(domain.size(name), 1 / domain.size(name))) for name in domain]
    information = {pair: _information(table) for pair, table in pairs.items()}
    # The attribute with most entropy first, so that a cluster hangs on the one that tells most.
    entropy = [_entropy(p) for p in single]
    tree = spanning_tree({pair: bits for pair, bits in information.items() if bits > least})
    order, parent = _rooted(domain, tree, np.argsort(-np.array(entropy), kind="stable").tolist())

    start, rows, ties, at = [], [], np.zeros(len(domain)), 0
    edges = []
    for j, name in enumerate(domain):
        table = single[j][None, :]
        if parent[j] >= 0:
            above = domain.names[parent[j]]
            edge = clique((above, name))
            edges.append(edge)
            table = pairs[edge] if edge == (above, name) else pairs[edge].T
            # A value of the parent that the pair's table never shows falls back on the attribute alone.
            seen = table.sum(axis=1, keepdims=True)
            table = np.where(seen > 0, table / np.maximum(seen, 1e-300), single[j][None, :])
            ties[j] = information[edge] / max(min(entropy[j], entropy[parent[j]]), 1e-12)
        start.append(at)
        rows.append(table)
        at += table.size
    cumulative = [np.cumsum(row, axis=1) for row in rows]
    return Forest(
        np.array(order, np.int64),
        parent.astype(np.int64),
        np.array(start, np.int64),
        np.concatenate([(c / c[:, -1:]).ravel() for c in cumulative]),
        np.concatenate([_log(row).ravel() for row in rows]),
        tuple(edges),
        ties,
    )


def _inside(cliques: Sequence[Clique], tables: Sequence[Array]) -> tuple[dict[str, Array], dict[Clique, Array]]:
    """Return the attributes' and the pairs' own tables, each read from the smallest table that holds it."""
    ones: dict[str, Array] = {}
    pairs: dict[Clique, Array] = {}
    for c in sorted(range(len(cliques)), key=lambda c: tables[c].size):
        for name in cliques[c]:
            if name not in ones:
                ones[name] = _proper(project(tables[c], cliques[c], (name,)))
        for pair in combinations(cliques[c], 2):
            if pair not in pairs:
                pairs[pair] = _proper(project(tables[c], cliques[c], pair))
    return ones, pairs


def _rooted(domain: Domain, edges: Sequence[Clique], roots: Sequence[int]) -> tuple[list[int], Array]:
    """Return the attributes of a forest, parents before children, and each one's parent; trees hang on early roots."""
    near: list[list[int]] = [[] for _ in domain]
    for a, b in edges:
        i, j = domain.index(a), domain.index(b)
        near[i].append(j)
        near[j].append(i)
    order: list[int] = []
    parent = np.full(len(domain), -1)
    for root in roots:
        queue = [] if root in order else [root]
        while queue:
            j = queue.pop(0)
            order.append(j)
            for child in near[j]:
                if child not in order and child not in queue:
                    parent[child] = j
                    queue.append(child)
    return order, parent


def _proper(table: Array) -> Array:
    table = np.maximum(np.asarray(table, np.float64), 0.0)
    total = table.sum()
    return table / total if total > 0 else np.full(table.shape, 1 / table.size)


def _log(p: Array) -> Array:
    return np.log(p, where=p > 0, out=np.full(p.shape, -np.inf))


def _entropy(p: Array) -> float:
    positive = p[p > 0]
    return float(-(positive * np.log(positive)).sum())


def _information(table: Array) -> float:
    return _entropy(table.sum(axis=1)) + _entropy(table.sum(axis=0)) - _entropy(table)
