"""Junction trees: triangulate the graph of some cliques, check the size, and join the maximal cliques into a tree.

Greedy elimination (Rose; Kjaerulff): remove the vertex of lowest cost, connect its neighbours, repeat. No cost is best
for all graphs, so several are tried and the smallest tree is used. The maximal cliques are linked by a maximum-weight
spanning tree. A tree with v in n_v cliques has at most n_v - 1 edges whose separator contains v, with equality for
every v exactly if the running-intersection property holds; so any positive weight per attribute gives a junction tree.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from weft.errors import WeftError
from weft.kernels import kernel
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array
from weft.marginals.spanning_tree import spanning_forest


@kernel(cache=True, nogil=True)
def _score_vertex(graph: Array, alive: Array, logs: Array, v: int, rule: int) -> Any:
    # Cost of eliminating v; the small second term breaks ties between equal fills in favour of the smaller clique.
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


@kernel(cache=True, nogil=True)
def triangulate(start: Array, logs: Array, rule: int, limit: float) -> Any:
    """Eliminate greedily; return the maximal cliques as rows, log2 of the largest one's cells, and the total cells."""
    d = len(logs)
    graph = start.copy()
    alive = np.ones(d, np.bool_)
    score = np.empty(d)
    for v in range(d):
        score[v] = _score_vertex(graph, alive, logs, v, rule)
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
            # A new edge changes the fill of vertices adjacent to both ends: neighbours of v's neighbours.
            for a in range(d):
                if alive[a] and clusters[step, a]:
                    for b in range(d):
                        if alive[b] and graph[a, b]:
                            touched[b] = True
        for a in range(d):
            if touched[a]:
                score[a] = _score_vertex(graph, alive, logs, a, rule)
    # A cluster minus its eliminated vertex is contained in the cluster of its next eliminated vertex. If both have the
    # same size they are equal, and the later cluster is not maximal.
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


Order = Literal["best", "min-weight", "min-fill", "weighted-fill"]

RULES: dict[str, int] = {"min-weight": 0, "weighted-fill": 1, "min-fill": 2}
"""Elimination costs: cells of the new clique; log-cells of fill edges; number of fill edges."""

MAX_CELLS = 1 << 22
"""Default maximum number of cells of one clique (32 MiB of counts)."""

MAX_TOTAL = 1 << 24
"""Default maximum number of cells of a whole tree (128 MiB of counts)."""

_NAMED = 8  # maximum number of a clique's attributes that a message lists


class ModelTooLarge(WeftError):  # noqa: N818 - reads as what happened
    """A junction tree, or a marginal computed from it, exceeds the memory limit; raised before allocation."""

    exit_code = 8


@dataclass(frozen=True)
class JunctionTree:
    """Forest of cliques with the running-intersection property, parents before children.

    >>> tree = junction_tree(Domain.of({"a": 2, "b": 3, "c": 4, "d": 5}), [("a", "b"), ("b", "c")])
    >>> tree.cliques, tree.separators
    ((('b', 'c'), ('a', 'b'), ('d',)), ((), ('b',), ()))
    >>> tree.cells
    23
    """

    domain: Domain
    given: tuple[Clique, ...]
    """Cliques that the tree must contain."""
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]
    """Index of each clique's parent; -1 for the root of a component."""
    separators: tuple[Clique, ...]
    """Intersection of each clique with its parent; empty for a root."""

    @cached_property
    def order(self) -> tuple[str, ...]:
        """All attributes by first appearance: the separator of a clique precedes its other attributes."""
        return tuple(dict.fromkeys(name for s, c in zip(self.separators, self.cliques, strict=True) for name in s + c))

    @cached_property
    def rank(self) -> dict[str, int]:
        """Position of each attribute in `order`."""
        return {name: i for i, name in enumerate(self.order)}

    @cached_property
    def axes(self) -> tuple[Clique, ...]:
        """Attributes of each clique in tree order; the separator is a prefix."""
        return tuple(tuple(sorted(c, key=self.rank.__getitem__)) for c in self.cliques)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Indices of each clique's children."""
        found: list[list[int]] = [[] for _ in self.cliques]
        for i, parent in enumerate(self.parents):
            if parent >= 0:
                found[parent].append(i)
        return tuple(map(tuple, found))

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Pairs (parent, child)."""
        return tuple((parent, i) for i, parent in enumerate(self.parents) if parent >= 0)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each clique."""
        return tuple(self.domain.cells(c) for c in self.cliques)

    @property
    def cells(self) -> int:
        """Total number of cells of all cliques."""
        return sum(self.sizes)

    @property
    def bytes(self) -> int:
        """Approximate upper bound on the memory of inference, in bytes: one float per cell and two for shared sums."""
        return 24 * self.cells

    @cached_property
    def _bits(self) -> dict[str, int]:
        return {name: 1 << i for i, name in enumerate(self.domain.names)}

    @cached_property
    def _by_size(self) -> list[tuple[int, int]]:
        ranked = sorted(range(len(self.cliques)), key=self.sizes.__getitem__)
        return [(self._mask(self.cliques[i]), i) for i in ranked]

    def _mask(self, names: Iterable[str]) -> int:
        return sum(self._bits[name] for name in set(names))

    def home(self, names: Iterable[str]) -> int | None:
        """Return the index of the smallest clique that contains these attributes, or None."""
        mask = self._mask(names)
        return next((i for members, i in self._by_size if mask & members == mask), None)

    def in_order(self, names: Iterable[str]) -> Clique:
        """Return these attributes in tree order."""
        return tuple(sorted(set(names), key=self.rank.__getitem__))

    @cached_property
    def graph(self) -> Array:
        """Adjacency matrix of the attributes under the given cliques."""
        return build_adjacency(self.domain, self.given)

    def summary(self) -> str:
        """Return a one-line description of the tree."""
        largest = max(range(len(self.cliques)), key=self.sizes.__getitem__)
        roots = sum(parent < 0 for parent in self.parents)
        return (
            f"{len(self.cliques)} cliques in {roots} {'part' if roots == 1 else 'parts'}, {self.cells:,} cells, "
            f"largest {self.sizes[largest]:,} over {len(self.cliques[largest])} attributes, "
            f"{self.bytes / 2**20:,.1f} MiB"
        )


