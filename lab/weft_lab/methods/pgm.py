"""PGM (McKenna, Sheldon, Miklau; ICML 2019): a Markov random field fitted to required marginals.

PGM fits marginals but does not select them. The published comparison (PrivSyn, section 6.2) uses the families of
PrivBayes(InDif), which is the preset. Marginals that the user requires are always measured.

Where the defaults differ from the paper (`preset="paper"`):
- `selection` neighbours, published privbayes-indif: without required marginals, each attribute with the next.
- `accounting` gaussian, published paper: exact Gaussian DP adds less noise than closed-form zCDP.
- `solver` accelerated, published mirror: mirror descent runs until the loss stops falling, for up to 10,000 passes
  (PrivSyn, appendix), and so fits noise; by default, the fit stops where the estimated distance to the exact marginals
  is smallest.

With the preset as well:
- Added query, one-way marginals: to merge rare values and to estimate the number of rows.
- A family that would make the junction tree too large loses parents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from weft.bounds import Bounds, Cells, Deviations, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.pooling import common_total
from weft.methods.common.allocation import allocate_to_required, by_size, check_emphasis, check_given
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.indif_network import indif_families
from weft.methods.common.options import Published, get_published_settings, only_with, only_without, option
from weft.models.mrf import MAX_CELLS, MAX_TOTAL, Solver, junction_tree
from weft.models.recoded import RecodedModel
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.methods.comparison_steps import PASSES, SOLVER, Passes, check_pairs, fit_as, narrow_families
from weft_lab.methods.tree_growth import grow_tree


@dataclass(frozen=True)
class Pgm:
    """A Markov random field fitted to required marginals (default: pairs of neighbouring attributes)."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="paper",
        selection="privbayes-indif",
        share_columns=0.1,
        share_scores=0.1,
        solver="mirror",
        passes=10_000,
    )

    marginals: Sequence[Sequence[str]] = option((), "The marginals to measure. Empty: see selection.")
    selection: Literal["neighbours", "privbayes-indif"] = option(
        "neighbours",
        "Without marginals: each attribute with the next, in schema order; or the families of PrivBayes(InDif).",
        only_without("marginals"),
    )
    weights: Annotated[Sequence[float], Bounds(1e-6, 1e6, 100_000)] = option(
        (), "Weights of the marginals in the budget. Empty: cells^(2/3), or cells^(1/2) if pure (least expected error)."
    )
    emphasis: Annotated[Sequence[float], Bounds(1e-6, 1e6, 100_000)] = option(
        (), "Without weights: factors on the default weights. Empty: all 1."
    )
    accounting: AccountingName = option("gaussian", '"gaussian"; "paper", closed-form zCDP; "pure", geometric noise.')
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals.")
    share_scores: Share = option(
        0.1, "Share for the InDif of all pairs.", only_without("marginals"), only_with("selection", "privbayes-indif")
    )
    rare: Deviations = option(3.0, "Values whose noisy count is below this many standard deviations are merged.")
    rare_rows: Annotated[float, Bounds(0.0, 1e12)] = option(0.0, "Values with a noisy count below this are merged too.")
    max_cells: Cells = option(MAX_CELLS, "Maximum cells of a clique of the junction tree; larger ones are refused.")
    max_total: Cells = option(MAX_TOTAL, "Maximum cells of the whole junction tree.")
    solver: Solver = option("accelerated", SOLVER)
    passes: Passes = option(10_000, PASSES, only_with("solver", "mirror"))

    def check(self, domain: Domain) -> None:
        """Validate shares, marginals and weights, and check that the junction tree fits."""
        check_shares(share_columns=self.share_columns, **({"share_scores": self.share_scores} if self._chooses else {}))
        if self._chooses:
            check_pairs(domain)
        check_given(domain, self.marginals, self.emphasis)
        if self.weights and len(self.weights) != len(self.marginals):
            raise MethodError("option weights: expected one positive number for each of the marginals.")
        if self.weights and self.emphasis:
            raise MethodError("options weights and emphasis: emphasis multiplies the default weights; give only one.")
        if self.marginals:
            # Merging rare values makes tables smaller, so a tree that fits now will fit later.
            junction_tree(domain, self._cliques(domain), max_cells=self.max_cells, max_total=self.max_total)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> RecodedModel:
        """Measure one-way and selected marginals, and fit the model."""
        check_noise(curator, share_columns=(self.share_columns, len(curator.domain)))
        check_emphasis(curator, self.marginals, self.emphasis, 1 - self.share_columns)
        if self._chooses:
            check_noise(curator, share_scores=(self.share_scores, math.comb(len(curator.domain), 2)))
        if self.weights:
            # Unless required marginals coincide, they are measured with these weights.
            check_noise(curator, weights=((1 - self.share_columns) * min(self.weights) / math.fsum(self.weights), 1))
        columns = measure_columns(curator, self.share_columns, self.rare, listener, self.rare_rows)
        merged = columns.curator
        if self._chooses:
            with report_stage(listener, "choose families"):
                total = common_total(columns.tables)[0]
                families = indif_families(merged, merged.dependence(self.share_scores), total)
                wanted = narrow_families(merged.domain, families, self.max_cells, self.max_total)
        else:
            wanted = self._cliques(merged.domain)
        tree = grow_tree(merged.domain, wanted, max_cells=self.max_cells, max_total=self.max_total)
        cliques = list(tree.given) or [m.clique for m in columns.tables]
        with report_stage(listener, "measure marginals"):
            named = allocate_to_required(merged.domain, self.marginals, self.emphasis, merged.accounting)
            sized = (
                list(named.values())
                if list(named) == cliques
                else by_size([merged.domain.cells(c) for c in cliques], merged.accounting)
            )
            weights = self.weights if len(self.weights) == len(cliques) else sized
            noisy = merged.measure(cliques, share=merged.left, weights=weights)
        # The stopping estimate of a probed fit is proved for Gaussian noise only.
        probe = None if merged.accounting.is_pure else rng
        tables = [*columns.tables, *noisy]
        model = fit_as(self.solver, self.passes, merged.domain, tables, tree=tree, probe=probe, listener=listener)
        return columns.unfold(model)

    @property
    def _chooses(self) -> bool:
        """Whether marginals are selected by the scores of all pairs."""
        return self.selection == "privbayes-indif" and not self.marginals

    def _cliques(self, domain: Domain) -> list[Clique]:
        named = [make_clique(names) for names in self.marginals]
        chain = [make_clique(pair) for pair in zip(domain.names, domain.names[1:], strict=False)]
        return named or chain or [make_clique(domain.names)]
