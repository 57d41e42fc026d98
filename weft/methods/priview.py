"""PriView (Qardaji, Yang, Li; SIGMOD 2014; as told in DPSyn, section 3.3): a few views that cover all pairs or triples.

Nothing is asked about which columns belong together: the budget goes to views of some six binary columns each, chosen
by a covering design without looking. The views are made to agree and to be non-negative; any other marginal is the
table of maximum entropy that fits what they tell of it.

Where this differs from the paper:
- Columns need not be binary: a view is bounded by its cells (`max_cells`), not by its columns, and rare values are
  merged first, by one-way marginals that also tell the number of rows.
- Views have six binary columns, not eight: Gaussian noise grows with the root of their number, Laplace noise with the
  number, so that more and smaller views are better here (3-way error on nltcs at epsilon 1: .0042 and .0051).
- Noise is Gaussian with exact accounting; `accounting="pure"` is the paper's Laplace noise (here geometric).
- After Ripple the views are brought to exact agreement without negative cells, so that GUM can make records of them.
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
from weft.methods.steps.columns import check_noise, check_shares, look_at_columns
from weft.methods.steps.options import check_fields, option
from weft.models.gum.model import GumModel, GumOptions
from weft.models.recoded import RecodedModel
from weft.models.views.model import ViewsModel
from weft.models.views.reconstruct import Solver
from weft.privacy import Accounting
from weft.progress import Listener, silence, stage
from weft.reconcile import common_total, consistent, reconcile
from weft.reconcile.ripple import ripple
from weft.select.views import covering_views, feasible, fewest_views, random_views

RIPPLES = 3
"""Rounds of agreement and Ripple."""


@dataclass(frozen=True)
class PriView:
    """Views that cover all pairs, or all triples, chosen without looking; any marginal follows by maximum entropy."""

    completes_seeds: ClassVar[bool] = False

    accounting: Accounting = option(
        "gaussian", '"gaussian"; "paper" for zCDP with the closed form; "pure" for the geometric noise of the paper.'
    )
    views: Literal["covering", "random"] = option(
        "covering", "How views are chosen: a covering design, or at random and as many."
    )
    strength: Annotated[int, Bounds(0, 5)] = option(
        0, "Columns of which every set is in some view (the paper's t); 0: by the rows, the columns and the budget."
    )
    most_strength: Annotated[int, Bounds(1, 5)] = option(3, "The largest strength that is chosen by itself.")
    noise: Annotated[float, Bounds(1e-6, 1.0)] = option(
        0.002, "Noise of a cell of a view, as a share of the rows, up to which a larger strength is chosen."
    )
    max_cells: Annotated[int | None, Bounds(2, 1 << 20)] = option(
        None, "Cells of a view. None: 64, which are six binary columns; 1,000 where columns are not all binary."
    )
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals, which tell the number of rows.")
    rare: Deviations = option(3.0, "Values whose noisy count is below this many standard deviations are merged.")
    nonnegativity: Literal["ripple", "simplex"] = option(
        "ripple", "How cells below zero are mended: the paper's Ripple first, or the nearest table at once."
    )
    solver: Solver = option(
        "entropy", 'How other marginals are worked out: "entropy", or the paper\'s "least-squares" and "linear".'
    )
    gum: Mapping[str, Any] = option(
        {}, 'Options of the synthesis by name, such as {"iterations": 100}; see `weft.models.gum.model.GumOptions`.'
    )

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing, a strength that cannot be, and unknown options of the synthesis."""
        check_shares(share_columns=self.share_columns)
        if self.strength and not feasible(domain, min(self.strength, len(domain))):
            raise MethodError(
                f"option strength: {self.strength} of {len(domain)} columns make too many sets; choose a smaller one."
            )
        check_fields("gum", self.gum, GumOptions)
        try:
            GumOptions(**self.gum)
        except ValueError as error:
            raise MethodError(f"option gum: {error}") from None

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> RecodedModel:
        """One-way marginals, views by design, agreement, and the model."""
        check_noise(curator, share_columns=(self.share_columns, len(curator.domain)))
        columns = look_at_columns(curator, self.share_columns, self.rare, listener)
        merged = columns.curator
        rows = max(common_total(columns.tables)[0], 1.0)
        with stage(listener, "choose views"):  # by the noisy number of rows, the columns and the budget alone
            chosen = self._choose(merged, rows, rng)
        with stage(listener, "measure views"):
            noisy = merged.measure(chosen, share=merged.left)
        with stage(listener, "reconcile"):
            every = [*columns.tables, *noisy]
            total = max(common_total(every)[0], 1.0)
            tables = reconcile(self._rippled(every, total), total=total)
        different = {table.clique: table for table in tables.tables}
        records = GumModel(merged.domain, tables.total, tuple(different.values()), GumOptions(**self.gum))
        return columns.unfold(ViewsModel(records, self.solver))

    def _choose(self, curator: Curator, rows: float, rng: np.random.Generator) -> list[Clique]:
        domain = curator.domain
        cells = self.max_cells or (64 if max(domain.shape) <= 2 else 1_000)
        views = covering_views(domain, self.strength or self._strength(curator, rows, cells), cells, rng)
        return random_views(domain, len(views), cells, rng) if self.views == "random" else views

    def _strength(self, curator: Curator, rows: float, cells: int) -> int:
        """Return the largest strength at which the views that it takes leave a cell little noise."""
        best = min(2, len(curator.domain))
        for t in range(best + 1, min(self.most_strength, len(curator.domain)) + 1):
            few = fewest_views(curator.domain, t, cells)
            if feasible(curator.domain, t) and curator.sigma(curator.left / few) <= self.noise * rows:
                best = t
        return min(best, self.most_strength)

    def _rippled(self, noisy: Sequence[NoisyMarginal], total: float) -> list[NoisyMarginal]:
        """Alternate agreement and Ripple, as the paper does."""
        tables = list(noisy)
        if self.nonnegativity == "simplex":
            return tables
        for _ in range(RIPPLES):
            agreed = consistent(tables, total=total)
            theta = min(m.sigma for m in tables) / 10
            tables = [replace(m, table=ripple(a.table, theta)) for m, a in zip(tables, agreed, strict=True)]
        return tables
