"""A model of some columns, and how the others are made from its records: patterns of what is missing, and fills.

Marginal engineering leaves columns out of the tables that cost noise (DPSyn, sections 5.3 and 5.4). One that follows
from another is filled in by a map, and which of several columns are missing is drawn as one attribute, the pattern.
Maps and patterns come from public facts or released answers, so that all of this is post-processing.
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

MAX_MEMBERS = 16
"""Columns of one pattern: it has a code for each set of them."""

_MARGINAL_ROWS = 100_000


@dataclass(frozen=True)
class Pattern:
    """An attribute that says which of several columns are there."""

    name: str
    members: tuple[str, ...]
    missing: tuple[int, ...]
    """The code of each member that stands for nothing."""

    @property
    def size(self) -> int:
        """Number of sets of columns."""
        return 1 << len(self.members)

    def maps(self, domain: Domain) -> dict[str, tuple[Array, int]]:
        """Return what of each member's codes counts: 1 where there is a value."""
        return {
            member: ((np.arange(domain.size(member)) != gone).astype(np.int64), 2)
            for member, gone in zip(self.members, self.missing, strict=True)
        }

    def there(self, codes: Array) -> dict[str, Array]:
        """Say of each member which records have a value."""
        bits = np.unravel_index(np.asarray(codes).astype(np.int64), (2,) * len(self.members))
        return {member: bit.astype(np.bool_) for member, bit in zip(self.members, bits, strict=True)}


@dataclass(frozen=True)
class Fill:
    """A column that is filled in from another, or drawn evenly from all its codes where it follows from none."""

    name: str
    anchor: str | None = None
    codes: Array | None = None
    """The code for each code of the anchor."""

    def draw(self, made: Mapping[str, Array], rows: int, size: int, rng: np.random.Generator) -> Array:
        """Return the codes of so many records."""
        if self.anchor is None or self.codes is None:
            return rng.integers(0, size, rows)
        return np.asarray(self.codes[made[self.anchor]])


