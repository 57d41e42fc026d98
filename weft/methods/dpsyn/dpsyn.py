"""DPSyn (Li, Zhang, Wang; J. Privacy and Confidentiality 2021): required marginals, consistency and GUM.

The winning approach of NIST's challenge: a domain expert lists the relevant marginals (`--marginals plan.toml`,
sections 5.2 to 5.4), rare values are merged by noisy one-way marginals, all marginals are made consistent, and records
are updated to match them. Without a plan, it draws random views as in the concept paper (section 4).

Where the defaults differ from the paper (`preset="paper"`):
- `accounting` gaussian, published paper: exact Gaussian DP adds less noise than closed-form zCDP. (A plan uses
  geometric noise where that is smaller, with few marginals; section 2.5.)
- `rare_rows` 0.0, published 800.0: the challenge's value, for 300,000 rows and more.
- `rare_values` neighbours, published one: by default, rare ordered values join their neighbours, and the code of rare
  values is kept even if its count is small.
- `allocation` weighted, published equal: in the challenge, all marginals have the same noise.
- `gum` {}, published {"strategy": "half-duplicate", "iterations": 100, "alpha": 0.2, "decay": "constant"}: by default,
  each update considers all marginals.

With the preset as well:
- Views are limited by their cells: the paper does not specify the size of views of non-binary attributes.
- Merged values are sampled by their noisy counts, not uniformly.
- All decisions depend on noisy measurements only: the challenge's code redistributed rare values by exact counts and by
  position, so one row could move many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from weft.bounds import Bounds, Cells, Deviations, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Marginal
from weft.marginals.reconciliation import reconcile
from weft.methods.common.budget_checks import check_marginals, check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.final_fit import GUM, check_gum
from weft.methods.common.options import Published, get_published_settings, only_without, option
from weft.methods.common.required_marginals import allocate_to_required, check_emphasis, check_given, random_views
from weft.methods.dpsyn.joined_model import JoinedModel
from weft.models import Model
from weft.models.gum.gum_model import GumModel, GumOptions
from weft.models.gum.gum_presets import DPSYN
from weft.models.recoded import RecodedModel
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage

_DRAWN = (only_without("marginals"),)


@dataclass(frozen=True)
class DpSyn:
    """Required marginals or random views, made consistent, and records updated to match them (GUM)."""

    completes_seeds: ClassVar[bool] = False
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="paper",
        rare=4.5,
        rare_rows=800.0,
        rare_values="one",
        views=50,
        view_columns=8,
        allocation="equal",
        gum=DPSYN,
    )

    marginals: Sequence[Sequence[str]] = option((), "Required marginals (--marginals FILE). Empty: random views.")
    emphasis: Annotated[Sequence[float], Bounds(1e-6, 1e6, 100_000)] = option(
        (), "Factors on their parts of the budget (see allocation). Empty: all 1."
    )
    exact: Sequence[Sequence[str]] = option((), "Of these, the marginals that records match exactly.")
    parts: Sequence[Sequence[str]] = option((), "Separate column groups, joined on shared columns. Empty: one group.")
    accounting: AccountingName = option("gaussian", '"gaussian"; "paper", closed-form zCDP; "pure", geometric noise.')
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals.")
    rare: Deviations = option(4.5, "Values whose noisy count is below this many standard deviations are merged.")
    rare_rows: Annotated[float, Bounds(0.0, 1e12)] = option(0.0, "Values with a noisy count below this are merged too.")
    rare_values: Literal["neighbours", "one"] = option(
        "neighbours",
        "Rare ordered values join their neighbours; or all rare values share one code, emptied if it is rare too.",
    )
    views: Annotated[int, Bounds(1, 10_000)] = option(50, "Without marginals: random views.", *_DRAWN)
    view_cells: Cells = option(256, "Without marginals: maximum cells of a random view.", *_DRAWN)
    view_columns: Annotated[int, Bounds(2, 100)] = option(8, "Without marginals: attributes of a view.", *_DRAWN)
    allocation: Literal["weighted", "equal"] = option(
        "weighted", "Divide the budget by cells^(2/3), if pure by cells^(1/2); or evenly."
    )
    gum: Mapping[str, Any] = option({}, 'GUM settings, e.g. {"iterations": 9}; see `gum_model.GumOptions`.', parts=GUM)

    def check(self, domain: Domain) -> None:
        """Validate shares, marginals, parts and the settings of GUM."""
        check_shares(share_columns=self.share_columns)
        check_given(domain, self.marginals, self.emphasis)
        check_given(domain, self.exact, ())
        named = {make_clique(names) for names in self.marginals}
        if not named.issuperset(make_clique(names) for names in self.exact):
            raise MethodError("option exact: expected some of the marginals. Add them to marginals, too.")
        check_parts(domain, self.parts, named)
        check_gum(self.gum)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> RecodedModel:
        """Measure one-way marginals, merge rare values, measure the marginals and make them consistent."""
        check_noise(curator, share_columns=(self.share_columns, len(curator.domain)))
        check_emphasis(curator, self.marginals, self.emphasis, 1 - self.share_columns)
        columns = measure_columns(
            curator, self.share_columns, self.rare, listener, self.rare_rows, one_code=self.rare_values == "one"
        )
        merged = columns.curator
        if self.marginals:
            told, chosen = "measure marginals", list(self.marginals)
        else:
            told = "draw random views (no plan of marginals given) and measure them"
            drawn = random_views(merged.domain, self.views, self.view_cells, self.view_columns, rng)
            chosen = [c for c in drawn if _lies_in_a_part(c, self.parts)] or [m.clique for m in columns.tables]
        with report_stage(listener, told):
            factors, even = self.emphasis if self.marginals else (), self.allocation == "equal"
            prices = allocate_to_required(merged.domain, chosen, factors, self.accounting, even=even)
            measured = merged.measure(list(prices), share=merged.left, weights=list(prices.values()))
        with report_stage(listener, "reconcile"):
            tables = reconcile([*columns.tables, *columns.emptied(measured)])
        # An attribute measured twice has two consistent tables: keep one.
        different = {table.clique: table for table in tables.tables}
        return columns.unfold(self._model(merged.domain, max(tables.total, 1.0), tuple(different.values())))

    def _model(self, domain: Domain, total: float, tables: tuple[Marginal, ...]) -> Model:
        exact = tuple(dict.fromkeys(make_clique(names) for names in self.exact))
        if not self.parts:
            return GumModel(domain, total, tables, GumOptions(**self.gum), exact)
        made = []
        for names in all_parts(domain, self.parts):
            inside = [name for name in domain if name in names]
            own = tuple(table for table in tables if set(table.clique) <= set(inside))
            held = {table.clique for table in own}
            made.append(
                GumModel(
                    domain.project(inside), total, own, GumOptions(**self.gum), tuple(c for c in exact if c in held)
                )
            )
        return JoinedModel(domain, tuple(made))


def all_parts(domain: Domain, parts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the parts, and one more of the remaining columns."""
    rest = [name for name in domain if not any(name in part for part in parts)]
    return [*(list(part) for part in parts), *([rest] if rest else [])]


def check_parts(domain: Domain, parts: Sequence[Sequence[str]], marginals: set[Clique]) -> None:
    """Refuse unknown columns, parts inside others, and marginals over several parts."""
    check_marginals(domain, parts)
    for i, part in enumerate(parts):
        if any(set(part) <= set(other) for j, other in enumerate(parts) if i != j):
            raise MethodError(f"option parts: all columns of part {i + 1} are in another part. Leave it out.")
    for c in sorted(marginals):
        if not _lies_in_a_part(c, all_parts(domain, parts) if parts else ()):
            raise MethodError(
                f"option parts: the marginal over {', '.join(c)} has columns of several parts. Leave it out, or merge "
                "these parts."
            )


def _lies_in_a_part(c: Clique, parts: Sequence[Sequence[str]]) -> bool:
    return not parts or any(set(c) <= set(part) for part in parts)
