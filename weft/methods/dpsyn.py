"""DPSyn (Li, Zhang, Wang; J. Privacy and Confidentiality 2021): engineered marginals, made consistent, and GUM.

The winners' approach to NIST's challenge: somebody who knows the data names the marginals that matter (`--marginals
plan.toml`, sections 5.2 to 5.4), rare values are compressed by noisy one-way counts, all tables are made to agree, and
records are adjusted to them. Without a plan, it draws random views as the concept paper does (section 4).

Where this differs from the paper:
- Views are limited by their cells: the paper leaves open how many columns a view has where these are not binary.
- Noise is exact Gaussian DP, or geometric where fewer marginals make that the smaller one (section 2.5).
- Compressed values are drawn again by their noisy counts, not evenly, and those whose sum is small are kept too.
- GUM weighs each change against all tables; `preset="paper"` has the challenge's constant alpha and 100 iterations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from weft.bounds import Bounds, Cells, Deviations, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, clique
from weft.marginals.marginal import Marginal
from weft.methods.steps.columns import check_noise, check_shares, look_at_columns
from weft.methods.steps.given import check_emphasis, check_given, random_views, weighed
from weft.methods.steps.options import check_fields, option
from weft.models import Model
from weft.models.gum.model import GumModel, GumOptions
from weft.models.joined import JoinedModel
from weft.models.recoded import RecodedModel
from weft.privacy import Accounting
from weft.progress import Listener, silence, stage
from weft.reconcile import reconcile


@dataclass(frozen=True)
class DpSyn:
    """Marginals of your plan, or random views; rare values compressed, tables made to agree, records adjusted."""

    completes_seeds: ClassVar[bool] = False

    marginals: Sequence[Sequence[str]] = option(
        (), "The marginals to measure; on the command line, a plan (--marginals FILE). Empty: random views."
    )
    emphasis: Annotated[Sequence[float], Bounds(1e-6, 1e6, 100_000)] = option(
        (), "Factors on their parts of the budget, which go by cells^(2/3), or their root if pure. Empty: all 1."
    )
    exact: Sequence[Sequence[str]] = option((), "Of these, marginals that records match to the last one.")
    parts: Sequence[Sequence[str]] = option(
        (), "Columns synthesised apart and joined, on the columns that they share. Empty: all together."
    )
    accounting: Accounting = option(
        "gaussian", '"gaussian"; "paper" for zCDP with the closed form; "pure" for geometric noise.'
    )
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals.")
    rare: Deviations = option(4.5, "Values whose noisy count is below this many standard deviations are merged.")
    rare_rows: Annotated[float, Bounds(0.0, 1e12)] = option(
        0.0, "And so are values with fewer rows than this; 800 in the challenge, of 300,000 rows and more."
    )
    views: Annotated[int, Bounds(1, 10_000)] = option(50, "Without marginals: random views to draw.")
    view_cells: Cells = option(256, "Without marginals: most cells of a view, as eight binary columns have.")
    view_columns: Annotated[int, Bounds(2, 100)] = option(8, "Without marginals: most columns of a view.")
    preset: Literal["weft", "paper"] = option(
        "weft", 'How GUM changes records: Weft\'s way, or "paper": alpha 0.2 in each of 100 iterations.'
    )
    gum: Mapping[str, Any] = option(
        {}, 'Options of GUM by name, such as {"iterations": 20}; see `weft.models.gum.model.GumOptions`.'
    )

    def check(self, domain: Domain) -> None:
        """Refuse columns that do not exist, shares that leave nothing, parts that a marginal crosses."""
        check_shares(share_columns=self.share_columns)
        check_given(domain, self.marginals, self.emphasis)
        check_given(domain, self.exact, ())
        named = {clique(names) for names in self.marginals}
        if not named.issuperset(clique(names) for names in self.exact):
            raise MethodError("option exact: it takes some of the marginals; name them there, too.")
        check_parts(domain, self.parts, named)
        check_fields("gum", self.gum, GumOptions)
        try:
            self._options()
        except ValueError as error:
            raise MethodError(f"option gum: {error}") from None

    def _options(self) -> GumOptions:
        return GumOptions.challenge(**self.gum) if self.preset == "paper" else GumOptions(**self.gum)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> RecodedModel:
        """Measure columns, compress, measure the marginals, make them agree; records are adjusted when asked for."""
        check_noise(curator, share_columns=(self.share_columns, len(curator.domain)))
        check_emphasis(curator, self.marginals, self.emphasis, 1 - self.share_columns)
        columns = look_at_columns(curator, self.share_columns, self.rare, listener, self.rare_rows)
        merged = columns.curator
        if self.marginals:
            told, chosen = "measure marginals", list(self.marginals)
        else:
            told = "draw random views (no plan of marginals was given) and measure them"
            drawn = random_views(merged.domain, self.views, self.view_cells, self.view_columns, rng)
            chosen = [c for c in drawn if _inside(c, self.parts)] or [m.clique for m in columns.tables]
        with stage(listener, told):
            prices = weighed(merged.domain, chosen, self.emphasis if self.marginals else (), self.accounting)
            published = merged.measure(list(prices), share=merged.left, weights=list(prices.values()))
        with stage(listener, "reconcile"):
            tables = reconcile([*columns.tables, *published])
        # A column that was measured twice has two tables that now agree: one is enough.
        different = {table.clique: table for table in tables.tables}
        return columns.unfold(self._model(merged.domain, max(tables.total, 1.0), tuple(different.values())))

    def _model(self, domain: Domain, total: float, tables: tuple[Marginal, ...]) -> Model:
        exact = tuple(dict.fromkeys(clique(names) for names in self.exact))
        if not self.parts:
            return GumModel(domain, total, tables, self._options(), exact)
        made = []
        for names in all_parts(domain, self.parts):
            inside = [name for name in domain if name in names]
            own = tuple(table for table in tables if set(table.clique) <= set(inside))
            held = {table.clique for table in own}
            made.append(
                GumModel(domain.project(inside), total, own, self._options(), tuple(c for c in exact if c in held))
            )
        return JoinedModel(domain, tuple(made))


def all_parts(domain: Domain, parts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the parts, and one more of the columns that stand in none."""
    rest = [name for name in domain if not any(name in part for part in parts)]
    return [*(list(part) for part in parts), *([rest] if rest else [])]


def check_parts(domain: Domain, parts: Sequence[Sequence[str]], marginals: set[Clique]) -> None:
    """Refuse parts with unknown columns, parts inside others, and marginals over columns of several of them."""
    check_given(domain, parts, ())
    for i, part in enumerate(parts):
        if any(set(part) <= set(other) for j, other in enumerate(parts) if i != j):
            raise MethodError(f"option parts: all columns of part {i + 1} stand in another part; leave it out.")
    for c in sorted(marginals):
        if not _inside(c, all_parts(domain, parts) if parts else ()):
            raise MethodError(
                f"option parts: the marginal over {', '.join(c)} has columns of several parts; leave it out, or put "
                "them into one part."
            )


def _inside(c: Clique, parts: Sequence[Sequence[str]]) -> bool:
    return not parts or any(set(c) <= set(part) for part in parts)
