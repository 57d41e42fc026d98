"""MST (McKenna, Miklau, Sheldon; JPC 2021): the maximum spanning tree of pairs, fitted by a Markov random field.

The edges of the tree are those farthest from independence. By default the distances of all pairs are released once with
Gaussian noise and the tree is post-processing, so that the whole run has exact Gaussian-DP accounting and most of the
budget is left for the pairs themselves; the tree is not the heaviest but, among those nearly as heavy, one that implies
more of the pairs between (`weft.select.implied_tree`).

Where the defaults differ from the paper (`preset="paper"`):
- `accounting` gaussian, published zcdp: the paper's choices are by the exponential mechanism.
- `share_columns` 0.1, published 0.3333333333333333.
- `share_scores` 0.1, published 0.3333333333333333.
- `selection` implied, published exponential: one edge after another, each by the exponential mechanism among the pairs
  that join two parts of the tree.
- `allocation` weighted, published equal.
- `solver` accelerated, published mirror: mirror descent goes on until the loss falls no more, for up to 10,000 passes;
  by default the fit ends where the estimated distance to the exact tables is least.

With the preset, too: a pair that would be too large for the model is left out before it is paid for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from weft.bounds import Deviations, Share
from weft.curator import Curator
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Marginal
from weft.methods.steps.columns import check_mixed, check_noise, check_shares, look_at_columns
from weft.methods.steps.descent import PASSES, SOLVER, Passes, fit_as
from weft.methods.steps.effects import only_with
from weft.methods.steps.options import option
from weft.methods.steps.presets import Published, published
from weft.methods.steps.sharing import by_size
from weft.models.mrf import MAX_CELLS, Solver, grow_tree
from weft.models.recoded import RecodedModel
from weft.privacy import Accounting
from weft.progress import Listener, silence, stage
from weft.reconcile import common_total, simplex
from weft.select import implied_tree, spanning_tree


@dataclass(frozen=True)
class Mst:
    """The tree of the strongest pairs; exact inference, in a second or two."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = published(
        accounting="zcdp",
        share_columns=1 / 3,
        share_scores=1 / 3,
        rare=3.0,
        selection="exponential",
        allocation="equal",
        solver="mirror",
        passes=10_000,
    )

    accounting: Accounting = option(
        "gaussian",
        '"gaussian"; "zcdp"; or "paper" for zCDP with the closed form. Choices of edges need one of the latter.',
    )
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals.")
    share_scores: Share = option(0.1, "Share for the distances of all pairs from independence.")
    rare: Deviations = option(3.0, "Values whose noisy count is below this many standard deviations are merged.")
    selection: Literal["implied", "heaviest", "exponential"] = option(
        "implied",
        'The tree: of the heaviest ones, one that implies the other pairs ("implied"); the maximum spanning tree of '
        'noisy distances ("heaviest"); or edge by edge, by the exponential mechanism, as published.',
    )
    allocation: Literal["weighted", "equal"] = option(
        "weighted", "Divide the budget over pairs by cells^(2/3); or evenly."
    )
    solver: Solver = option("accelerated", SOLVER)
    passes: Passes = option(10_000, PASSES, only_with("solver", "mirror"))

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing for the pairs."""
        check_shares(share_columns=self.share_columns, share_scores=self.share_scores)
        if self.selection == "exponential":
            check_mixed(self.accounting)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> RecodedModel:
        """One-way marginals, the tree, its pairs, the model."""
        d = len(curator.domain)
        check_noise(curator, share_columns=(self.share_columns, d), share_scores=(self.share_scores, math.comb(d, 2)))
        columns = look_at_columns(curator, self.share_columns, self.rare, listener)
        merged = columns.curator
        total = max(common_total(columns.tables)[0], 1.0)
        own = {m.clique[0]: simplex(m.table, total) for m in columns.tables}

        with stage(listener, "choose the tree"):
            pairs = [c for c in itertools.combinations(sorted(merged.domain), 2) if merged.domain.cells(c) <= MAX_CELLS]
            independent = [Marginal((a, b), np.outer(own[a], own[b]) / total) for a, b in pairs]
            if self.selection == "exponential":
                strongest = self._edge_by_edge(merged, independent)
            else:
                gaps = merged.gaps(independent, share=self.share_scores)
                weights: dict[Clique, float] = dict(zip(pairs, gaps.tolist(), strict=True))
                strongest = spanning_tree(weights) if self.selection == "heaviest" else implied_tree(weights, own)
            tree = grow_tree(merged.domain, strongest)  # a pair that would not fit is left out before it is paid for
            edges = list(tree.given) or [m.clique for m in columns.tables]
        with stage(listener, "measure pairs"):
            parts = by_size([merged.domain.cells(edge) for edge in edges], merged.accounting)
            noisy = merged.measure(edges, share=merged.left, weights=None if self.allocation == "equal" else parts)
        tables = [*columns.tables, *noisy]
        model = fit_as(self.solver, self.passes, merged.domain, tables, tree=tree, probe=rng, listener=listener)
        return columns.unfold(model)

    def _edge_by_edge(self, curator: Curator, independent: Sequence[Marginal]) -> list[Clique]:
        """Choose edges one at a time, among the pairs that join two parts of what is chosen so far."""
        part = {name: name for name in curator.domain}
        edges: list[Clique] = []
        while offered := [table for table in independent if len({part[name] for name in table.clique}) > 1]:
            share = self.share_scores / max(len(curator.domain) - 1, 1)
            a, b = edge = offered[curator.choose_gap(offered, share)].clique
            edges.append(edge)
            part = {name: part[a] if found == part[b] else found for name, found in part.items()}
        return edges
