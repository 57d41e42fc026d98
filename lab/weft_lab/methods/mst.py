"""MST (McKenna, Miklau, Sheldon; JPC 2021): the maximum spanning tree of pairs, fitted by a Markov random field.

The edges are the pairs farthest from independence. By default, the distances of all pairs are measured once with
Gaussian noise and the tree is post-processing, so exact Gaussian-DP accounting applies and most of the budget is left
for the pairs. Among trees nearly as heavy as the maximum, it takes one that better predicts the other distances.

Where the defaults differ from the paper (`preset="paper"`):
- `accounting` gaussian, published zcdp: the paper selects with the exponential mechanism.
- `share_columns` 0.1, published 0.3333333333333333.
- `share_scores` 0.1, published 0.3333333333333333.
- `selection` implied, published exponential: edge by edge, with the exponential mechanism among the pairs that join
  two components.
- `allocation` weighted, published equal.
- `solver` accelerated, published mirror: mirror descent runs until the loss stops falling, for up to 10,000 passes;
  by default, the fit stops where the estimated distance to the exact marginals is smallest.

With the preset as well:
- A pair too large for the model is dropped before it is charged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from weft.bounds import Deviations, Share
from weft.curator import Curator
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Marginal
from weft.marginals.pooling import common_total
from weft.marginals.simplex import project_to_simplex
from weft.marginals.spanning_tree import spanning_tree
from weft.methods.common.allocation import by_size
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.options import Published, get_published_settings, only_with, option
from weft.models.mrf import MAX_CELLS, Solver
from weft.models.recoded import RecodedModel
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.methods.comparison_steps import PASSES, SOLVER, Passes, check_mixed, fit_as
from weft_lab.methods.tree_growth import grow_tree
from weft_lab.queries.selection_queries import SelectionQueries

_GAIN = 1e-3
"""Minimum relative decrease of the error for a swap."""


def fit_implied_tree(
    gaps: Mapping[Clique, float], columns: Mapping[str, Array], *, keep: float = 0.85, widest: int = 20
) -> list[Clique]:
    """Return a spanning tree whose implied distances of all pairs are close to `gaps`, heaviest edge first.

    `gaps` are L1 distances from independence in counts, `columns` the one-way marginals of one total. Starting from the
    maximum spanning tree, an edge is swapped for another on the same cycle if that has at least `keep` times its
    distance and attributes of at most `widest` values, and the sum over all pairs of |implied - measured| decreases.

    Trees of nearly equal weight differ in the distances that they imply for other pairs: along a path, dependence
    multiplies. For binary attributes the correlations of a Markov chain do so exactly, and a pair's distance from
    independence is its correlation times a number given by the margins (`_compute_max_distances`). This is accurate for
    few values, but not for wide attributes, which may copy each other at many levels. Privacy: post-processing.
    """
    tree = spanning_tree(gaps)
    names = sorted(columns)
    at = {name: i for i, name in enumerate(names)}
    if len(tree) < max(len(names) - 1, 2):  # a forest, or nothing to swap
        return tree
    known = np.zeros((len(names), len(names)))
    for (a, b), gap in gaps.items():
        known[at[a], at[b]] = known[at[b], at[a]] = max(gap, 0.0)
    search = _Search(
        known, _compute_max_distances([columns[name] for name in names]), [(at[a], at[b]) for a, b in tree]
    )
    narrow = [i for i, name in enumerate(names) if columns[name].size <= widest]
    offers = [(a, b) for k, a in enumerate(narrow) for b in narrow[k + 1 :]]
    offers = sorted(offers, key=lambda edge: -known[edge])[: 5 * len(names)]
    for _ in range(len(names)):
        if not sum(search.offer(edge, keep) for edge in offers):
            break
    found = [(names[min(edge)], names[max(edge)]) for edge in search.edges]
    return sorted(found, key=lambda pair: (-gaps[pair], pair))


def _compute_max_distances(tables: list[Array]) -> Array:
    """Return the distance at correlation 1: for binary attributes, 4 n sqrt(p(1-p) q(1-q))."""
    total = max(float(tables[0].sum()), 1.0)
    unlike = np.array([1.0 - ((table / total) ** 2).sum() for table in tables])
    return np.asarray(2 * total * np.sqrt(np.maximum(np.outer(unlike, unlike), 1e-18)))


class _Search:
    """The current tree, with the correlation that it implies for every pair."""

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
        """Swap the best edge of the cycle for this one if that lowers the error; return whether it did."""
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
        """Return the path from a to b and, for each attribute, the position on the path at which it branches off."""
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


@dataclass(frozen=True)
class Mst:
    """A spanning tree of the most dependent pairs; exact inference in a second or two."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="zcdp",
        share_columns=1 / 3,
        share_scores=1 / 3,
        rare=3.0,
        selection="exponential",
        allocation="equal",
        solver="mirror",
        passes=10_000,
    )

    accounting: AccountingName = option(
        "gaussian", '"gaussian"; "zcdp"; or "paper", closed-form zCDP. Exponential selection needs one of these two.'
    )
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals.")
    share_scores: Share = option(0.1, "Share for the distances of all pairs from independence.")
    rare: Deviations = option(3.0, "Values whose noisy count is below this many standard deviations are merged.")
    selection: Literal["implied", "heaviest", "exponential"] = option(
        "implied",
        'The tree: a heavy one that best predicts the other pairs ("implied"); the maximum spanning tree of the noisy '
        'distances ("heaviest"); or edge by edge with the exponential mechanism, as published.',
    )
    allocation: Literal["weighted", "equal"] = option("weighted", "Divide the budget by cells^(2/3), or evenly.")
    solver: Solver = option("accelerated", SOLVER)
    passes: Passes = option(10_000, PASSES, only_with("solver", "mirror"))

    def check(self, domain: Domain) -> None:
        """Validate the budget shares and the accounting of the selection."""
        check_shares(share_columns=self.share_columns, share_scores=self.share_scores)
        if self.selection == "exponential":
            check_mixed(self.accounting)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> RecodedModel:
        """Measure one-way marginals, select the tree, measure its pairs and fit the model."""
        d = len(curator.domain)
        check_noise(curator, share_columns=(self.share_columns, d), share_scores=(self.share_scores, math.comb(d, 2)))
        columns = measure_columns(curator, self.share_columns, self.rare, listener)
        merged = columns.curator
        total = max(common_total(columns.tables)[0], 1.0)
        own = {m.clique[0]: project_to_simplex(m.table, total) for m in columns.tables}

        with report_stage(listener, "choose the tree"):
            pairs = [c for c in itertools.combinations(sorted(merged.domain), 2) if merged.domain.cells(c) <= MAX_CELLS]
            independent = [Marginal((a, b), np.outer(own[a], own[b]) / total) for a, b in pairs]
            if self.selection == "exponential":
                strongest = self._edge_by_edge(merged, independent)
            else:
                gaps = merged.gaps(independent, share=self.share_scores)
                weights: dict[Clique, float] = dict(zip(pairs, gaps.tolist(), strict=True))
                strongest = spanning_tree(weights) if self.selection == "heaviest" else fit_implied_tree(weights, own)
            tree = grow_tree(merged.domain, strongest)  # drops pairs that do not fit before they are charged
            edges = list(tree.given) or [m.clique for m in columns.tables]
        with report_stage(listener, "measure pairs"):
            parts = by_size([merged.domain.cells(edge) for edge in edges], merged.accounting)
            noisy = merged.measure(edges, share=merged.left, weights=None if self.allocation == "equal" else parts)
        tables = [*columns.tables, *noisy]
        model = fit_as(self.solver, self.passes, merged.domain, tables, tree=tree, probe=rng, listener=listener)
        return columns.unfold(model)

    def _edge_by_edge(self, curator: Curator, independent: Sequence[Marginal]) -> list[Clique]:
        """Select edges one at a time, among the pairs that join two components."""
        part = {name: name for name in curator.domain}
        edges: list[Clique] = []
        while offered := [table for table in independent if len({part[name] for name in table.clique}) > 1]:
            share = self.share_scores / max(len(curator.domain) - 1, 1)
            a, b = edge = offered[SelectionQueries.of(curator).choose_gap(offered, share)].clique
            edges.append(edge)
            part = {name: part[a] if found == part[b] else found for name, found in part.items()}
        return edges