def junction_tree(
    domain: Domain,
    cliques: Iterable[Sequence[str]],
    *,
    max_cells: int = MAX_CELLS,
    max_total: int = MAX_TOTAL,
    order: Order = "best",
) -> JunctionTree:
    """Build a junction tree that contains all of these cliques; other attributes are cliques of their own.

    Raises ModelTooLarge, before allocation, if the best tree found exceeds `max_cells` per clique or `max_total`.
    """
    given = tuple(dict.fromkeys(make_clique(c) for c in cliques))
    for c in given:
        for name in c:
            if name not in domain:
                raise ValueError(f"clique {c} names {name!r}, which is not in the domain")
    graph, logs = build_adjacency(domain, given), compute_log_sizes(domain)
    rules = RULES.values() if order == "best" else [RULES[order]]
    tries = [triangulate(graph, logs, rule, np.inf) for rule in rules]
    clusters = min(tries, key=lambda found: (found[1] > _log_with_margin(max_cells), found[2]))[0]
    members = [np.flatnonzero(row) for row in clusters if row.any()]
    found = [tuple(sorted(domain.names[int(j)] for j in row)) for row in members]
    _refuse_large(domain, given, found, max_cells, max_total)
    return _join_cliques(domain, given, found)


def has_tree(domain: Domain, cliques: Iterable[Clique], *, max_cells: int, max_total: int) -> bool:
    """Return whether `junction_tree` succeeds within the limits; much faster if it does not."""
    graph, logs = build_adjacency(domain, cliques), compute_log_sizes(domain)
    return any(is_within_limits(graph, logs, rule, max_cells, max_total) for rule in RULES.values())


def _log_with_margin(cells: float) -> float:
    # Margin, so that rounding in a sum of logarithms does not reject a clique of exactly the limit.
    return math.log2(cells) + 1e-9


def is_within_limits(graph: Array, logs: Array, rule: int, max_cells: int, max_total: int) -> bool:
    """Whether the triangulation of a graph by a rule has no clique, and no total, above the limits."""
    _, largest, total = triangulate(graph, logs, rule, _log_with_margin(max_cells))
    return bool(largest <= _log_with_margin(max_cells) and total <= max_total)


def compute_log_sizes(domain: Domain) -> Array:
    """Return the binary logarithm of each attribute's size."""
    return np.log2(np.asarray(domain.shape, dtype=np.float64))


def build_adjacency(domain: Domain, cliques: Iterable[Clique]) -> Array:
    """Return the graph in which the attributes of each clique are connected."""
    graph = np.zeros((len(domain), len(domain)), dtype=np.bool_)
    for c in cliques:
        at = [domain.index(name) for name in c]
        graph[np.ix_(at, at)] = True
    return graph


def _refuse_large(
    domain: Domain, given: Sequence[Clique], found: Sequence[Clique], max_cells: int, max_total: int
) -> None:
    largest = max(found, key=domain.cells)
    named = ", ".join(largest[:_NAMED]) + (f" and {len(largest) - _NAMED} more" if len(largest) > _NAMED else "")
    total = sum(domain.cells(c) for c in found)
    if domain.cells(largest) > max_cells:
        parts = [c for c in given if len(c) > 1 and set(c) <= set(largest)]
        raise ModelTooLarge(
            f"the junction tree needs the clique {named} with {_format_size(domain.cells(largest))}, above the "
            f"limit of "
            f"{max_cells:,}; measure fewer or smaller marginals among these attributes (now {len(parts)}), merge rare "
            "values, or raise max_cells"
        )
    if total > max_total:
        raise ModelTooLarge(
            f"the junction tree needs {_format_size(total)} in {len(found)} cliques, above the limit of "
            f"{max_total:,}, the "
            f"largest being {named} with {domain.cells(largest):,}; measure fewer or smaller marginals, or raise "
            "max_total"
        )


def _format_size(cells: int) -> str:
    return f"{cells:,} cells ({cells >> 17:,} MiB)" if cells < 1 << 60 else f"over 2^{cells.bit_length() - 1} cells"


def _join_cliques(domain: Domain, given: tuple[Clique, ...], found: Sequence[Clique]) -> JunctionTree:
    # Start from the largest clique; a clique that is disjoint from those reached starts a new component.
    found = sorted(found, key=lambda c: (-domain.cells(c), c))
    member = np.zeros((len(found), len(domain)))
    for i, c in enumerate(found):
        member[i, [domain.index(name) for name in c]] = 1.0
    weights = (member * (1.0 + compute_log_sizes(domain))) @ member.T
    reached, parents = spanning_forest(np.where(weights > 0, weights, -np.inf))
    place = {i: k for k, i in enumerate(reached)}
    cliques = tuple(found[i] for i in reached)
    above = tuple(place[parents[i]] if parents[i] >= 0 else -1 for i in reached)
    separators = tuple(
        tuple(name for name in c if name in cliques[p]) if p >= 0 else () for c, p in zip(cliques, above, strict=True)
    )
    return JunctionTree(domain, given, cliques, above, separators)
