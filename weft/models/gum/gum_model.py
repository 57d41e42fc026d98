"""GUM, the gradual update method: adjust records to many overlapping marginals (PrivSyn, section 5).

Records start with the correct one-way marginals and are changed until they match all tables; there is no graph to
triangulate and no limit on how tables overlap. The paper's strategies update one marginal at a time; the default,
"guided", evaluates each change on every table that contains the attribute (comparison: `docs/decisions/005-gum.md`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise, repeat
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np

from weft.bounds import Bounds, bounds_of
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Marginal
from weft.marginals.records import Records, code_dtype
from weft.models import stored_arrays as stored
from weft.models.gum.gum_kernels import sweep_rows, update_rows
from weft.models.gum.gum_plan import GumComponent, GumPlan, KernelLayout
from weft.progress import Listener, ignore_event, report_stage

PRIVSYN: Mapping[str, Any] = MappingProxyType(
    {"strategy": "half-duplicate", "iterations": 100, "alpha": 0.84, "length": 20, "fill_empty": False, "peel": "once"}
)
"""PrivSyn: S5, alpha starts below 1 and is multiplied by 0.84 every 20 of 100 iterations, empty cells stay empty."""

DPSYN: Mapping[str, Any] = MappingProxyType(
    {"strategy": "half-duplicate", "iterations": 100, "alpha": 0.2, "decay": "constant"}
)
"""DPSyn in NIST's challenge: S5, constant alpha 0.2, 100 iterations."""

MCF: Mapping[str, Any] = MappingProxyType(
    {"strategy": "replace", "iterations": 100, "alpha": math.inf, "decay": "constant", "fill_empty": True}
)
"""Min-cost flow, PrivSyn's baseline: replace until every gap is closed at once."""


Strategy = Literal["guided", "replace", "duplicate", "half", "alternate", "half-duplicate", "half-replace"]
Decay = Literal["step", "exponential", "linear", "sqrt", "constant"]
Peel = Literal["repeat", "once"]

_SHARES: dict[str, tuple[float, float]] = {
    "replace": (0.0, 0.0),
    "duplicate": (1.0, 1.0),
    "half": (0.5, 0.5),
    "alternate": (0.0, 1.0),
    "half-duplicate": (0.5, 1.0),
    "half-replace": (0.5, 0.0),
}
"""Share of duplicates in even and in odd iterations."""

_LANE_ROWS = 1 << 16
_LANES = 8
_MARGINAL_ROWS = 100_000
_EXACT_PASSES = 5


