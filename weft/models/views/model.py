"""Views as a model: any marginal by what they tell of it, and records adjusted to all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, get_args

import numpy as np

from weft.marginals.domain import Domain, clique
from weft.marginals.marginal import Array, Marginal
from weft.marginals.records import Records
from weft.models import stored
from weft.models.gum.model import GumModel
from weft.models.views.reconstruct import Solver, reconstruct
from weft.progress import Listener, silence

MOST_CELLS = 1 << 20
"""Cells of a table that is worked out; larger ones are counted on records."""


@dataclass(frozen=True)
class ViewsModel:
    """Non-negative tables that agree, with a solver for what lies across them; GUM makes records of them."""

    kind: ClassVar[str] = "views"
    fixed_records: ClassVar[bool] = False
    relates_columns: ClassVar[bool] = True

    records: GumModel
    """The views, and how records are made of them."""
    solver: Solver = "entropy"

    @property
    def domain(self) -> Domain:
        """The attributes of the views."""
        return self.records.domain

    @property
    def total(self) -> float:
        """Noisy number of rows."""
        return self.records.total

    @cached_property
    def views(self) -> tuple[Marginal, ...]:
        """The tables."""
        return self.records.tables

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return the projection of a view that has the columns, else the table that fits what all views tell."""
        return self.answered(columns)[0]

    def answered(self, columns: Sequence[str]) -> tuple[Array, int]:
        """Return the same, and on how many records it was counted: none, unless the table is very large."""
        wanted = clique(columns)
        if not wanted or self.domain.cells(wanted) > MOST_CELLS:
            return self.records.answered(wanted)
        made = reconstruct(wanted, self.domain.sizes(wanted), self.views, self.total, self.solver)
        return made, 0

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = silence) -> Records:
        """Make n records."""
        return self.records.sample(n, rng, listener)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what a model file keeps."""
        values, arrays = self.records.to_arrays()
        return {"solver": self.solver, "records": values}, arrays

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the model."""
        held = meta.get("records")
        if not isinstance(held, dict) or meta.get("solver") not in get_args(Solver):
            raise stored.damaged("its views say nothing of how they are used")
        return cls(GumModel.from_arrays(domain, held, arrays), meta["solver"])
