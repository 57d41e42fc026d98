"""Tree: one look, one clique tree, one joint choice of marginals and budget.

The plan of google/dpsynth's SWIFT, in our own steps: the distances of all candidates from independence are released
once; pairs, strongest first, grow a junction tree within a size limit; of the candidates that the tree holds, the
subset is measured whose gain outweighs the noise when the budget is divided by cells^(2/3). Not adaptive, so it scales
to wide tables: three passes over the rows whatever the number of columns.

Ours: candidates that the tree does not hold may be measured too, and records are adjusted to them after the draw
(`outside`); the fit ends where the estimated distance to the exact tables is least.
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
from weft.methods.common.allocation import best_subset, by_size
from weft.methods.common.candidates import all_subsets
from weft.methods.common.discretisation import check_candidates, check_noise, check_shares, look_at_columns
from weft.methods.common.final_fit import fit_and_finish
from weft.methods.common.options import Published, option
from weft.models.independent_model import IndependentModel
from weft.models.mrf import JunctionTree, grow_tree_from_pairs
from weft.models.recoded import RecodedModel
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage


@dataclass(frozen=True)
class Tree:
    """A clique tree chosen in one look, measured in one pass; quick on wide tables."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = None

    accounting: AccountingName = option("gaussian", '"gaussian", or "paper" for zCDP with the closed form.')
    ways: Annotated[int | None, Bounds(2, 6)] = option(
        None, "Most columns of a marginal. None: 3 if at least half the columns have 4 codes or fewer, else 2."
    )
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals.")
    share_scores: Share = option(0.1, "Share for the distances of all candidates from independence.")
    rare: Deviations = option(3.0, "Values whose noisy count is below this many standard deviations are merged.")
    max_candidates: Annotated[int, Bounds(1, 1_000_000)] = option(
        20_000, "Most candidates; of more, the marginals with the fewest cells."
    )
    max_table: Cells = option(10**5, "Cells of the largest marginal measured.")
    max_cells: Cells = option(10**6, "Cells of the largest clique of the junction tree.")
    max_total: Cells = option(4 * 10**6, "Cells of the whole tree.")
    extra_pairs_per_column: Annotated[float, Bounds(0.0, 1e4)] = option(
        8.0,
        "Most pairs, for each column, that may be measured though the tree does not hold them: records are adjusted "
        "to them (`weft.models.mrf.mrf_model`).",
    )
    penalties: Annotated[tuple[float, ...], Bounds(0.0, 1e12, 100)] = option(
        (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
        "Counts taken off a pair for each of its cells when pairs are ranked; the tree that holds most is kept.",
    )

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing for the marginals."""
        check_shares(share_columns=self.share_columns, share_scores=self.share_scores)
        check_candidates(domain, self.ways or 3)
        if not self.penalties:
            raise MethodError("option penalties needs at least one price; 0 is one.")

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> RecodedModel:
        """One-way marginals, one look, one tree, one choice, one fit."""
        check_noise(
            curator,
            share_columns=(self.share_columns, len(curator.domain)),
            share_scores=(self.share_scores, self.max_candidates),
        )
        columns = look_at_columns(curator, self.share_columns, self.rare, listener)
        merged = columns.curator
        total = max(common_total(columns.tables)[0], 1.0)
        alone = IndependentModel(
            merged.domain, total, tuple(project_to_simplex(m.table, total) for m in columns.tables)
        )
        with report_stage(listener, "look at candidates"):
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
        """Return the pairs that the tree does not hold, those first that gain most for their size."""
        pairs: list[Clique] = [c for c in gaps if len(c) == 2 and gaps[c] > 0 and tree.home(c) is None]
        pairs.sort(key=lambda c: (-gaps[c] / domain.cells(c) ** (2 / 3), c))
        return pairs[: math.floor(self.extra_pairs_per_column * len(domain))]

    def _candidates(self, domain: Domain) -> list[Clique]:
        ways = self.ways or (3 if np.median(domain.shape) <= 4 else 2)
        found = all_subsets(domain, min(ways, len(domain)), self.max_table)
        return sorted(sorted(found, key=domain.cells)[: self.max_candidates])
