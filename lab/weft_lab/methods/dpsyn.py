"""DPSyn (Li, Zhang, Wang; J. Privacy and Confidentiality 2021): required marginals, consistency and GUM.

The winning approach of NIST's challenge: a domain expert lists the relevant marginals (`--marginals plan.toml`,
sections 5.2 to 5.4), rare values are merged by noisy one-way marginals, all marginals are made consistent, and records
are updated to match them. Without a plan, it draws random views as in the concept paper (section 4).

With a hundred attributes there are too many pairs to measure, so nearly independent attributes are synthesised in
groups (section 5.4, `JoinedModel`). Records of two groups are joined on the attributes that both have, or at random if
they share none.

Where the defaults differ from the paper (`preset="paper"`):
- `accounting` gaussian, published paper: exact Gaussian DP adds less noise than closed-form zCDP. (A plan uses
  geometric noise where that is smaller, with few marginals; section 2.5.)
- `rare_rows` 0.0, published 800.0: the challenge's value, for 300,000 rows and more.
- `rare_values` neighbours, published one: by default, rare ordered values join their neighbours, and the code of rare
  values is kept even if its count is small.
- `expansion` counts, published uniform: by default, merged values are sampled by their noisy counts.
- `allocation` weighted, published equal: in the challenge, all marginals have the same noise.
- `gum` {}, published {"strategy": "half-duplicate", "iterations": 100, "alpha": 0.2, "decay": "constant"}: by default,
  each update considers all marginals.

With the preset as well:
- Views are limited by their cells: the paper does not specify the size of views of non-binary attributes.
- All decisions depend on noisy measurements only: the challenge's code redistributed rare values by exact counts and by
  position, so one row could move many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from weft.bounds import Bounds, Cells, Deviations, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Marginal
from weft.marginals.reconciliation import reconcile
from weft.marginals.records import Records
from weft.methods.common.allocation import allocate_to_required, check_emphasis, check_given
from weft.methods.common.budget_checks import check_marginals, check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.gum_options import GUM, check_gum
from weft.methods.common.options import Published, get_published_settings, only_without, option
from weft.models import Model, model_class
from weft.models import stored_arrays as stored
from weft.models.gum.gum_model import DPSYN, GumModel, GumOptions
from weft.models.recoded import RecodedModel
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage

_MARGINAL_ROWS = 100_000

_TRIES = 20
"""Maximum draws per random view."""


@dataclass(frozen=True)
class JoinedModel:
    """Several models of some attributes each; attributes that earlier parts also have are join keys."""

    kind: ClassVar[str] = "joined"
    fixed_records: ClassVar[bool] = False
    relates_columns: ClassVar[bool] = True

    domain: Domain
    parts: tuple[Model, ...]

    @property
    def total(self) -> float:
        """Noisy number of rows."""
        return self.parts[0].total

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return the marginal of the first part that has all attributes; otherwise count sampled records."""
        wanted = make_clique(columns)
        for part in self.parts:
            if set(part.domain).issuperset(wanted):
                return part.marginal(wanted)
        found = count_marginals(self._records, [wanted])[0].astype(np.float64)
        return np.asarray(found * (self.total / max(found.sum(), 1.0)))

    @cached_property
    def _records(self) -> Records:
        return self.sample(max(min(round(self.total), _MARGINAL_ROWS), 1), np.random.default_rng(0))

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Sample n records of each part and join them on the attributes shared with earlier parts."""
        made: dict[str, Array] = {}
        for part in self.parts:
            records = part.sample(n, rng, listener)
            shared = tuple(name for name in part.domain if name in made)
            order = rng.permutation(n)
            if shared:
                theirs = _number_combinations(part.domain, shared, [records.column(name) for name in shared])
                order = match_records(
                    _number_combinations(part.domain, shared, [made[name] for name in shared]), theirs, rng
                )
            made |= {name: records.column(name)[order] for name in part.domain if name not in shared}
        return Records.of(self.domain, [made[name] for name in self.domain])

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the values and arrays of each part."""
        meta, held = [], dict[str, Array]()
        for i, part in enumerate(self.parts):
            values, arrays = part.to_arrays()
            meta.append({"kind": part.kind, "values": values, "names": list(part.domain.names)})
            held |= {f"part{i}.{name}": array for name, array in arrays.items()}
        return {"parts": meta}, held

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the parts and validate that together they have every attribute."""
        parts: list[Model] = []
        for i, held in enumerate(stored.read_members(meta, "parts")):
            if not isinstance(held, dict) or held.get("kind") in (cls.kind, "recoded", "arranged"):
                raise stored.make_damage_error("a part of a joined model is invalid")
            names = stored.read_members(held, "names")
            if (
                not names
                or any(not isinstance(n, str) or n not in domain for n in names)
                or len(set(names)) < len(names)
            ):
                raise stored.make_damage_error("a part of a joined model has unknown attributes")
            own = {n.removeprefix(f"part{i}."): a for n, a in arrays.items() if n.startswith(f"part{i}.")}
            parts.append(model_class(str(held.get("kind"))).from_arrays(domain.project(names), held["values"], own))
        if set(domain).difference(*(part.domain for part in parts)) or not parts:
            raise stored.make_damage_error("a joined model lacks an attribute")
        return cls(domain, tuple(parts))


def _number_combinations(domain: Domain, names: Sequence[str], columns: Sequence[Array]) -> Array:
    """Return one number for each combination of codes."""
    made = np.zeros(len(columns[0]), np.int64)
    for name, column in zip(names, columns, strict=True):
        made = made * domain.size(name) + column
    return made


def match_records(wanted: Array, theirs: Array, rng: np.random.Generator) -> Array:
    """Return an order of `theirs` in which as many records as possible match `wanted`; the rest are paired at random.

    >>> order = match_records(np.array([0, 1, 1, 2]), np.array([1, 2, 1, 1]), np.random.default_rng(0))
    >>> np.array([1, 2, 1, 1])[order][1:].tolist()
    [1, 1, 2]
    """
    own, other = (part[np.argsort(each[part], kind="stable")] for each, part in _shuffle_both(wanted, theirs, rng))
    rank_own, rank_other = _rank_equals(wanted[own]), _rank_equals(theirs[other])
    # The r-th record of a value is paired with the r-th of the same value on the other side.
    size = np.int64(max(len(wanted), 1))
    left, right = wanted[own] * size + rank_own, theirs[other] * size + rank_other
    meets, there = np.isin(left, right), np.isin(right, left)
    order = np.empty(len(wanted), np.int64)
    order[own[meets]] = other[there]
    order[own[~meets]] = rng.permutation(other[~there])
    return order


def _shuffle_both(wanted: Array, theirs: Array, rng: np.random.Generator) -> list[tuple[Array, Array]]:
    return [(each, rng.permutation(len(each))) for each in (wanted, theirs)]


def _rank_equals(ordered: Array) -> Array:
    """Return the number of equal values before each element of a sorted array."""
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.bool_)
    starts = np.flatnonzero(first)
    return np.arange(len(ordered)) - np.repeat(starts, np.diff(np.r_[starts, len(ordered)]))


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
        expansion="uniform",
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
    expansion: Literal["counts", "uniform"] = option(
        "counts", "Merged values are sampled by their noisy counts, or uniformly."
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
        if self.expansion == "uniform":
            maps = {name: replace(held, counts=np.ones(len(held.codes))) for name, held in columns.maps.items()}
            columns = replace(columns, maps=maps)
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


def random_views(domain: Domain, views: int, max_cells: int, most: int, rng: np.random.Generator) -> list[Clique]:
    """Draw up to `views` random sets of at most `most` attributes, each as large as `max_cells` allows.

    >>> random_views(Domain(("a", "b", "c"), (2, 2, 900)), 5, 64, 8, np.random.default_rng(0))
    [('a', 'b')]
    """
    found: dict[Clique, None] = {}
    for _ in range(_TRIES * views):
        taken: list[str] = []
        for i in rng.permutation(len(domain)):
            name = domain.names[i]
            if len(taken) < most and math.prod(domain.sizes(taken)) * domain.size(name) <= max_cells:
                taken.append(name)
        if len(taken) > 1:
            found[make_clique(taken)] = None
        if len(found) == views:
            break
    return list(found)
