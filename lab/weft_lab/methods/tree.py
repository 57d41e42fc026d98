"""Tree: one batch of scores, one junction tree, one joint selection of marginals and budget.

Follows google/dpsynth's SWIFT: the distances of all candidates from independence are measured once; pairs, by
decreasing distance, grow a junction tree within a size limit; of the candidates inside the tree, it measures the subset
whose gain exceeds the noise when the budget is divided by cells^(2/3). Not adaptive, so it scales to wide tables: three
passes over the rows for any number of columns.

Unlike SWIFT, pairs outside the tree may be measured too, and sampled records are adjusted to them
(`extra_pairs_per_column`); the fit stops where the estimated distance to the exact marginals is smallest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from weft.bounds import Bounds, Cells, Deviations, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Marginal
from weft.marginals.pooling import common_total
from weft.marginals.simplex import project_to_simplex
from weft.methods.common.allocation import by_size
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.options import Published, option
from weft.models.independent_model import IndependentModel
from weft.models.mrf import JunctionTree
from weft.models.recoded import RecodedModel
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.methods.comparison_steps import all_subsets, check_candidates
from weft_lab.methods.one_batch import best_subset, fit_and_finish, grow_tree_from_pairs


@dataclass(frozen=True)
class Tree:
    """A junction tree selected from one batch of scores and measured in one pass; fast on wide tables."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = None

    accounting: AccountingName = option("gaussian", '"gaussian", or "paper" for closed-form zCDP.')
    ways: Annotated[int | None, Bounds(2, 6)] = option(
        None, "Maximum attributes of a marginal. None: 3 if at least half of them have 4 codes or fewer, else 2."
    )
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals.")
    share_scores: Share = option(0.1, "Share for the distances of all candidates from independence.")
    rare: Deviations = option(3.0, "Values whose noisy count is below this many standard deviations are merged.")
    max_candidates: Annotated[int, Bounds(1, 1_000_000)] = option(20_000, "Maximum candidates; smallest tables first.")
    max_table: Cells = option(10**5, "Maximum cells of a measured marginal.")
    max_cells: Cells = option(10**6, "Maximum cells of a clique of the junction tree.")
    max_total: Cells = option(4 * 10**6, "Maximum cells of the whole junction tree.")
    extra_pairs_per_column: Annotated[float, Bounds(0.0, 1e4)] = option(
        8.0, "Maximum measured pairs outside the tree, per attribute; sampled records are adjusted to them."
    )
    penalties: Annotated[tuple[float, ...], Bounds(0.0, 1e12, 100)] = option(
        (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
        "Penalties per cell, in counts, on the distances of pairs; the tree that covers most is kept.",
    )

    def check(self, domain: Domain) -> None:
        """Validate the budget shares, the number of candidates and the penalties."""
        check_shares(share_columns=self.share_columns, share_scores=self.share_scores)
        check_candidates(domain, self.ways or 3)
        if not self.penalties:
            raise MethodError("option penalties: expected at least one number, such as 0.")

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> RecodedModel:
        """Measure one-way marginals and scores, select tree and marginals, measure them and fit the model."""
        check_noise(
            curator,
            share_columns=(self.share_columns, len(curator.domain)),
            share_scores=(self.share_scores, self.max_candidates),
        )
        columns = measure_columns(curator, self.share_columns, self.rare, listener)
        merged = columns.curator
        total = max(common_total(columns.tables)[0], 1.0)
        alone = IndependentModel(
            merged.domain, total, tuple(project_to_simplex(m.table, total) for m in columns.tables)
        )
        with report_stage(listener, "score the candidates"):
            candidates = self._candidates(merged.domain)
            guesses = [Marginal(c, alone.marginal(c)) for c in candidates]
            gaps = dict(zip(candidates, merged.gaps(guesses, share=self.share_scores).tolist(), strict=True))
        with report_stage(listener, "grow the tree"):
            tree = grow_tree_from_pairs(
                merged.domain, gaps, prices=self.penalties, max_cells=self.max_cells, max_total=self.max_total
            )
            held = [c for c in candidates if tree.home(c) is not None]
            held += self._outside(merged.domain, gaps, tree)
            cells = [merged.domain.cells(c) for c in held]
            chosen = [held[i] for i in best_subset([gaps[c] for c in held], cells, merged.rho(merged.left))]
        with report_stage(listener, "measure marginals"):
            asked = chosen or [m.clique for m in columns.tables]
            weights = by_size([merged.domain.cells(c) for c in asked], merged.accounting)
            noisy = merged.measure(asked, share=merged.left, weights=weights)
        return columns.unfold(fit_and_finish(tree, columns.tables, noisy, rng, listener))

    def _outside(self, domain: Domain, gaps: dict[Clique, float], tree: JunctionTree) -> list[Clique]:
        """Return the pairs outside the tree, largest gain for their size first."""
        pairs: list[Clique] = [c for c in gaps if len(c) == 2 and gaps[c] > 0 and tree.home(c) is None]
        pairs.sort(key=lambda c: (-gaps[c] / domain.cells(c) ** (2 / 3), c))
        return pairs[: math.floor(self.extra_pairs_per_column * len(domain))]

    def _candidates(self, domain: Domain) -> list[Clique]:
        ways = self.ways or (3 if np.median(domain.shape) <= 4 else 2)
        found = all_subsets(domain, min(ways, len(domain)), self.max_table)
        return sorted(sorted(found, key=domain.cells)[: self.max_candidates])
