"""PriView (Qardaji, Yang, Li; SIGMOD 2014; as in DPSyn, section 3.3): a few views that cover all pairs or triples.

Selection uses no budget: a data-independent covering design chooses views of some six binary attributes each. The views
are made consistent and non-negative; any other marginal is the table of maximum entropy given its projections.

Where the defaults differ from the paper (`preset="paper"`):
- `accounting` gaussian, published pure: the paper's Laplace noise (here geometric), for a delta of 0.
- `max_cells` null, published 256: views of eight binary attributes, by default six. Gaussian noise grows with the
  square root of the number of views, Laplace noise linearly, so more and smaller views suit Gaussian noise (3-way error
  on nltcs at epsilon 1: .0042 against .0051).
- `share_columns` 0.1, published 0.01: by default, it is spent on the one-way marginals, which estimate the number of
  rows and decide which rare values are merged; in the paper, the number of rows is public; here, it is charged.
- `rare` 3.0, published 0.0: the paper merges no values; its attributes are binary.

With the preset as well:
- Attributes need not be binary: a view is limited by its cells (`max_cells`), not by its attributes.
- After Ripple, the views are made exactly consistent and non-negative, so that GUM can generate records from them.
- The strength t is the largest up to `most_strength` at which the noise of a cell stays below `noise` of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from weft.bounds import Bounds, Deviations, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import NoisyMarginal
from weft.marginals.pooling import common_total
from weft.marginals.reconciliation import make_consistent, reconcile
from weft.marginals.simplex import apply_ripple
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.final_fit import GUM, check_gum
from weft.methods.common.options import Published, get_published_settings, only_without, option
from weft.methods.common.view_cover import can_list_sets, fewest_views, find_covering_views, random_views
from weft.methods.priview.view_model import Solver, ViewsModel
from weft.models import Model
from weft.models.gum.gum_model import GumModel, GumOptions
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage

RIPPLES = 3
"""Rounds of consistency and Ripple."""


@dataclass(frozen=True)
class PriView:
    """Data-independent views that cover all pairs or triples; other marginals by maximum entropy."""

    completes_seeds: ClassVar[bool] = False
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="pure",
        views="covering",
        most_strength=3,
        max_cells=256,
        share_columns=0.01,
        rare=0.0,
        nonnegativity="ripple",
        solver="entropy",
    )

    accounting: AccountingName = option("gaussian", '"gaussian"; "paper", closed-form zCDP; "pure", geometric noise.')
    views: Literal["covering", "random"] = option("covering", "A covering design, or as many random views.")
    strength: Annotated[int, Bounds(0, 5)] = option(
        0, "Every set of this many attributes is in some view (the paper's t); 0: by rows, attributes and budget."
    )
    most_strength: Annotated[int, Bounds(1, 5)] = option(3, "Maximum automatic strength.", only_without("strength"))
    noise: Annotated[float, Bounds(1e-6, 1.0)] = option(
        0.002, "Maximum cell noise, as a share of the rows, for a larger strength.", only_without("strength")
    )
    max_cells: Annotated[int | None, Bounds(2, 1 << 20)] = option(
        None, "Maximum cells of a view. None: 64 (six binary attributes); 1,000 if attributes are not all binary."
    )
    share_columns: Share = option(0.1, "Share for one-way marginals, or for the number of rows if rare is 0.")
    rare: Deviations = option(3.0, "Threshold for merging rare values, in standard deviations; 0: only rows counted.")
    nonnegativity: Literal["ripple", "simplex"] = option("ripple", "Ripple first, or projection to the simplex only.")
    solver: Solver = option("entropy", 'Other marginals by "entropy", or the paper\'s "least-squares" or "linear".')
    gum: Mapping[str, Any] = option({}, 'GUM settings, e.g. {"iterations": 9}; see `gum_model.GumOptions`.', parts=GUM)

    def check(self, domain: Domain) -> None:
        """Validate the budget share, the strength and the settings of GUM."""
        check_shares(share_columns=self.share_columns)
        if self.strength and not can_list_sets(domain, min(self.strength, len(domain))):
            raise MethodError(f"option strength: {self.strength} of {len(domain)} attributes: too many sets. Lower it.")
        check_gum(self.gum)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> Model:
        """Measure one-way marginals and views, and make them consistent."""
        check_noise(curator, share_columns=(self.share_columns, len(curator.domain)))
        if self.rare <= 0:
            with report_stage(listener, "count"):
                count = curator.total(self.share_columns)
            return self._learn(curator, [], count, rng, listener)
        columns = measure_columns(curator, self.share_columns, self.rare, listener)
        return columns.unfold(self._learn(columns.curator, columns.tables, None, rng, listener))

    def _learn(
        self,
        curator: Curator,
        alone: list[NoisyMarginal],
        count: NoisyMarginal | None,
        rng: np.random.Generator,
        listener: Listener,
    ) -> ViewsModel:
        """Measure views and make them consistent with `alone` and `count`."""
        counted = [] if count is None else [count]
        rows = max(common_total([*alone, *counted])[0], 1.0)
        with report_stage(listener, "choose views"):  # depends on the noisy number of rows, domain and budget only
            chosen = self._choose(curator, rows, rng)
        with report_stage(listener, "measure views"):
            noisy = curator.measure(chosen, share=curator.left)
        with report_stage(listener, "reconcile"):
            every = [*alone, *noisy]
            total = max(common_total([*every, *counted])[0], 1.0)
            tables = reconcile(self._rippled(every, total), total=total)
        different = {table.clique: table for table in tables.tables}
        records = GumModel(curator.domain, tables.total, tuple(different.values()), GumOptions(**self.gum))
        return ViewsModel(records, self.solver)

    def _choose(self, curator: Curator, rows: float, rng: np.random.Generator) -> list[Clique]:
        domain = curator.domain
        cells = self.max_cells or (64 if max(domain.shape) <= 2 else 1_000)
        views = find_covering_views(domain, self.strength or self._strength(curator, rows, cells), cells, rng)
        return random_views(domain, len(views), cells, rng) if self.views == "random" else views

    def _strength(self, curator: Curator, rows: float, cells: int) -> int:
        """Return the largest strength whose views keep the noise of a cell within `noise`."""
        best = min(2, len(curator.domain))
        for t in range(best + 1, min(self.most_strength, len(curator.domain)) + 1):
            few = fewest_views(curator.domain, t, cells)
            if can_list_sets(curator.domain, t) and curator.sigma(curator.left / few) <= self.noise * rows:
                best = t
        return min(best, self.most_strength)

    def _rippled(self, noisy: Sequence[NoisyMarginal], total: float) -> list[NoisyMarginal]:
        """Alternate consistency and Ripple, as in the paper."""
        tables = list(noisy)
        if self.nonnegativity == "simplex":
            return tables
        for _ in range(RIPPLES):
            agreed = make_consistent(tables, total=total)
            theta = min(m.sigma for m in tables) / 10
            tables = [replace(m, table=apply_ripple(a.table, theta)) for m, a in zip(tables, agreed, strict=True)]
        return tables
