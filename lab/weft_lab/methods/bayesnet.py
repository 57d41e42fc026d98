"""Bayesian network: each attribute is sampled conditionally on a few preceding attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Marginal
from weft.marginals.records import Codes, Records, code_dtype
from weft.models import Model
from weft.models import stored_arrays as stored
from weft.models.apportion import apportion_groups
from weft.models.conditional import Evidence, Sampler, compute_log_weights
from weft.models.independent_model import IndependentModel
from weft.models.mrf import MrfModel
from weft.models.recoded import RecodedModel
from weft.progress import Listener, ignore_event, report_stage

MAX_CELLS = 1 << 24  # maximum table size of exact inference; above it, a marginal is estimated from sampled records
COUNTED = 1 << 20  # number of sampled records for such a marginal


@dataclass(frozen=True)
class Family:
    """Attribute, its parents, and its conditional distribution for each parent configuration."""

    child: str
    parents: tuple[str, ...]
    table: Array
    """One row per configuration (parents' codes or buckets, the last varying fastest), one entry per code of the child;
    every row sums to one."""


@dataclass(frozen=True)
class BayesNet:
    """Product of conditional distributions, scaled to a noisy total.

    >>> domain = Domain(("a", "b"), (2, 2))
    >>> net = BayesNet.of(domain, 10.0, [Marginal(("a", "b"), np.array([[4.0, 0.0], [3.0, 3.0]]))])
    >>> net.order, net.marginal(["b"]).tolist()
    (('a', 'b'), [7.0, 3.0])
    """

    kind: ClassVar[str] = "bayesnet"
    fixed_records: ClassVar[bool] = False
    relates_columns: ClassVar[bool] = True

    domain: Domain
    total: float
    families: tuple[Family, ...]
    """One per attribute, parents before children."""
    buckets: Mapping[str, Array] = field(default_factory=dict)
    """For some attributes: the bucket of each code; children depend on the bucket only."""

    def __post_init__(self) -> None:
        for name, buckets in self.buckets.items():
            if name not in self.domain or buckets.shape != (self.domain.size(name),) or buckets.min() < 0:
                raise ValueError(f"the buckets of {name!r} do not match its domain")
        seen: set[str] = set()
        for family in self.families:
            shape = (math.prod(self.width(name) for name in family.parents), self.domain.size(family.child))
            if family.child in seen or not seen.issuperset(family.parents) or family.table.shape != shape:
                raise ValueError(
                    f"the family of {family.child!r} is a duplicate, has a later parent or a table of the wrong shape"
                )
            if family.table.min() < 0 or not np.allclose(family.table.sum(axis=1), 1.0):
                raise ValueError(f"the distributions of {family.child!r} are negative or do not sum to one")
            seen.add(family.child)
        if seen != set(self.domain):
            raise ValueError("a Bayesian network needs exactly one family per attribute")

    @classmethod
    def of(cls, domain: Domain, total: float, tables: Sequence[Marginal]) -> Self:
        """Create a network from non-negative tables in order: the new attributes of a table depend on its others.

        Several new attributes are sampled one after another. An attribute in no table is uniform.
        """
        families: list[Family] = []
        seen: set[str] = set()
        for table in [*tables, *(Marginal((name,), np.ones(size)) for name, size in zip(domain, domain.shape))]:  # noqa: B905
            for child in (name for name in table.clique if name not in seen):
                seen.add(child)
                part = table.project([name for name in table.clique if name in seen])
                parents = tuple(name for name in part.clique if name != child)
                counts = np.moveaxis(part.table, part.clique.index(child), -1)
                families.append(Family(child, parents, normalise_rows(counts.reshape(-1, domain.size(child)))))
        return cls(domain, total, tuple(families))

    @property
    def order(self) -> tuple[str, ...]:
        """Attributes, parents before children."""
        return tuple(family.child for family in self.families)

    def width(self, name: str) -> int:
        """Return the number of buckets, or of codes if there are none, that children depend on."""
        return int(self.buckets[name].max()) + 1 if name in self.buckets else self.domain.size(name)

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Sample n records by ancestral sampling, one attribute at a time for all records."""
        return self.complete({}, n, rng, listener)

    def complete(
        self, known: Mapping[str, Codes], n: int, rng: np.random.Generator, listener: Listener = ignore_event
    ) -> Records:
        """Complete n records: keep the known attributes, which must come first in `order`, and sample the others."""
        if set(known) != set(self.order[: len(known)]) or any(len(column) != n for column in known.values()):
            raise ValueError("the known attributes must be the first of the network's order, with n codes each")
        columns: dict[str, Array] = dict(known)
        with report_stage(listener, "sample", len(self.families) - len(known)) as work:
            for family in self.families[len(known) :]:
                group = np.zeros(n, np.int64)
                for name in family.parents:
                    group *= self.width(name)
                    group += self.buckets[name][columns[name]] if name in self.buckets else columns[name]
                drawn = apportion_groups(family.table, group, rng)
                columns[family.child] = drawn.astype(code_dtype(self.domain.size(family.child)))
                work.advance()
        return Records.of(self.domain, [columns[name] for name in self.domain])

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return expected counts over the clique of these attributes.

        Exact by variable elimination; above MAX_CELLS cells, estimated from COUNTED records, always the same ones.
        """
        return self.answered(columns)[0]

    def answered(self, columns: Sequence[str]) -> tuple[Array, int]:
        """Return `marginal` and the number of sampled records behind it (0: exact)."""
        wanted = make_clique(columns)
        factors = self._factors(wanted)
        for name in _choose_elimination_order(factors, wanted, self.domain):
            joined = [f for f in factors if name in f[0]]
            scope = make_clique({n for names, _ in joined for n in names})
            if self.domain.cells(scope) > MAX_CELLS:
                return self._counted(wanted), COUNTED
            factors = [f for f in factors if name not in f[0]]
            factors.append(
                (tuple(n for n in scope if n != name), _multiply_factors(joined, scope).sum(axis=scope.index(name)))
            )
        table = np.broadcast_to(_multiply_factors(factors, wanted), self.domain.sizes(wanted))
        return np.asarray(self.total * table), 0

    def conditioned(self, evidence: Evidence) -> Sampler | None:
        """Return an exact sampler under evidence, by a junction tree of the families; None if it would be too large."""
        from weft.models.mrf.inference import Calibrated, calibrate_tree
        from weft.models.mrf.junction_tree import MAX_CELLS as MOST
        from weft.models.mrf.junction_tree import ModelTooLarge, junction_tree

        if any(self.domain.cells((*family.parents, family.child)) > MOST for family in self.families):
            return None
        potentials: dict[Clique, Array] = {}
        for c, table in [*self._factors(self.domain.names), *(((name,), w) for name, w in evidence.items())]:
            potentials[c] = potentials.get(c, 0.0) + compute_log_weights(table)
        try:
            tree = junction_tree(self.domain, potentials)
        except ModelTooLarge:
            return None
        return Calibrated(calibrate_tree(tree, potentials, 1.0))

    def _factors(self, wanted: Clique) -> list[tuple[Clique, Array]]:
        """Return the conditional tables of these attributes and of their ancestors, over codes."""
        needed = set(wanted)
        factors = []
        for family in reversed(self.families):
            if family.child not in needed:
                continue
            needed.update(family.parents)
            table = family.table.reshape(*(self.width(name) for name in family.parents), -1)
            for axis, name in enumerate(family.parents):
                if name in self.buckets:
                    table = table.take(self.buckets[name], axis=axis)
            names = (*family.parents, family.child)
            factors.append((make_clique(names), np.transpose(table, np.argsort(np.array(names, dtype=object)))))
        return factors

    def _counted(self, wanted: Clique) -> Array:
        records = self.sample(COUNTED, np.random.default_rng(0))
        cell = np.zeros(COUNTED, np.int64)
        for name in wanted:
            cell = cell * self.domain.size(name) + records.column(name)
        counts = np.bincount(cell, minlength=self.domain.cells(wanted)).reshape(self.domain.sizes(wanted))
        return np.asarray(counts * (self.total / COUNTED))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the structure as JSON and the conditional tables as arrays."""
        meta = {
            "total": self.total,
            "families": [[family.child, list(family.parents)] for family in self.families],
            "buckets": list(self.buckets),
        }
        arrays = {f"family-{i}": family.table for i, family in enumerate(self.families)}
        return meta, arrays | {f"buckets-{i}": codes for i, codes in enumerate(self.buckets.values())}

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild and validate the network."""
        try:
            buckets = {}
            for i, name in enumerate(stored.read_members(meta, "buckets")):
                size = domain.size(name)
                buckets[name] = stored.read_codes(arrays, f"buckets-{i}", size, size)
            widths = {name: int(codes.max()) + 1 for name, codes in buckets.items()}
            families = []
            for i, (child, parents) in enumerate(stored.read_members(meta, "families")):
                if len(set(parents)) != len(parents):
                    raise ValueError(f"duplicate parents of {child!r}")
                rows = math.prod(widths.get(name, domain.size(name)) for name in parents)
                table = stored.read_array(arrays, f"family-{i}", (rows, domain.size(child)), 0.0, 1 + 1e-6)
                families.append(Family(child, tuple(parents), table))
            return cls(domain, stored.read_total(meta), tuple(families), buckets)
        except (KeyError, TypeError, ValueError) as error:
            raise stored.make_damage_error(f"its Bayesian network is inconsistent ({error})") from None


def normalise_rows(counts: Array) -> Array:
    """Normalize each row of non-negative counts to a distribution; a row of zeros gets the overall distribution.

    >>> normalise_rows(np.array([[1.0, 3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.25, 0.75]]
    """
    overall = counts.sum(axis=0)
    overall = overall / overall.sum() if overall.sum() > 0 else np.full(overall.shape, 1 / overall.size)
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), overall)


def _choose_elimination_order(factors: Sequence[tuple[Clique, Array]], kept: Clique, domain: Domain) -> list[str]:
    """Return a greedy elimination order: each time the attribute with the smallest joined table."""
    scopes = [set(names) for names, _ in factors]
    left = set().union(*scopes) - set(kept) if scopes else set()
    order = []
    while left:
        joined = {name: set().union(*(scope for scope in scopes if name in scope)) for name in left}
        best = min(left, key=lambda name: (domain.cells(joined[name]), name))
        scopes = [scope for scope in scopes if best not in scope] + [joined[best] - {best}]
        left.remove(best)
        order.append(best)
    return order


def _multiply_factors(factors: Sequence[tuple[Clique, Array]], scope: Clique) -> Array:
    """Return the product of factors over a scope that contains all their attributes."""
    product = np.ones((1,) * len(scope))
    for names, table in factors:
        sizes = dict(zip(names, table.shape, strict=True))
        product = product * table.reshape([sizes.get(name, 1) for name in scope])
    return product


def convert_to_network(model: Model) -> BayesNet:
    """Return a Bayesian network with the model's distribution; raise MethodError if there is no exact one.

    Independent attributes are a network without parents. Merged values are split given the merged value only, the
    bucket that other attributes depend on. The distribution is unchanged, so the privacy test is valid for all models.
    """
    if isinstance(model, BayesNet):
        return model
    if isinstance(model, MrfModel):  # the new attributes of a clique depend on its others; parents come first
        return chain_cliques(model, model.tree.cliques)
    if isinstance(model, IndependentModel):
        return chain_cliques(model, [(name,) for name in model.domain])
    if isinstance(model, RecodedModel):
        return _unfold_network(model)
    raise MethodError(
        f"a {model.kind} model has no exact conditional distributions and cannot generate records from seeds; "
        "choose the model of another method, such as mst or privbayes, or bsg's own model"
    )


def has_network(model: Model) -> bool:
    """Return whether `convert_to_network` supports a model."""
    known = isinstance(model, BayesNet | MrfModel | IndependentModel)
    return known or (isinstance(model, RecodedModel) and has_network(model.inner))


def _unfold_network(model: RecodedModel) -> BayesNet:
    """Return the inner model's network over original codes, with merged values as the buckets that children use."""
    inner, maps = convert_to_network(model.inner), model.maps
    families = tuple(
        Family(
            family.child,
            family.parents,
            family.table[:, maps[family.child].codes] * maps[family.child].shares()
            if family.child in maps
            else family.table,
        )
        for family in inner.families
    )
    buckets = dict(inner.buckets)
    for name, value_map in maps.items():
        buckets[name] = buckets[name][value_map.codes] if name in buckets else value_map.codes
    return BayesNet(model.domain, model.total, families, buckets)


def chain_cliques(model: Model, cliques: Sequence[Clique]) -> BayesNet:
    """Return the network in which the new attributes of each clique, one after another, depend on its others.

    Exact for the cliques of a junction tree, parents first: by the running-intersection property, the new attributes of
    a clique depend on the preceding ones only through the separator.
    """
    families: list[Family] = []
    seen: set[str] = set()
    for c in cliques:
        table = Marginal(c, model.marginal(c))
        for child in (name for name in c if name not in seen):
            seen.add(child)
            part = table.project([name for name in c if name in seen])
            parents = tuple(name for name in part.clique if name != child)
            counts = np.moveaxis(part.table, part.clique.index(child), -1).reshape(-1, model.domain.size(child))
            families.append(Family(child, parents, normalise_rows(counts)))
    return BayesNet(model.domain, model.total, tuple(families))