@dataclass(frozen=True)
class ArrangedModel:
    """Makes records of some attributes by another model, then fills in the columns that these decide."""

    kind: ClassVar[str] = "arranged"

    domain: Domain
    inner: Model
    patterns: tuple[Pattern, ...] = ()
    fills: tuple[Fill, ...] = ()

    @property
    def total(self) -> float:
        """Noisy number of rows."""
        return self.inner.total

    @property
    def fixed_records(self) -> bool:
        """Whether the inner model's records are fixed."""
        return self.inner.fixed_records

    @property
    def relates_columns(self) -> bool:
        """Whether the inner model does, or a column is filled in from another."""
        return self.inner.relates_columns or bool(self.patterns) or any(f.anchor is not None for f in self.fills)

    @property
    def _own(self) -> set[str]:
        """Columns that the inner model has the last word on."""
        return set(self.inner.domain).difference(*(pattern.members for pattern in self.patterns))

    def marginal(self, columns: Sequence[str]) -> Array:
        """Ask the inner model where it has the columns, and else count records that are made for it."""
        wanted = make_clique(columns)
        if self._own.issuperset(wanted):
            return self.inner.marginal(wanted)
        found = count_marginals(self._records, [wanted])[0].astype(np.float64)
        return np.asarray(found * (self.total / max(found.sum(), 1.0)))

    @cached_property
    def _records(self) -> Records:
        return self.sample(max(min(round(self.total), _MARGINAL_ROWS), 1), np.random.default_rng(0))

    @cached_property
    def _values(self) -> dict[str, Array]:
        """How often each code of a pattern's member is there, where the pattern says that there is one."""
        found = {}
        for pattern in self.patterns:
            for member, gone in zip(pattern.members, pattern.missing, strict=True):
                size = self.domain.size(member)
                inside = member in self.inner.domain
                chances = np.maximum(self.inner.marginal((member,)), 0) if inside else np.ones(size)
                chances = np.where(np.arange(size) == gone, 0.0, chances)
                even = np.arange(size) != gone if size > 1 else np.ones(size)
                found[member] = np.cumsum(chances if chances.sum() > 0 else even)
        return found

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Make n records, fill columns in, and let the patterns decide what is missing."""
        records = self.inner.sample(n, rng, listener)
        n = len(records)
        made: dict[str, Array] = dict(zip(records.domain.names, records.columns, strict=True))
        for fill in self.fills:
            made[fill.name] = fill.draw(made, n, self.domain.size(fill.name), rng)
        for pattern in self.patterns:
            there = pattern.there(made[pattern.name])
            for member, gone in zip(pattern.members, pattern.missing, strict=True):
                codes = np.where(there[member], made[member], gone)
                lacking = np.flatnonzero(there[member] & (codes == gone))
                ends = self._values[member]
                drawn = np.searchsorted(ends, rng.random(lacking.size) * ends[-1], side="right")
                codes[lacking] = np.minimum(drawn, len(ends) - 1)
                made[member] = codes
        return Records.of(self.domain, [made[name] for name in self.domain])

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the inner model's arrays beside the maps of the fills."""
        values, arrays = self.inner.to_arrays()
        inner = self.inner
        meta = {
            "inner": {"kind": inner.kind, "values": values, "names": list(inner.domain.names)},
            "patterns": [[p.name, list(p.members), list(p.missing)] for p in self.patterns],
            "fills": [[fill.name, fill.anchor] for fill in self.fills],
        }
        held = {f"inner.{name}": array for name, array in arrays.items()}
        held |= {f"fill{i}": fill.codes for i, fill in enumerate(self.fills) if fill.codes is not None}
        return meta, held

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the inner model, the patterns and the fills; every column is made once."""
        patterns = tuple(_read_pattern(domain, entry) for entry in stored.read_members(meta, "patterns"))
        sizes = dict(zip(domain.names, domain.shape, strict=True)) | {p.name: p.size for p in patterns}
        held = meta.get("inner")
        if not isinstance(held, dict) or held.get("kind") == cls.kind or not isinstance(held.get("values"), dict):
            raise stored.make_damage_error("it says nothing of the model that is arranged")
        names = stored.read_members(held, "names")
        if not names or any(not isinstance(n, str) or n not in sizes for n in names) or len(set(names)) != len(names):
            raise stored.make_damage_error("the arranged model names attributes that are not there")
        inside = Domain.of({name: sizes[name] for name in names})
        own = {name.removeprefix("inner."): a for name, a in arrays.items() if name.startswith("inner.")}
        inner = model_class(str(held.get("kind"))).from_arrays(inside, held["values"], own)
        fills: list[Fill] = []
        known = set(names)
        for i, entry in enumerate(stored.read_members(meta, "fills")):
            fills.append(_read_fill(domain, entry, known, arrays, i))
            known.add(fills[-1].name)
        if known != set(domain) | {p.name for p in patterns} or len(names) + len(fills) != len(known):
            raise stored.make_damage_error("not every column is made, or one is made twice")
        return cls(domain, inner, patterns, tuple(fills))


def unwrap_arrangement(model: Model) -> Model:
    """Return the model that an arrangement is around, or the model itself: the one that measured tables speak of."""
    return model.inner if isinstance(model, ArrangedModel) else model


def find_measured_sources(model: Model) -> dict[str, str | None]:
    """Return of each attribute the one that was measured for it: itself, what it is filled in from; None: by chance."""
    found: dict[str, str | None] = {name: name for name in model.domain}
    for fill in model.fills if isinstance(model, ArrangedModel) else ():
        found[fill.name] = None if fill.anchor is None else found[fill.anchor]
    return found


def _read_pattern(domain: Domain, entry: Any) -> Pattern:
    if not isinstance(entry, list) or len(entry) != 3 or not isinstance(entry[0], str) or entry[0] in domain:
        raise stored.make_damage_error("a pattern is none")
    name, members, missing = entry
    whole = isinstance(members, list) and isinstance(missing, list) and len(members) == len(missing) <= MAX_MEMBERS
    if not whole or not members or not all(isinstance(m, str) and m in domain for m in members):
        raise stored.make_damage_error("a pattern names columns that are not there")
    codes = [
        stored.read_whole_number({"code": c}, "code", 0, domain.size(m) - 1)
        for m, c in zip(members, missing, strict=True)
    ]
    return Pattern(name, tuple(members), tuple(codes))


def _read_fill(domain: Domain, entry: Any, known: set[str], arrays: Mapping[str, Array], i: int) -> Fill:
    if not isinstance(entry, list) or len(entry) != 2 or entry[0] not in domain:
        raise stored.make_damage_error("a column that is filled in is none")
    name, anchor = entry
    if anchor is None:
        return Fill(name)
    if anchor not in domain or anchor not in known:
        raise stored.make_damage_error("a column is filled in from one that is not there yet")
    return Fill(name, anchor, stored.read_codes(arrays, f"fill{i}", domain.size(anchor), domain.size(name)))
