"""Model of some attributes that derives the others from its records by missing-value patterns and fills.

Marginal engineering excludes attributes from measurement (DPSyn, sections 5.3 and 5.4). An attribute that is determined
by another is filled in by a map, and the set of missing values of several attributes is modelled as one attribute, the
pattern.

Privacy: maps and patterns come from public facts or released answers, so this is post-processing.
"""

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

MAX_MEMBERS = 16  # maximum number of attributes of a pattern, which has one code for each subset of them

_MARGINAL_ROWS = 100_000


@dataclass(frozen=True)
class Pattern:
    """Attribute that encodes which of several attributes have a value."""

    name: str
    members: tuple[str, ...]
    missing: tuple[int, ...]
    """Code of a missing value, for each member."""

    @property
    def size(self) -> int:
        """Number of subsets of the members."""
        return 1 << len(self.members)

    def maps(self, domain: Domain) -> dict[str, tuple[Array, int]]:
        """Return for each member the map from its codes to 1 (value present) or 0 (missing), and the map's size."""
        return {
            member: ((np.arange(domain.size(member)) != gone).astype(np.int64), 2)
            for member, gone in zip(self.members, self.missing, strict=True)
        }

    def there(self, codes: Array) -> dict[str, Array]:
        """Return for each member which records have a value."""
        bits = np.unravel_index(np.asarray(codes).astype(np.int64), (2,) * len(self.members))
        return {member: bit.astype(np.bool_) for member, bit in zip(self.members, bits, strict=True)}


@dataclass(frozen=True)
class Fill:
    """Attribute that is derived from an anchor attribute, or sampled uniformly if it has no anchor."""

    name: str
    anchor: str | None = None
    codes: Array | None = None
    """Code for each code of the anchor."""

    def draw(self, made: Mapping[str, Array], rows: int, size: int, rng: np.random.Generator) -> Array:
        """Return the codes of `rows` records."""
        if self.anchor is None or self.codes is None:
            return rng.integers(0, size, rows)
        return np.asarray(self.codes[made[self.anchor]])


@dataclass(frozen=True)
class ArrangedModel:
    """Model that samples some attributes from an inner model and derives the others from them."""

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
        """Whether the inner model relates columns, or any column is derived from another."""
        return self.inner.relates_columns or bool(self.patterns) or any(f.anchor is not None for f in self.fills)

    @property
    def _own(self) -> set[str]:
        """Attributes whose distribution the inner model determines."""
        return set(self.inner.domain).difference(*(pattern.members for pattern in self.patterns))

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return the inner model's marginal if it covers the attributes; else count sampled records."""
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
        """Cumulative weights of each pattern member's codes, given that the value is present."""
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
        """Sample n records, fill in derived attributes, and apply the missing-value patterns."""
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
        """Return the arrays of the inner model and the maps of the fills."""
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
        """Rebuild the inner model, patterns and fills; validate that every attribute is produced exactly once."""
        patterns = tuple(_read_pattern(domain, entry) for entry in stored.read_members(meta, "patterns"))
        sizes = dict(zip(domain.names, domain.shape, strict=True)) | {p.name: p.size for p in patterns}
        held = meta.get("inner")
        if not isinstance(held, dict) or held.get("kind") == cls.kind or not isinstance(held.get("values"), dict):
            raise stored.make_damage_error("the inner model of the arranged model is missing or invalid")
        names = stored.read_members(held, "names")
        if not names or any(not isinstance(n, str) or n not in sizes for n in names) or len(set(names)) != len(names):
            raise stored.make_damage_error("the inner model names unknown or duplicate attributes")
        inside = Domain.of({name: sizes[name] for name in names})
        own = {name.removeprefix("inner."): a for name, a in arrays.items() if name.startswith("inner.")}
        inner = model_class(str(held.get("kind"))).from_arrays(inside, held["values"], own)
        fills: list[Fill] = []
        known = set(names)
        for i, entry in enumerate(stored.read_members(meta, "fills")):
            fills.append(_read_fill(domain, entry, known, arrays, i))
            known.add(fills[-1].name)
        if known != set(domain) | {p.name for p in patterns} or len(names) + len(fills) != len(known):
            raise stored.make_damage_error("an attribute is never produced or is produced twice")
        return cls(domain, inner, patterns, tuple(fills))


def unwrap_arrangement(model: Model) -> Model:
    """Return the inner model of an arrangement, whose attributes were measured, or the model itself."""
    return model.inner if isinstance(model, ArrangedModel) else model


def find_measured_sources(model: Model) -> dict[str, str | None]:
    """Return for each attribute the measured one behind it: itself or its anchor; None if it is sampled uniformly."""
    found: dict[str, str | None] = {name: name for name in model.domain}
    for fill in model.fills if isinstance(model, ArrangedModel) else ():
        found[fill.name] = None if fill.anchor is None else found[fill.anchor]
    return found


def _read_pattern(domain: Domain, entry: Any) -> Pattern:
    if not isinstance(entry, list) or len(entry) != 3 or not isinstance(entry[0], str) or entry[0] in domain:
        raise stored.make_damage_error("an entry of patterns is invalid")
    name, members, missing = entry
    whole = isinstance(members, list) and isinstance(missing, list) and len(members) == len(missing) <= MAX_MEMBERS
    if not whole or not members or not all(isinstance(m, str) and m in domain for m in members):
        raise stored.make_damage_error("a pattern names unknown attributes")
    codes = [
        stored.read_whole_number({"code": c}, "code", 0, domain.size(m) - 1)
        for m, c in zip(members, missing, strict=True)
    ]
    return Pattern(name, tuple(members), tuple(codes))


def _read_fill(domain: Domain, entry: Any, known: set[str], arrays: Mapping[str, Array], i: int) -> Fill:
    if not isinstance(entry, list) or len(entry) != 2 or entry[0] not in domain:
        raise stored.make_damage_error("an entry of fills is invalid or names an unknown attribute")
    name, anchor = entry
    if anchor is None:
        return Fill(name)
    if anchor not in domain or anchor not in known:
        raise stored.make_damage_error("a derived attribute refers to an unknown or later attribute")
    return Fill(name, anchor, stored.read_codes(arrays, f"fill{i}", domain.size(anchor), domain.size(name)))
