"""Join of separately fitted groups of attributes (DPSyn, section 5.4).

With a hundred attributes there are too many pairs to measure, so nearly independent attributes are synthesised in
groups. Records of two groups are joined on the attributes that both have, or at random if they share none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from weft.marginals.counting import count_marginals
from weft.marginals.domain import Domain, make_clique
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.models import Model, model_class
from weft.models import stored_arrays as stored
from weft.progress import Listener, ignore_event

_MARGINAL_ROWS = 100_000


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
