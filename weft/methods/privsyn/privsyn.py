"""PrivSyn (Zhang, Wang, Li, Honorio, Backes, He, Chen, Zhang; USENIX Security 2021), Algorithm 3.

One-way marginals decide which rare values are merged; the InDif of all pairs decides which pairs are measured
(DenseMarg); overlapping pairs are merged into larger cliques; measurements are made consistent; GUM generates records.

Where the defaults differ from the paper (`preset="paper"`):
- `accounting` gaussian, published paper: exact Gaussian DP adds less noise than closed-form zCDP.
- `rare_values` neighbours, published one: by default, rare ordered values join their neighbours, and the code of rare
  values is kept even if its count is small.
- `gum` {}, published {"strategy": "half-duplicate", "iterations": 100, "length": 20, "tolerance": 0.0}: by default,
  each update considers all marginals ("guided"; docs/decisions/005); published GUM has strategy S5, alpha from 1
  multiplied by 0.84 every 20 of 100 iterations, and no early stopping.

With the preset as well:
- InDif noise follows Theorem 5, N(0, 8m/rho); the running text's N(0, m^2 rho^2) is a misprint.
- The number of records is estimated from noisy marginals and delta is an input; the paper uses n and 1/n^2.
- One-way marginals are charged once: after merging, they enter the consistency step and are not measured again. The
  authors' code measured them again without a charge.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from weft.bounds import Bounds, Cells, Deviations, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import NoisyMarginal
from weft.marginals.pooling import common_total
from weft.marginals.reconciliation import reconcile
from weft.methods.common.allocation import by_size
from weft.methods.common.budget_checks import check_marginals, check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.final_fit import GUM, check_gum
from weft.methods.common.indif_network import indif_families
from weft.methods.common.options import Published, get_published_settings, only_with, only_without, option
from weft.methods.common.required_marginals import allocate_to_required, check_emphasis, check_given
from weft.methods.privsyn.marginal_selection import combine_cliques, dense_marginals
from weft.models.gum.gum_model import GumModel, GumOptions
from weft.models.gum.gum_presets import PRIVSYN
from weft.models.recoded import RecodedModel
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage

_DENSE = (only_without("marginals"), only_with("selection", "dense"))


@dataclass(frozen=True)
class PrivSyn:
    """Many small marginals, selected by dependence, and records updated to match all of them (GUM)."""

    completes_seeds: ClassVar[bool] = False
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="paper",
        share_columns=0.1,
        share_scores=0.1,
        rare=3.0,
        rare_values="one",
        selection="dense",
        connect=False,
        max_cells=5000,
        allocation="weighted",
        gum={**PRIVSYN, "tolerance": 0.0},
    )

    accounting: AccountingName = option(
        "gaussian", '"gaussian"; "paper", the published bound; "pure", geometric noise (Laplace in the paper).'
    )
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals.")
    share_scores: Share = option(0.1, "Share for the InDif of all pairs.", only_without("marginals"))
    rare: Deviations = option(3.0, "Values whose noisy count is below this many standard deviations are merged.")
    rare_values: Literal["neighbours", "one"] = option(
        "neighbours",
        "Rare ordered values join their neighbours; or all rare values share one code, emptied if it is rare too.",
    )
    selection: Literal["dense", "privbayes-indif"] = option(
        "dense", "DenseMarg, or the sparse network that the paper compares with.", only_without("marginals")
    )
    marginals: Sequence[Sequence[str]] = option((), "Required marginals, measured instead of selected ones.")
    emphasis: Annotated[Sequence[float], Bounds(1e-6, 1e6, 100_000)] = option(
        (), "With marginals: factors on their parts of the budget. Empty: all 1."
    )
    exact: Sequence[Sequence[str]] = option((), "With marginals: those that records match exactly.")
    must_include: Sequence[Sequence[str]] = option((), "Marginals measured regardless of their InDif.", *_DENSE)
    connect: bool = option(False, "Join attributes in no selected pair to the others by their best pair.", *_DENSE)
    rare_rows: Annotated[float, Bounds(0.0, 1e12)] = option(0.0, "Values with a noisy count below this are merged too.")
    max_cells: Cells = option(5000, "Maximum cells of merged pairs (the paper's gamma).", *_DENSE)
    allocation: Literal["weighted", "equal"] = option(
        "weighted", "Divide the budget by cells^(2/3), if pure by cells^(1/2); or evenly."
    )
    gum: Mapping[str, Any] = option({}, 'GUM settings, e.g. {"iterations": 9}; see `gum_model.GumOptions`.', parts=GUM)

    def check(self, domain: Domain) -> None:
        """Validate shares, marginals and the settings of GUM."""
        check_shares(share_columns=self.share_columns, share_scores=self.share_scores)
        check_given(domain, self.marginals, self.emphasis)
        check_marginals(domain, [*self.exact, *self.must_include])
        if not {make_clique(names) for names in self.marginals}.issuperset(make_clique(names) for names in self.exact):
            raise MethodError("option exact: expected some of the marginals. Add them to marginals, too.")
        check_gum(self.gum)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> RecodedModel:
        """Follow Algorithm 3; the numbers are its lines."""
        d = len(curator.domain)
        check_noise(curator, share_columns=(self.share_columns, d), share_scores=(self.share_scores, math.comb(d, 2)))
        check_emphasis(curator, self.marginals, self.emphasis, 1 - self.share_columns - self.share_scores)
        columns = measure_columns(  # 1-4: one-way marginals, rare values
            curator, self.share_columns, self.rare, listener, self.rare_rows, one_code=self.rare_values == "one"
        )
        merged = columns.curator
        with report_stage(listener, "choose marginals"):  # 5-7: InDif, DenseMarg, combine
            chosen = self._choose(merged, columns.tables) or [m.clique for m in columns.tables]
        with report_stage(listener, "measure marginals"):  # 8: weighted Gaussian
            measured = merged.measure(chosen, share=merged.left, weights=self._weights(merged.domain, chosen))
        with report_stage(listener, "reconcile"):  # 9: consistency under uneven budgets
            tables = reconcile([*columns.tables, *columns.emptied(measured)])
        # An attribute measured twice (if no pair was selected) has two consistent tables: keep one.
        different = {table.clique: table for table in tables.tables}
        exact = tuple(dict.fromkeys(make_clique(names) for names in self.exact))
        model = GumModel(merged.domain, tables.total, tuple(different.values()), GumOptions(**self.gum), exact)
        return columns.unfold(model)  # 10-12: GUM and decoding, when records are sampled

    def _choose(self, curator: Curator, alone: Sequence[NoisyMarginal]) -> list[Clique]:
        if self.marginals:
            return list(dict.fromkeys(make_clique(names) for names in self.marginals))
        dependence = curator.dependence(share=self.share_scores)
        if self.selection == "privbayes-indif":
            return indif_families(curator, dependence, common_total(alone)[0])
        pairs = dense_marginals(
            dependence,
            curator.domain,
            curator.rho(curator.left),
            must_include=[make_clique(names) for names in self.must_include],
            connect=self.connect,
        )
        return combine_cliques(pairs, curator.domain, max_cells=self.max_cells, dependence=dependence)

    def _weights(self, domain: Domain, cliques: Sequence[Clique]) -> list[float] | None:
        even = self.allocation == "equal"
        if self.marginals:
            return list(
                allocate_to_required(domain, self.marginals, self.emphasis, self.accounting, even=even).values()
            )
        return None if even else by_size([domain.cells(c) for c in cliques], self.accounting)