@dataclass(frozen=True, kw_only=True)
class GumOptions:
    """Options of GUM; `alpha`, `decay`, `rate`, `length` and `fill_empty` have no effect on the strategy "guided"."""

    strategy: Strategy = "guided"
    """"guided": change one attribute at a time, only if it reduces the error over all tables. The paper's strategies
    update one marginal at a time: "replace" (S1), "duplicate" (S2), "half" of each (S3), "alternate" (S4: replace, then
    duplicate), "half-duplicate" (S5, as in the authors' code: half of each in even iterations, duplicates in odd ones),
    "half-replace" (S6)."""
    iterations: Annotated[int, Bounds(0, 10_000)] = 40
    """Maximum number of passes over all marginals (guided: sweeps over all records)."""
    tolerance: Annotated[float, Bounds(0.0, 1.0)] = 0.003
    """Stop once a pass changes fewer than this share of the records per marginal (guided: of the values)."""
    alpha: Annotated[float, Bounds(1e-6, math.inf)] = 1.0
    """Maximum relative growth of an under-counted cell in the first pass; infinity closes every gap at once."""
    decay: Decay = "step"
    """Factor of alpha in iteration t: "step" rate^(t // length), "exponential" e^(-rate t), "linear" 1/(1 + rate t),
    "sqrt" 1/sqrt(1 + rate t), or "constant"."""
    rate: Annotated[float, Bounds(0.0, 1e6)] = 0.84
    """Constant of the decay (the paper's k)."""
    length: Annotated[int, Bounds(1, 10_000)] = 5
    """Iterations between the steps of "step" (the paper's s)."""
    fill_empty: bool = True
    """Let a cell without records gain up to alpha times its target; else it never gains any (PrivSyn, section 5.2)."""
    append: bool = True
    """Exclude an attribute that is in a single table from the adjustment, and sample it last, given the others."""
    peel: Peel = "repeat"
    """With `append`: "repeat" with the attributes that are then in a single table, or "once" (PrivSyn, section 5.3)."""
    separate: bool = True
    """Adjust groups of attributes that no table connects separately, and join them."""
    least_rows: Annotated[int, Bounds(1, 1 << 24)] = 500
    """Minimum number of records to adjust; a smaller sample is a random subset of them."""
    block_rows: Annotated[int, Bounds(1, 1 << 24)] = 1 << 20
    """Maximum number of records adjusted together; a larger sample consists of several blocks."""

    def __post_init__(self) -> None:
        if self.strategy not in get_args(Strategy):
            raise ValueError(f"there is no strategy {self.strategy!r}; choose one of {', '.join(get_args(Strategy))}")
        if self.peel not in get_args(Peel):
            raise ValueError(f"peel must be one of {', '.join(get_args(Peel))}, not {self.peel!r}")
        if self.decay not in get_args(Decay):
            raise ValueError(f"there is no decay {self.decay!r}; choose one of {', '.join(get_args(Decay))}")
        for name, bounds in bounds_of(GumOptions).items():
            if not bounds.holds(getattr(self, name)):
                raise ValueError(f"{name} must lie {bounds}")
        if self.least_rows > self.block_rows:
            raise ValueError("block_rows must be at least least_rows")

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Return the settings of PrivSyn's authors (`PRIVSYN`)."""
        return cls(**{**PRIVSYN, **changes})

    @classmethod
    def mcf(cls, **changes: Any) -> Self:
        """Return min-cost flow, the paper's baseline (`MCF`)."""
        return cls(**{**MCF, **changes})

    @classmethod
    def stored(cls, values: Mapping[str, Any]) -> Self:
        """Return the options of a model file; validate that every value has the type of its default."""
        options = {**values, "alpha": math.inf} if values["alpha"] is None else dict(values)
        usual = cls()
        for name, value in options.items():
            # An int is valid where a float is expected, but a bool is not.
            kinds = (int, float) if isinstance(getattr(usual, name), float) else (type(getattr(usual, name)),)
            if type(value) not in kinds:
                raise ValueError(f"{name} has the wrong type")
        return cls(**options)

    def alpha_at(self, t: int) -> float:
        """Return alpha in iteration t, counted from 0."""
        match self.decay:
            case "step":
                return self.alpha * self.rate ** (t // self.length)
            case "exponential":
                return self.alpha * math.exp(-self.rate * t)
            case "linear":
                return self.alpha / (1 + self.rate * t)
            case "sqrt":
                return self.alpha / math.sqrt(1 + self.rate * t)
            case "constant":
                return self.alpha


@dataclass(frozen=True)
class GumModel:
    """Consistent tables, and the options for adjusting records to them.

    >>> pair = Marginal(("a", "b"), np.array([[40.0, 10.0], [0.0, 50.0]]))
    >>> model = GumModel(Domain(("a", "b"), (2, 2)), 100.0, (pair,))
    >>> model.marginal(["b"])
    array([40., 60.])
    >>> records = model.sample(1000, np.random.default_rng(0))
    >>> count_marginals(records, [("a", "b")])[0]
    array([[400, 100],
           [  0, 500]])
    """

    kind: ClassVar[str] = "gum"
    fixed_records: ClassVar[bool] = False
    relates_columns: ClassVar[bool] = True

    domain: Domain
    total: float
    tables: tuple[Marginal, ...]
    """Non-negative tables of one total that cover every attribute, preferably with its one-way table."""
    options: GumOptions = field(default_factory=GumOptions)
    exact: tuple[Clique, ...] = ()
    """Tables that records match exactly, at the expense of others; in a conflict the last one takes precedence."""

    def __post_init__(self) -> None:
        for marginal in self.tables:
            if marginal.table.shape != self.domain.sizes(marginal.clique):
                raise ValueError(f"the shape of the table over {marginal.clique} does not match the domain")
            if marginal.table.size and marginal.table.min() < 0:
                raise ValueError(f"the table over {marginal.clique} has negative cells; reconcile the tables first")
        bare = set(self.domain).difference(*(m.clique for m in self.tables))
        if bare:
            raise ValueError(f"no table contains the attribute {sorted(bare)[0]!r}")
        if not set(self.exact) <= {m.clique for m in self.tables}:
            raise ValueError("cliques in `exact` must be cliques of the tables")

    @cached_property
    def _held(self) -> tuple[frozenset[str], ...]:
        return tuple(frozenset(m.clique) for m in self.tables)

    def marginal(self, columns: Sequence[str]) -> Array:
        """Project the smallest table that covers the attributes, or count sampled records if there is none."""
        return self.answered(columns)[0]

    def answered(self, columns: Sequence[str]) -> tuple[Array, int]:
        """Return `marginal` and the number of sampled records behind it (0: projected from a table)."""
        wanted = make_clique(columns)
        covering = [m for m, held in zip(self.tables, self._held, strict=True) if held.issuperset(wanted)]
        if covering or not wanted:
            found = min(covering, key=lambda m: m.cells).project(wanted).table if covering else np.ones(())
        else:
            found = count_marginals(self._records, [wanted])[0].astype(np.float64)
        total = found.sum()
        scaled = found * (self.total / total) if total > 0 else np.full(found.shape, self.total / found.size)
        return scaled, 0 if covering or not wanted else len(self._records)

    @cached_property
    def _records(self) -> Records:
        n = max(self.options.least_rows, min(round(self.total), _MARGINAL_ROWS))
        return self.sample(n, np.random.default_rng(0))

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        listener: Listener = ignore_event,
        errors: list[float] | None = None,
        threads: int | None = None,
    ) -> Records:
        """Sample n records, the same for any `threads`; append the mean total variation distance to `errors`."""
        blocks = list(self.blocks(n, rng, listener, errors, threads))
        return Records.concatenate(blocks) if blocks else Records.empty(self.domain)

    def blocks(
        self,
        n: int,
        rng: np.random.Generator,
        listener: Listener = ignore_event,
        errors: list[float] | None = None,
        threads: int | None = None,
    ) -> Iterator[Records]:
        """Sample n records in blocks of at most `block_rows`, each adjusted separately; for n larger than memory."""
        options = self.options
        blocks = -(-n // options.block_rows)
        passes = blocks * options.iterations * sum(bool(part.tables) for part in self._plan.parts)
        with report_stage(listener, "adjust records", passes) as work:

            def tell(error: float, steps: int) -> None:
                work.advance(steps, f"mean total variation {error:.4f}")
                if errors is not None:
                    errors.append(error)

            for b in range(blocks):
                size = (b + 1) * n // blocks - b * n // blocks
                yield self._block(size, rng, tell, threads)

    @cached_property
    def _plan(self) -> GumPlan:
        options = self.options
        return GumPlan.of(self.domain, self.tables, options.append, options.separate, once=options.peel == "once")

    def _block(self, n: int, rng: np.random.Generator, tell: Tell, threads: int | None) -> Records:
        columns: dict[str, Array] = {}
        for part in self._plan.parts:
            rows = part.start(max(n, self.options.least_rows), rng)
            if part.tables:
                adjust = _run_sweeps if self.options.strategy == "guided" else _run_updates
                adjust(rows, part, self.options, rng, tell, threads)
            # Early rows are changed more often than late ones, so a subset must be random.
            rows = rows[rng.permutation(len(rows))[:n]]
            columns.update(zip(part.names, np.ascontiguousarray(rows.T), strict=True))
        for appended in self._plan.appended:
            columns[appended.name] = appended.draw(columns, rng)
        if self.exact:
            _match_exactly(columns, [m for c in self.exact for m in self.tables if m.clique == c], rng)
        return Records.of(self.domain, [columns[name] for name in self.domain])

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the concatenated tables; JSON has no infinity, so an infinite alpha is null."""
        options = asdict(self.options)
        if math.isinf(options["alpha"]):
            options["alpha"] = None
        meta = {"total": self.total, "cliques": [list(m.clique) for m in self.tables], "options": options}
        meta |= {"exact": [list(c) for c in self.exact]} if self.exact else {}
        return meta, {"tables": np.concatenate([m.table.ravel() for m in self.tables] or [np.zeros(0)])}

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild and validate the model."""
        cliques = stored.read_cliques(meta, "cliques", domain)
        tables = stored.end_to_end(arrays, "tables", [domain.sizes(c) for c in cliques], 0.0)
        made = tuple(Marginal(c, table) for c, table in zip(cliques, tables, strict=True))
        try:
            exact = tuple(stored.read_cliques(meta, "exact", domain)) if "exact" in meta else ()
            return cls(domain, stored.read_total(meta), made, GumOptions.stored(meta["options"]), exact)
        except (KeyError, TypeError, ValueError) as error:
            raise stored.make_damage_error(f"its options or tables are invalid ({error})") from None


Tell = Callable[[float, int], None]
"""Callback for the mean total variation distance after an iteration and the number of planned iterations done."""


def _match_exactly(columns: dict[str, Array], tables: Sequence[Marginal], rng: np.random.Generator) -> None:
    """Close every gap to these tables at once by replacing: DPSyn's last step for the most important marginals."""
    state = rng.integers(1 << 63, size=1, dtype=np.uint64)
    for table in tables:
        widest = max(table.table.shape)
        rows = np.stack([np.asarray(columns[name]) for name in table.clique], axis=1).astype(code_dtype(widest))
        layout = KernelLayout.of(table.clique, (table,))
        target = layout.targets(len(rows), rng)
        for _ in range(_EXACT_PASSES):  # a pass can leave a record or two because of rounding
            if not update_rows(rows, layout.column, layout.stride, target, math.inf, 0.0, state):
                break
        columns.update(zip(table.clique, np.ascontiguousarray(rows.T), strict=True))


def _run_updates(
    rows: Array, part: GumComponent, options: GumOptions, rng: np.random.Generator, tell: Tell, _: int | None
) -> None:
    """Run the paper's algorithm: pass over the marginals, the worst first, until a pass changes few records."""
    layout, n = part.layout, len(rows)
    target = layout.targets(n, rng)
    state = rng.integers(1 << 63, size=1, dtype=np.uint64)
    distance = layout.distances(layout.gaps(rows, target))
    for t in range(options.iterations):
        alpha, share = options.alpha_at(t), _SHARES[options.strategy][t % 2]
        moved = 0
        for m in np.argsort(-distance, kind="stable"):
            own, cells = slice(*layout.start[m : m + 2]), slice(*layout.offset[m : m + 2])
            columns, strides = layout.column[own], layout.stride[own]
            moved += update_rows(rows, columns, strides, target[cells], alpha, share, state, options.fill_empty)
        distance = layout.distances(layout.gaps(rows, target))
        done = moved < options.tolerance * n * len(distance)
        tell(float(distance.mean()) / (2 * n), options.iterations - t if done else 1)
        if done:
            return


def _run_sweeps(
    rows: Array, part: GumComponent, options: GumOptions, rng: np.random.Generator, tell: Tell, threads: int | None
) -> None:
    """Sweep over the records until few values change."""
    layout, n = part.layout, len(rows)
    target = layout.targets(n, rng)
    gap = layout.gaps(rows, target).astype(np.float64)
    # The weight 1/sqrt(1 + t) of a cell with target t is between squared error, which neglects small cells, and
    # chi-square, which is slow to correct large ones.
    weight = (1.0 + target) ** -0.5
    # Each lane gets an integer share of every gap. Their number depends on n only: threads do not change the result.
    lanes = min(_LANES, max(1, n // _LANE_ROWS))
    bounds = [k * n // lanes for k in range(lanes + 1)]
    with ThreadPoolExecutor(min(lanes, threads or os.cpu_count() or 1)) as pool:
        for t in range(options.iterations):
            shift = rng.random(len(gap)) if lanes > 1 else 0.0
            ends = [np.floor(gap * (k / lanes) + shift) for k in range(lanes + 1)]
            shares = [np.stack([b - a, weight], axis=1).astype(np.float32) for a, b in pairwise(ends)]
            states = rng.integers(1 << 63, size=(lanes, 1), dtype=np.uint64)
            parts = [rows[low:high] for low, high in pairwise(bounds)]
            taken = sum(pool.map(sweep_rows, parts, repeat(layout.views), shares, states))
            gap = np.sum([share[:, 0] for share in shares], axis=0, dtype=np.float64)
            done = taken < options.tolerance * rows.size
            tell(float(layout.distances(gap).mean()) / (2 * n), options.iterations - t if done else 1)
            if done:
                return
