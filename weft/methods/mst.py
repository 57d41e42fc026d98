"""MST (McKenna, Miklau, Sheldon; JPC 2021): the maximum spanning tree of pairs, fitted by a Markov random field.

The edges of the tree are those farthest from independence. The original draws them one at a time by the exponential
mechanism; here the distances of all pairs are released once with Gaussian noise and the tree is post-processing, so
that the whole run has exact Gaussian-DP accounting and most of the budget is left for the pairs themselves.

By default the tree is not the heaviest but, among those nearly as heavy, one that implies more of the pairs between
(`weft.select.implied_tree`); `heaviest=True` is the published choice. The fit ends where the estimated distance to the
exact tables is least, not after a fixed number of iterations.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.bounds import Deviations, Share
from weft.curator import Curator
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Marginal
from weft.methods.steps.columns import check_noise, check_shares, look_at_columns
from weft.methods.steps.options import option
from weft.methods.steps.sharing import by_size
from weft.models.mrf import MAX_CELLS, fit, grow_tree
from weft.models.recoded import RecodedModel
from weft.privacy import Accounting
from weft.progress import Listener, silence, stage
from weft.reconcile import common_total, simplex
from weft.select import implied_tree, spanning_tree


@dataclass(frozen=True)
class Mst:
    """The tree of the strongest pairs; exact inference, in a second or two."""

    completes_seeds: ClassVar[bool] = True

    accounting: Accounting = option("gaussian", '"gaussian", or "paper" for zCDP with the closed form.')
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals.")
    share_scores: Share = option(0.1, "Share for the distances of all pairs from independence.")
    rare: Deviations = option(3.0, "Values whose noisy count is below this many standard deviations are merged.")
    heaviest: bool = option(
        False, "Take the maximum spanning tree, as published, whatever it implies for the other pairs."
    )

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing for the pairs."""
        check_shares(share_columns=self.share_columns, share_scores=self.share_scores)

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
            gaps = merged.gaps(independent, share=self.share_scores)
            weights: dict[Clique, float] = dict(zip(pairs, gaps.tolist(), strict=True))
            strongest = spanning_tree(weights) if self.heaviest else implied_tree(weights, own)
            tree = grow_tree(merged.domain, strongest)  # a pair that would not fit is left out before it is paid for
            edges = list(tree.given) or [m.clique for m in columns.tables]
        with stage(listener, "measure pairs"):
            parts = by_size([merged.domain.cells(edge) for edge in edges], merged.accounting)
            noisy = merged.measure(edges, share=merged.left, weights=parts)
        return columns.unfold(fit(merged.domain, [*columns.tables, *noisy], tree=tree, probe=rng, listener=listener))
