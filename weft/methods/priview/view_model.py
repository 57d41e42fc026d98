"""Views as a model: any marginal by what they tell of it, and records adjusted to all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Marginal
from weft.marginals.records import Records
from weft.models import stored_arrays as stored
from weft.models.gum.gum_model import GumModel
from weft.progress import Listener, ignore_event

# Any marginal from views that agree with each other (PriView, section 4.4): one table that fits all they tell of it.

Solver = Literal["entropy", "least-squares", "linear"]
"""How a table is chosen among those that fit."""

SWEEPS = 1_000
TOLERANCE = 1e-8
SMALL = 1e-3
"""What the norm weighs beside the sums."""
MAX_DENSE_CELLS = 1_024
"""Cells up to which the systems of the two other solvers are written out."""


def project_views(wanted: Clique, views: Sequence[Marginal]) -> list[Marginal]:
    """Return what views tell of a set of attributes: their projections onto it, none inside another's."""
    found: dict[Clique, Marginal] = {}
    for view in sorted(views, key=lambda m: m.cells):
        shared = tuple(name for name in wanted if name in view.clique)
        if shared and shared not in found:
            found[shared] = view
    largest = [c for c in found if not any(set(c) < set(other) for other in found)]
    return [found[c].project(c) for c in largest]


def reconstruct_marginal(
    wanted: Clique, shape: Sequence[int], views: Sequence[Marginal], total: float, solver: Solver = "entropy"
) -> Array:
    """Return a table over these attributes, of this total and without negative cells, that fits the views."""
    constraints = project_views(wanted, views)
    whole = next((m for m in constraints if m.clique == wanted), None)
    if whole is not None:
        return np.asarray(whole.table, np.float64)
    if solver == "entropy":
        return max_entropy(wanted, shape, constraints, total)
    if int(np.prod(shape)) > MAX_DENSE_CELLS:
        raise MethodError(f"option solver: {solver} is for tables of at most {MAX_DENSE_CELLS:,} cells; choose entropy")
    solve = _least_norm if solver == "least-squares" else _any_feasible
    return _scale_to_total(solve(*_build_linear_system(wanted, shape, constraints)).reshape(shape), total)


def max_entropy(wanted: Clique, shape: Sequence[int], constraints: Sequence[Marginal], total: float) -> Array:
    """Scale a uniform table to each constraint in turn, again and again (iterative proportional fitting)."""
    table = np.full(shape, total / max(int(np.prod(shape)), 1))
    for _ in range(SWEEPS):
        before = table
        for part in constraints:
            axes = tuple(i for i, name in enumerate(wanted) if name not in part.clique)
            now = table.sum(axis=axes, keepdims=True)
            goal = np.asarray(part.table, np.float64).reshape(now.shape)
            table = table * np.where(now > 0, goal / np.where(now > 0, now, 1.0), 0.0)
        if np.abs(table - before).sum() <= TOLERANCE * max(total, 1e-300):
            break
    return _scale_to_total(table, total)


def _scale_to_total(table: Array, total: float) -> Array:
    made = np.maximum(table, 0.0)
    mass = float(made.sum())
    return made * (total / mass) if mass > 0 else np.full(table.shape, total / table.size)


def _build_linear_system(wanted: Clique, shape: Sequence[int], constraints: Sequence[Marginal]) -> tuple[Array, Array]:
    """Return the sums that views tell as rows of a matrix over cells, and their values."""
    places = np.indices(shape).reshape(len(shape), -1)
    rows, goals = [], []
    for part in constraints:
        axes = [wanted.index(name) for name in part.clique]
        cell = np.ravel_multi_index([places[axis] for axis in axes], part.table.shape)
        rows.append(np.arange(part.cells)[:, None] == cell)
        goals.append(np.asarray(part.table, np.float64).ravel())
    return np.concatenate(rows).astype(np.float64), np.concatenate(goals)


def _least_norm(matrix: Array, goals: Array) -> Array:
    """Return cells of 0 and more with nearly these sums, of the least norm."""
    from scipy.optimize import nnls

    cells = matrix.shape[1]
    stacked = np.concatenate([matrix, np.eye(cells) * SMALL])
    return np.asarray(nnls(stacked, np.append(goals, np.zeros(cells)))[0])


def _any_feasible(matrix: Array, goals: Array) -> Array:
    """Return cells of 0 and more whose sums are off by as little as can be, in the worst of them."""
    from scipy.optimize import linprog

    cells = matrix.shape[1]
    slack = np.ones((len(goals), 1))
    found = linprog(
        np.append(np.zeros(cells), 1.0),
        A_ub=np.block([[matrix, -slack], [-matrix, -slack]]),
        b_ub=np.concatenate([goals, -goals]),
        bounds=(0, None),
        method="highs",
    )
    return np.asarray(found.x[:cells])


MAX_VIEW_CELLS = 1 << 20
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
        wanted = make_clique(columns)
        if not wanted or self.domain.cells(wanted) > MAX_VIEW_CELLS:
            return self.records.answered(wanted)
        made = reconstruct_marginal(wanted, self.domain.sizes(wanted), self.views, self.total, self.solver)
        return made, 0

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
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
            raise stored.make_damage_error("its views say nothing of how they are used")
        return cls(GumModel.from_arrays(domain, held, arrays), meta["solver"])
