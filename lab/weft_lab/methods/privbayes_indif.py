"""PrivBayes(InDif) (PrivSyn, USENIX Security 2021, section 6.3): a Bayesian network selected by noisy InDif scores.

The InDif of all pairs is measured once, with Gaussian noise; the network is post-processing, and the remaining budget
is for the marginals of its families. As in PrivBayes, these are kept small enough to be useful.

Where the defaults differ from the paper (`preset="paper"`):
- `accounting` gaussian, published paper: exact Gaussian DP adds less noise than closed-form zCDP.
- `allocation` equal, published weighted: PrivSyn gives the compared methods its own "Weighted Gaussian".
- `tables` agreed, published cut: PrivBayes clips each table at zero and normalises it separately.

With the preset as well:
- Added query, number of rows: the paper takes it from the tables.
- The paper does not specify the selection beyond the score. Here, the attribute with the largest sum of scores is the
  root, where PrivBayes draws one at random; parents are added greedily, at most five, while their scores are positive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from weft.bounds import Bounds, Factor, Share
from weft.curator import Curator
from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal
from weft.marginals.reconciliation import reconcile
from weft.methods.common.allocation import by_size
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.indif_network import MAX_PARENTS, THETA, indif_families
from weft.methods.common.options import Published, get_published_settings, option
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.methods.bayesnet import BayesNet
from weft_lab.methods.comparison_steps import check_pairs


@dataclass(frozen=True)
class PrivBayesInDif:
    """A Bayesian network selected by the noisy InDif of all pairs."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="paper", share_scores=0.1, theta=THETA, max_parents=MAX_PARENTS, allocation="weighted", tables="cut"
    )

    accounting: AccountingName = option("gaussian", '"gaussian", or "pure" for geometric noise and delta 0.')
    share_total: Share = option(0.01, "Share of the budget for the number of rows.")
    share_scores: Share = option(0.1, "Share for the InDif of all pairs; the rest is for the marginals of families.")
    theta: Factor = option(THETA, "Minimum ratio of a table's average count to the standard deviation of its noise.")
    max_parents: Annotated[int, Bounds(1, 20)] = option(MAX_PARENTS, "Maximum parents of an attribute.")
    allocation: Literal["equal", "weighted"] = option("equal", "Budget: equal; or by cells^(2/3), if pure cells^(1/2).")
    tables: Literal["agreed", "cut"] = option("agreed", "Noisy tables: made consistent, or clipped and normalised.")

    def check(self, domain: Domain) -> None:
        """Validate the budget shares, and check that all pairs can be counted."""
        check_shares(share_total=self.share_total, share_scores=self.share_scores)
        check_pairs(domain)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> BayesNet:
        """Score all pairs, select a network, measure its families, and make them consistent."""
        d = len(curator.domain)
        check_noise(curator, share_total=(self.share_total, 1), share_scores=(self.share_scores, math.comb(d, 2)))
        with report_stage(listener, "count"):
            rows = curator.total(self.share_total)
        with report_stage(listener, "choose families"):
            dependence = curator.dependence(self.share_scores)
            families = indif_families(curator, dependence, float(rows.table), self.theta, self.max_parents)
        with report_stage(listener, "measure families"):
            sized = by_size([curator.domain.cells(c) for c in families], curator.accounting)
            noisy = curator.measure(families, curator.left, None if self.allocation == "equal" else sized)
        if self.tables == "cut":
            cut = [Marginal(m.clique, np.maximum(m.table, 0.0)) for m in noisy]
            return BayesNet.of(curator.domain, max(float(rows.table), 1.0), cut)
        with report_stage(listener, "reconcile"):
            made = reconcile([*noisy, rows])
        return BayesNet.of(curator.domain, made.total, made.tables[:-1])
