"""PriView (Qardaji, Yang, Li; SIGMOD 2014; as in DPSyn, section 3.3): a few views that cover all pairs or triples.

Selection uses no budget: a data-independent covering design chooses views of some six binary attributes each. The views
are made consistent and non-negative; any other marginal is the table of maximum entropy given its projections, and GUM
generates records.

Where the defaults differ from the paper (`preset="paper"`):
- `accounting` gaussian, published pure: the paper's Laplace noise (here geometric), for a delta of 0.
- `max_cells` null, published 256: views of eight binary attributes, by default six. Gaussian noise grows with the
  square root of the number of views, Laplace noise linearly, so more and smaller views suit Gaussian noise (3-way error
  on nltcs at epsilon 1: .0042 against .0051).
- `share_columns` 0.1, published 0.01: by default, it is spent on the one-way marginals, which estimate the number of
  rows and decide which rare values are merged; in the paper, the number of rows is public.
- `rare` 3.0, published 0.0: the paper merges no values; its attributes are binary.

With the preset as well:
- Added query, number of rows: the paper takes it as known.
- Attributes need not be binary: a view is limited by its cells (`max_cells`), not by its attributes.
- After Ripple, the views are made exactly consistent and non-negative, so that GUM can generate records from them.
- The strength t is the largest up to `most_strength` at which the noise of a cell stays below `noise` of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np

from weft.bounds import Bounds, Deviations, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Marginal, NoisyMarginal
from weft.marginals.pooling import common_total
from weft.marginals.reconciliation import make_consistent, reconcile
from weft.marginals.records import Records
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.gum_options import GUM, check_gum
from weft.methods.common.options import Published, get_published_settings, only_without, option
from weft.models import Model
from weft.models import stored_arrays as stored
from weft.models.gum.gum_model import GumModel, GumOptions
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.methods.covering_views import fill_view, find_covering_views, name_view

Solver = Literal["entropy", "least-squares", "linear"]
"""How a marginal is reconstructed from consistent views (PriView, section 4.4)."""

SWEEPS = 1_000
TOLERANCE = 1e-8
SMALL = 1e-3
"""Weight of the norm relative to the sums."""
MAX_DENSE_CELLS = 1_024
"""Maximum cells for the dense systems of the solvers "least-squares" and "linear"."""


def project_views(wanted: Clique, views: Sequence[Marginal]) -> list[Marginal]:
    """Return the maximal projections of the views onto a set of attributes."""
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
    """Return a non-negative table over these attributes with this total that fits the views."""
    constraints = project_views(wanted, views)
    whole = next((m for m in constraints if m.clique == wanted), None)
    if whole is not None:
        return np.asarray(whole.table, np.float64)
    if solver == "entropy":
        return max_entropy(wanted, shape, constraints, total)
    if int(np.prod(shape)) > MAX_DENSE_CELLS:
        raise MethodError(f"option solver: {solver} supports at most {MAX_DENSE_CELLS:,} cells. Choose entropy")
    solve = _least_norm if solver == "least-squares" else _any_feasible
    return _scale_to_total(solve(*_build_linear_system(wanted, shape, constraints)).reshape(shape), total)


def max_entropy(wanted: Clique, shape: Sequence[int], constraints: Sequence[Marginal], total: float) -> Array:
    """Fit a uniform table to the constraints by iterative proportional fitting."""
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
    """Return the matrix of constraints over cells, and their right-hand sides."""
    places = np.indices(shape).reshape(len(shape), -1)
    rows, goals = [], []
    for part in constraints:
        axes = [wanted.index(name) for name in part.clique]
        cell = np.ravel_multi_index([places[axis] for axis in axes], part.table.shape)
        rows.append(np.arange(part.cells)[:, None] == cell)
        goals.append(np.asarray(part.table, np.float64).ravel())
    return np.concatenate(rows).astype(np.float64), np.concatenate(goals)


def _least_norm(matrix: Array, goals: Array) -> Array:
    """Return non-negative cells of minimum norm that nearly satisfy the constraints."""
    from scipy.optimize import nnls

    cells = matrix.shape[1]
    stacked = np.concatenate([matrix, np.eye(cells) * SMALL])
    return np.asarray(nnls(stacked, np.append(goals, np.zeros(cells)))[0])


def _any_feasible(matrix: Array, goals: Array) -> Array:
    """Return non-negative cells that minimise the largest violation of a constraint."""
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
"""Maximum cells of a reconstructed table; larger ones are counted on records."""


@dataclass(frozen=True)
class ViewsModel:
    """Consistent non-negative views, with a solver for other marginals and GUM for records."""

    kind: ClassVar[str] = "views"
    fixed_records: ClassVar[bool] = False
    relates_columns: ClassVar[bool] = True

    records: GumModel
    """The views, and how records are generated from them."""
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
        """The tables of the views."""
        return self.records.tables

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return the projection of a view that has the attributes, or else a table that fits all views."""
        return self.answered(columns)[0]

    def answered(self, columns: Sequence[str]) -> tuple[Array, int]:
        """Return the marginal and the number of records it was counted on: 0 unless the table is very large."""
        wanted = make_clique(columns)
        if not wanted or self.domain.cells(wanted) > MAX_VIEW_CELLS:
            return self.records.answered(wanted)
        made = reconstruct_marginal(wanted, self.domain.sizes(wanted), self.views, self.total, self.solver)
        return made, 0

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Sample n records."""
        return self.records.sample(n, rng, listener)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the contents of a model file."""
        values, arrays = self.records.to_arrays()
        return {"solver": self.solver, "records": values}, arrays

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the model."""
        held = meta.get("records")
        if not isinstance(held, dict) or meta.get("solver") not in get_args(Solver):
            raise stored.make_damage_error("its views or their solver are invalid")
        return cls(GumModel.from_arrays(domain, held, arrays), meta["solver"])


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


WAVES = 1_000
"""Maximum number of Ripple rounds."""


def apply_ripple(table: Array, theta: float) -> Array:
    """Move counts below -theta to neighbouring cells (Ripple; PriView, Qardaji, Yang, Li; SIGMOD 2014).

    A cell below -theta becomes zero, and its deficit is taken evenly from its neighbours, the cells that differ in one
    attribute; if these fall below -theta, the step is repeated. Keeps the total, which truncation would raise, and
    unrelated cells. Cells below -theta remain only if the total is too small.

    >>> apply_ripple(np.array([[-2.0, 5.0], [5.0, 9.0]]), 0.5)
    array([[0., 4.],
           [4., 9.]])
    """
    made = np.array(table, np.float64)
    neighbours = sum(size - 1 for size in made.shape)
    for _ in range(WAVES):
        below = made < -theta
        if not below.any() or not neighbours:
            break
        lacking = np.where(below, made, 0.0)
        made = made - lacking
        for axis in range(made.ndim):
            made = made + (lacking.sum(axis=axis, keepdims=True) - lacking) / neighbours
    return np.asarray(made)


MAX_SETS = 4_000_000
"""Maximum entries of the coverage table, d^t for d attributes."""


def random_views(domain: Domain, views: int, max_cells: int, rng: np.random.Generator) -> list[Clique]:
    """Return `views` random views of at most `max_cells` cells, and more until every attribute is in one."""
    made: dict[Clique, None] = {}
    left = list(rng.permutation(len(domain)))
    while (len(made) < views or left) and len(made) < 10 * views + len(domain):
        first = [int(left.pop())] if left else []
        view = fill_view(domain, first, [int(i) for i in rng.permutation(len(domain))], max_cells)
        left = [i for i in left if int(i) not in view]
        made[name_view(domain, view)] = None
        if len(view) == len(domain):
            break
    return list(made)


def fewest_views(domain: Domain, t: int, max_cells: int) -> float:
    """Estimate the number of views of a covering design of strength t.

    No design has fewer than C(d, t) / C(l, t) views of l attributes; greedy designs have about 1.5 times that.
    """
    size = max(_estimate_view_size(domain, max_cells), min(t, len(domain)))
    few = math.comb(len(domain), t) / math.comb(size, t) if len(domain) > t else 1.0
    return 1.0 if size >= len(domain) else 1.5 * few


def can_list_sets(domain: Domain, t: int) -> bool:
    """Return whether the sets of t attributes can be enumerated."""
    return 1 <= t <= len(domain) and len(domain) ** t <= MAX_SETS


def _estimate_view_size(domain: Domain, max_cells: int) -> int:
    """Estimate the attributes per view from the mean logarithm of their sizes."""
    logs = math.fsum(math.log(max(size, 1)) for size in domain.shape) / len(domain)
    return len(domain) if logs <= 0 else min(int(math.log(max_cells) / logs + 1e-9), len(domain))
