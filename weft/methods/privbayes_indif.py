"""PrivBayes(InDif) (PrivSyn, USENIX Security 2021, section 6.3): a Bayesian network chosen on noisy InDif scores.

The InDif of all pairs is asked once, with Gaussian noise; the network follows from it at no further cost, and all
that remains goes to the tables of its families. As in PrivBayes, tables are kept small enough to be useful.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from weft.bounds import Bounds, Factor, Share
from weft.curator import Curator
from weft.marginals.domain import Domain
from weft.methods.steps.columns import check_noise, check_pairs, check_shares
from weft.methods.steps.options import option
from weft.models.bayesnet.model import BayesNet
from weft.privacy import Accounting
from weft.progress import Listener, silence, stage
from weft.reconcile import reconcile
from weft.select import sparse_network
from weft.select.useful import useful_cells


@dataclass(frozen=True)
class PrivBayesInDif:
    """A Bayesian network chosen on the noisy InDif of all pairs."""

    completes_seeds: ClassVar[bool] = True

    accounting: Accounting = option(
        "gaussian", '"gaussian" for (epsilon, delta), "pure" for geometric noise and delta 0.'
    )
    share_total: Share = option(0.01, "Share of the budget for the number of rows.")
    share_scores: Share = option(0.1, "Share for the InDif of all pairs; the rest goes to the tables.")
    theta: Factor = option(
        4.0, "A table may be so large that its average count is theta times the deviation of its noise."
    )
    max_parents: Annotated[int, Bounds(1, 20)] = option(5, "Most parents of an attribute.")

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing for the tables."""
        check_shares(share_total=self.share_total, share_scores=self.share_scores)
        check_pairs(domain)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> BayesNet:
        """Score all pairs, choose a network, measure it, and make the tables agree."""
        d = len(curator.domain)
        check_noise(curator, share_total=(self.share_total, 1), share_scores=(self.share_scores, math.comb(d, 2)))
        with stage(listener, "count"):
            rows = curator.total(self.share_total)
        with stage(listener, "choose families"):
            dependence = curator.dependence(self.share_scores)
            cells = useful_cells(float(rows.table), curator.sigma(curator.left / d), self.theta)
            families = sparse_network(dependence, curator.domain, max_parents=self.max_parents, max_cells=int(cells))
        with stage(listener, "measure families"):
            noisy = curator.measure(families, curator.left)
        with stage(listener, "reconcile"):
            made = reconcile([*noisy, rows])
        return BayesNet.of(curator.domain, made.total, made.tables[:-1])
