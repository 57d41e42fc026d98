"""Cover: PrivMRF's graph (PVLDB 2021), with all marginals selected at once to cover dependent pairs repeatedly.

A graph of strongly dependent attributes, narrow enough for a junction tree, determines which marginals a Markov random
field can represent. Unlike the refinement rounds of `privmrf`, one step selects all marginals: a few per attribute, of
two to five attributes, that overlap (`weft_lab.methods.one_batch.choose_cover`). Refinement needs hundreds of
queries per round; at small budgets their noise exceeds all differences between candidates, and at large budgets an even
cover leaves little to improve (docs/decisions/009).

The graph is grown at several penalties per cell (`grow_tree_from_pairs`), the budget is divided by cells^(2/3), pairs
need not be theta-useful, and pairs outside the graph may be measured too: sampled records are adjusted to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from weft.bounds import Bounds, Cells, Deviations, Factor, Share
from weft.curator import Curator
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import NoisyMarginal
from weft.marginals.pooling import common_total
from weft.methods.common.allocation import by_size
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.options import Published, option
from weft.models.mrf import JunctionTree
from weft.models.recoded import RecodedModel
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.methods.candidates import useful_limit, useful_subsets
from weft_lab.methods.comparison_steps import check_pairs
from weft_lab.methods.one_batch import choose_cover, fit_and_finish, grow_tree_from_pairs

MAX_TABLE = 10**5
"""Maximum cells of a measured pair outside the graph."""


@dataclass(frozen=True)
class Cover:
    """A dense dependency graph, a junction tree, and marginals that cover it, all selected at once."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = None

    accounting: AccountingName = option("gaussian", '"gaussian", or "paper" for closed-form zCDP.')
    share_scores: Share = option(0.05, "Share of the budget for the R-scores of all pairs.")
    share_columns: Share = option(0.10, "Share for the one-way marginals, which also estimate the number of rows.")
    rare: Deviations = option(3.0, "Values with a noisy count below this many standard deviations are merged; 0: none.")
    theta: Factor = option(6.0, "Minimum ratio of average count to noise of a marginal of more than two attributes.")
    tables: Annotated[float, Bounds(0.01, 1000.0)] = option(4.0, "Maximum marginals per attribute.")
    extra_pairs: bool = option(True, "Measure pairs outside the graph too, and adjust the sampled records to them.")
    max_ways: Annotated[int, Bounds(1, 8)] = option(5, "Maximum attributes of a marginal.")
    max_cells: Cells = option(1 << 21, "Maximum cells of a clique of the junction tree.")
    max_total: Cells = option(1 << 22, "Maximum cells of the whole junction tree.")

    def check(self, domain: Domain) -> None:
        """Validate the budget shares, and check that all pairs can be counted."""
        check_pairs(domain)
        check_shares(share_scores=self.share_scores, share_columns=self.share_columns)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> RecodedModel:
        """Measure one-way marginals, grow the graph, measure marginals that cover it, and fit the model."""
        d = len(curator.domain)
        check_noise(curator, share_columns=(self.share_columns, d), share_scores=(self.share_scores, math.comb(d, 2)))
        columns = measure_columns(curator, self.share_columns, self.rare, listener)
        merged = columns.curator
        total = max(common_total(columns.tables)[0], 1.0)
        with report_stage(listener, "build the graph"):
            scores = merged.dependence(share=self.share_scores, score="r")
            # A pair's L1 distance from independence is twice its R-score.
            gaps: dict[Clique, float] = {pair: 2 * score for pair, score in scores.items()}
            graph = grow_tree_from_pairs(merged.domain, gaps, max_cells=self.max_cells, max_total=self.max_total)
        noisy = self._measure(merged, graph, gaps, total, listener)
        return columns.unfold(fit_and_finish(graph, columns.tables, noisy, rng, listener, total))

    def _measure(
        self, curator: Curator, graph: JunctionTree, gaps: dict[Clique, float], total: float, listener: Listener
    ) -> list[NoisyMarginal]:
        """Measure marginals that together cover the strongly dependent pairs."""
        domain = curator.domain
        with report_stage(listener, "choose marginals"):
            most = math.ceil(self.tables * len(domain))
            limit = useful_limit(total, self.theta, curator.sigma(curator.left / most))
            larger = [c for c in useful_subsets(graph.cliques, domain, limit, self.max_ways) if len(c) > 2]
            loose = MAX_TABLE if self.extra_pairs else 0
            pairs = [pair for pair in gaps if domain.cells(pair) <= loose or graph.home(pair) is not None]
            chosen = choose_cover([*larger, *pairs], gaps, domain, curator.rho(curator.left), most=most)
            chosen = chosen or [(name,) for name in domain]
        with report_stage(listener, "measure marginals"):
            weights = by_size([domain.cells(c) for c in chosen], curator.accounting)
            return curator.measure(chosen, share=curator.left, weights=weights)
