"""A Bayesian network: every attribute drawn given a few attributes that come before it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from weft.marginals.domain import Clique, Domain, clique
from weft.marginals.marginal import Array, Marginal
from weft.marginals.records import Codes, Records, code_dtype
from weft.models import stored
from weft.models.apportion import apportion_groups
from weft.models.evidence import Evidence, Sampler
from weft.progress import Listener, silence, stage

MAX_CELLS = 1 << 24
"""Largest table that exact inference may pass through; beyond it a marginal is counted on synthetic records."""

COUNTED = 1 << 20
"""Synthetic records on which such a marginal is counted."""


@dataclass(frozen=True)
class Family:
    """An attribute, its parents, and its distribution for each configuration of theirs."""

    child: str
    parents: tuple[str, ...]
    table: Array
    """One row a configuration (parents' codes or buckets, the last varies fastest), one column a code of the child;
    every row sums to one."""


@dataclass(frozen=True)
class BayesNet:
    """A distribution that is a product of conditional ones, scaled to a noisy total.

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
    """One for each attribute, parents before children."""
    buckets: Mapping[str, Array] = field(default_factory=dict)
    """For some attributes: the bucket of each code, which is what children see of it."""

    def __post_init__(self) -> None:
        for name, buckets in self.buckets.items():
            if name not in self.domain or buckets.shape != (self.domain.size(name),) or buckets.min() < 0:
                raise ValueError(f"the buckets of {name!r} do not fit its attribute")
        seen: set[str] = set()
        for family in self.families:
            shape = (math.prod(self.width(name) for name in family.parents), self.domain.size(family.child))
            if family.child in seen or not seen.issuperset(family.parents) or family.table.shape != shape:
                raise ValueError(f"the family of {family.child!r} does not fit those before it")
            if family.table.min() < 0 or not np.allclose(family.table.sum(axis=1), 1.0):
                raise ValueError(f"the distributions of {family.child!r} do not sum to one")
            seen.add(family.child)
        if seen != set(self.domain):
            raise ValueError("a Bayesian network needs one family for each attribute")

    @classmethod
    def of(cls, domain: Domain, total: float, tables: Sequence[Marginal]) -> Self:
        """Make a network of non-negative tables in order: attributes new in a table depend on all others in it.

        Several new ones are drawn one after another. An attribute in no table is uniform.
        """
        families: list[Family] = []
        seen: set[str] = set()
        for table in [*tables, *(Marginal((name,), np.ones(size)) for name, size in zip(domain, domain.shape))]:  # noqa: B905
            for child in (name for name in table.clique if name not in seen):
                seen.add(child)
                part = table.project([name for name in table.clique if name in seen])
                parents = tuple(name for name in part.clique if name != child)
                counts = np.moveaxis(part.table, part.clique.index(child), -1)
                families.append(Family(child, parents, conditional(counts.reshape(-1, domain.size(child)))))
                # The next new attribute of this table may depend on this one: `seen` has it now.
        return cls(domain, total, tuple(families))

    @property
    def order(self) -> tuple[str, ...]:
        """The attributes, parents before children."""
        return tuple(family.child for family in self.families)

    def width(self, name: str) -> int:
        """Return the number of codes, or buckets, that children see of an attribute."""
        return int(self.buckets[name].max()) + 1 if name in self.buckets else self.domain.size(name)

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = silence) -> Records:
        """Make n records by ancestral sampling, one attribute at a time for all of them."""
        return self.complete({}, n, rng, listener)

    def complete(
        self, known: Mapping[str, Codes], n: int, rng: np.random.Generator, listener: Listener = silence
    ) -> Records:
        """Make n records that keep the known columns, which must come first in `order`; draw the others."""
        if set(known) != set(self.order[: len(known)]) or any(len(column) != n for column in known.values()):
            raise ValueError("the known columns must be the first of the network's order, n codes each")
        columns: dict[str, Array] = dict(known)
        with stage(listener, "sample", len(self.families) - len(known)) as work:
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
        """Return expected counts over the clique of these columns.

        Exact, by eliminating the other attributes one by one. Where that would pass through a table of more than
        MAX_CELLS cells, the answer is counted on COUNTED synthetic records, always the same ones.
        """
        return self.answered(columns)[0]

    def answered(self, columns: Sequence[str]) -> tuple[Array, int]:
        """Return the same, and on how many records it was counted; 0 where it is exact."""
        wanted = clique(columns)
        factors = self._factors(wanted)
        for name in _elimination(factors, wanted, self.domain):
            joined = [f for f in factors if name in f[0]]
            scope = clique({n for names, _ in joined for n in names})
            if self.domain.cells(scope) > MAX_CELLS:
                return self._counted(wanted), COUNTED
            factors = [f for f in factors if name not in f[0]]
            factors.append((tuple(n for n in scope if n != name), _multiply(joined, scope).sum(axis=scope.index(name))))
        table = np.broadcast_to(_multiply(factors, wanted), self.domain.sizes(wanted))
        return np.asarray(self.total * table), 0

    def conditioned(self, evidence: Evidence) -> Sampler | None:
        """Return what draws exactly under evidence, by a junction tree of the families; None if that is too large."""
        from weft.models.bayesnet.exact import under
        from weft.models.mrf.junction import MAX_CELLS as MOST

        if any(self.domain.cells((*family.parents, family.child)) > MOST for family in self.families):
            return None
        return under(self.domain, self._factors(self.domain.names), evidence)

    def _factors(self, wanted: Clique) -> list[tuple[Clique, Array]]:
        """Return the conditional tables that matter, over codes: those of the columns and of what they depend on."""
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
            factors.append((clique(names), np.transpose(table, np.argsort(np.array(names, dtype=object)))))
        return factors

    def _counted(self, wanted: Clique) -> Array:
        records = self.sample(COUNTED, np.random.default_rng(0))
        cell = np.zeros(COUNTED, np.int64)
        for name in wanted:
            cell = cell * self.domain.size(name) + records.column(name)
        counts = np.bincount(cell, minlength=self.domain.cells(wanted)).reshape(self.domain.sizes(wanted))
        return np.asarray(counts * (self.total / COUNTED))

    def network(self) -> BayesNet:
        """Return the network, which it is already."""
        return self

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
        """Rebuild the network; one that contradicts itself is refused."""
        try:
            buckets = {}
            for i, name in enumerate(stored.members(meta, "buckets")):
                size = domain.size(name)
                buckets[name] = stored.codes(arrays, f"buckets-{i}", size, size)
            widths = {name: int(codes.max()) + 1 for name, codes in buckets.items()}
            families = []
            for i, (child, parents) in enumerate(stored.members(meta, "families")):
                if len(set(parents)) != len(parents):
                    raise ValueError(f"the parents of {child!r} repeat")
                rows = math.prod(widths.get(name, domain.size(name)) for name in parents)
                table = stored.table(arrays, f"family-{i}", (rows, domain.size(child)), 0.0, 1 + 1e-6)
                families.append(Family(child, tuple(parents), table))
            return cls(domain, stored.total(meta), tuple(families), buckets)
        except (KeyError, TypeError, ValueError) as error:
            raise stored.damaged(f"its Bayesian network does not hang together ({error})") from None


def conditional(counts: Array) -> Array:
    """Return each row of non-negative counts as a distribution; a row of zeros gets that of all rows together.

    >>> conditional(np.array([[1.0, 3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.25, 0.75]]
    """
    overall = counts.sum(axis=0)
    overall = overall / overall.sum() if overall.sum() > 0 else np.full(overall.shape, 1 / overall.size)
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), overall)


def _elimination(factors: Sequence[tuple[Clique, Array]], kept: Clique, domain: Domain) -> list[str]:
    """Return the attributes to sum out, each time the one whose joined table is smallest."""
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


def _multiply(factors: Sequence[tuple[Clique, Array]], scope: Clique) -> Array:
    """Return the product of factors over a scope that holds all of their attributes."""
    product = np.ones((1,) * len(scope))
    for names, table in factors:
        sizes = dict(zip(names, table.shape, strict=True))
        product = product * table.reshape([sizes.get(name, 1) for name in scope])
    return product
