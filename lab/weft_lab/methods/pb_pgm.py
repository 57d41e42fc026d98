"""PB-PGM: the families of PrivBayes, fitted by a Markov random field (McKenna et al., ICML 2019, section 5).

Selection and noise are those of `privbayes`; only the fitted model differs. A family that would make the junction tree
too large loses parents, which is post-processing.

Where the defaults differ from the paper (`preset="paper"`):
- `max_candidates` 2000, published 100000: as in `privbayes`.
- `solver` accelerated, published mirror: mirror descent runs until the loss stops falling, for up to 10,000 passes
  (PrivSyn's value), and so fits noise; by default, the fit stops earlier.

With the preset as well:
- Added query, number of rows: the paper takes it as known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from weft.bounds import Bounds, Cells, Factor, Share
from weft.curator import Curator
from weft.marginals.domain import Domain
from weft.marginals.pooling import common_total
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.options import Published, get_published_settings, only_with, option
from weft.models.mrf import MAX_CELLS, MAX_TOTAL, MrfModel, Solver, junction_tree
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.methods.comparison_steps import PASSES, SOLVER, Passes, fit_as, narrow_families
from weft_lab.methods.privbayes import PrivBayes, check_choices


@dataclass(frozen=True)
class PbPgm:
    """The network of PrivBayes, with one Markov random field fitted to all its marginals."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="pure", share_structure=0.3, theta=4.0, max_candidates=100_000, solver="mirror", passes=10_000
    )

    accounting: AccountingName = option("pure", '"pure", geometric noise, delta 0; or "zcdp", smaller Gaussian noise.')
    share_total: Share = option(0.01, "Share of the budget for the number of rows.")
    share_structure: Share = option(0.3, "Share for the structure; the rest is for the marginals of families.")
    theta: Factor = option(4.0, "Minimum ratio of the average count of a table to the scale of its noise.")
    max_cells: Cells = option(MAX_CELLS, "Maximum cells of a clique of the junction tree.")
    max_total: Cells = option(MAX_TOTAL, "Maximum cells of the whole junction tree.")
    max_candidates: Annotated[int, Bounds(1, 100_000)] = option(2000, "Maximum candidate families of a selection.")
    solver: Solver = option("accelerated", SOLVER)
    passes: Passes = option(10_000, PASSES, only_with("solver", "mirror"))

    def check(self, domain: Domain) -> None:
        """Validate shares and accounting, and check that one-way marginals fit into the limits."""
        check_shares(share_total=self.share_total, share_structure=self.share_structure)
        check_choices(self.accounting)
        junction_tree(domain, [], max_cells=self.max_cells, max_total=self.max_total)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> MrfModel:
        """Select a network, measure the families that fit into a junction tree, and fit the model."""
        check_noise(curator, share_total=(self.share_total, 1))
        rows, families = self._network().choose(curator, rng, listener)
        kept = narrow_families(curator.domain, families, self.max_cells, self.max_total)
        with report_stage(listener, "measure families"):
            noisy = curator.measure(kept, curator.left)
        tree = junction_tree(curator.domain, kept, max_cells=self.max_cells, max_total=self.max_total)
        total, _ = common_total([*noisy, rows])
        return fit_as(self.solver, self.passes, curator.domain, noisy, total=total, tree=tree, listener=listener)

    def _network(self) -> PrivBayes:
        return PrivBayes(
            accounting=self.accounting,
            share_total=self.share_total,
            share_structure=self.share_structure,
            theta=self.theta,
            max_candidates=self.max_candidates,
        )
