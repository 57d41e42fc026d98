"""Marginal engineering before a recipe begins: which attributes it sees, and how the others are filled in.

DPSyn, sections 5.3 and 5.4. Columns that follow from others are left out of all tables, which columns are missing is
counted as one attribute, and wide ones are counted in given bins together with others. The recipe works on what is
left; `weft.workload` makes an arrangement from a plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Domain, Order, clique
from weft.marginals.marginal import Array
from weft.models import Model
from weft.models.arranged import ArrangedModel, Fill, Pattern
from weft.privacy.noise import LARGEST_SCALE
from weft.progress import Listener, silence, stage


@dataclass(frozen=True)
class Learned:
    """A column that is filled in from another by a map that one noisy table over both tells."""

    name: str
    anchor: str
    weight: float = 1.0
    """Its part of what all such tables cost."""
    missing: int | None = None
    """A code that is never an answer, because a pattern decides about it."""


@dataclass(frozen=True)
class Arrangement:
    """What a recipe sees of a table, and how the rest is made."""

    patterns: tuple[Pattern, ...] = ()
    fills: tuple[Fill | Learned, ...] = ()
    bins: Mapping[str, Array] = field(default_factory=dict)
    """Coarse codes of some attributes, by public bins: counted fine alone, and in these together with others."""
    share_maps: float = 0.0
    """Share of the budget for the tables that maps are learned from."""

    def __bool__(self) -> bool:
        return bool(self.patterns or self.fills)

    @property
    def learned(self) -> list[Learned]:
        """The columns whose map has to be learned."""
        return [fill for fill in self.fills if isinstance(fill, Learned)]

    def kept(self, domain: Domain) -> list[str]:
        """Return the attributes that a recipe sees, patterns last."""
        filled = {fill.name for fill in self.fills}
        return [*(name for name in domain if name not in filled), *(pattern.name for pattern in self.patterns)]

    def domain(self, domain: Domain) -> Domain:
        """Return what a recipe sees."""
        inside = domain.project([name for name in self.kept(domain) if name in domain])
        sizes = (*inside.shape, *(pattern.size for pattern in self.patterns))
        orders = (*inside.orders, *(Order() for _ in self.patterns))
        return Domain(tuple(self.kept(domain)), sizes, orders, inside.impossible)

    def view(self, curator: Curator) -> Curator:
        """Return the curator that a recipe is given."""
        if not self:
            return curator
        joined = {pattern.name: pattern.maps(curator.domain) for pattern in self.patterns}
        return curator.arrange(joined, self.kept(curator.domain))

    def check(self, curator: Curator) -> None:
        """Refuse a share so small that the noise on the tables for maps could not be drawn."""
        for each in self.learned:
            if not curator.sigma(self._part(each)) <= LARGEST_SCALE:
                raise MethodError(
                    f"column {each.name!r}: the weight of its map is too small for this budget. Raise it, or epsilon."
                )

    def _part(self, fill: Learned) -> float:
        return self.share_maps * fill.weight / sum(each.weight for each in self.learned)

    def learn_maps(self, curator: Curator, listener: Listener = silence) -> tuple[Fill, ...]:
        """Measure one table for each map that is learned, and take each value's most frequent companion."""
        if not self.learned:
            return tuple(fill for fill in self.fills if isinstance(fill, Fill))
        cliques = [clique((each.name, each.anchor)) for each in self.learned]
        with stage(listener, "learn maps"):
            weights = [each.weight for each in self.learned]
            noisy = dict(
                zip((e.name for e in self.learned), curator.measure(cliques, self.share_maps, weights), strict=True)
            )
        made = []
        for fill in self.fills:
            if isinstance(fill, Learned):
                found = noisy[fill.name]
                table = np.moveaxis(np.asarray(found.table, np.float64), found.clique.index(fill.anchor), 0).copy()
                if fill.missing is not None and table.shape[1] > 1:
                    table[:, fill.missing] = -np.inf
                made.append(Fill(fill.name, fill.anchor, table.argmax(axis=1)))
            else:
                made.append(fill)
        return tuple(made)

    def whole(self, domain: Domain, model: Model, fills: tuple[Fill, ...]) -> Model:
        """Return a model of what the recipe saw as one of all attributes."""
        return ArrangedModel(domain, model, self.patterns, fills) if self else model
