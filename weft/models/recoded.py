"""Model over merged values that splits them into the original values when it samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from weft.marginals.domain import Domain, make_clique
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.marginals.value_groups import ValueMap
from weft.models import Model, model_class
from weft.models import stored_arrays as stored
from weft.models.code_positions import follow_related
from weft.models.conditional import Evidence, Sampler, condition_model
from weft.models.conditional_values import GivenCategory
from weft.progress import Listener, ignore_event


@dataclass(frozen=True)
class Unfolded:
    """Sampler of records in merged codes that maps merged values back to original codes."""

    domain: Domain
    inner: Sampler
    maps: Mapping[str, ValueMap]
    given: Mapping[str, GivenCategory] = field(default_factory=dict)
    follows: bool = True
    """Whether values within a merged code follow the other attributes."""

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Sample n records and split their merged values."""
        records = self.inner.sample(n, rng, listener)
        merged = [name for name in self.domain if name in self.maps]  # in one order, also after loading
        fine = {
            name: self.given[name].unfold(
                self.maps[name], records.column(name), records.column(self.given[name].other), rng
            )
            if name in self.given
            else self.maps[name].unfold(records.column(name), rng)
            for name in merged
        }
        if self.follows:
            others = {name: each.other for name, each in self.given.items()}
            fine = follow_related(self.domain, records, self.maps, fine, rng, others)
        columns = zip(records.domain.names, records.columns, strict=True)
        return Records.of(self.domain, [fine.get(name, codes) for name, codes in columns])


@dataclass(frozen=True)
class RecodedModel:
    """Model that samples merged codes from an inner model and maps them back to original codes."""

    kind: ClassVar[str] = "recoded"

    domain: Domain
    """Attributes with their original codes."""
    inner: Model
    """Model over merged codes."""
    maps: Mapping[str, ValueMap]
    """Recoding of each attribute with merged values."""
    given: Mapping[str, GivenCategory] = field(default_factory=dict)
    """Of attributes whose merged values depend on another attribute: how."""

    def __post_init__(self) -> None:
        for name, size, inner in zip(self.domain.names, self.domain.shape, self.inner.domain.shape, strict=True):
            if name in self.maps and (self.maps[name].codes.size, self.maps[name].size) != (size, inner):
                raise ValueError(f"the value map of {name!r} does not match its domain")

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
        """Whether the inner model relates columns."""
        return self.inner.relates_columns

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return the inner model's marginal with each merged cell divided among its values."""
        clique = make_clique(columns)
        table = self.inner.marginal(columns)
        # Numbers before the categories that they depend on, whose codes are still merged then.
        for name in sorted(set(clique) & set(self.maps), key=lambda name: name not in self.given):
            axes, shares = [clique.index(name)], self.maps[name].shares()
            if name in self.given and self.given[name].other in clique:
                axes.insert(0, clique.index(self.given[name].other))
                shares = self.given[name].weights(self.maps[name])
                shares = shares if axes[0] < axes[1] else shares.T
            shape = [1] * table.ndim
            for axis, size in zip(sorted(axes), shares.shape, strict=True):
                shape[axis] = size
            table = np.take(table, self.maps[name].codes, axes[-1]) * shares.reshape(shape)
        return table

    def fold(self, name: str, groups: Array) -> Array:
        """Return the share of each merged code that belongs to each group of the original codes."""
        made = np.zeros((self.inner.domain.size(name), int(groups.max()) + 1))
        if name in self.maps:
            np.add.at(made, (self.maps[name].codes, groups), self.maps[name].shares())
        else:
            made[np.arange(len(groups)), groups] = 1
        return made

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Sample n records and split their merged values."""
        return Unfolded(self.domain, self.inner, self.maps, self.given, self.relates_columns).sample(n, rng, listener)

    def conditioned(self, evidence: Evidence) -> Sampler | None:
        """Return a sampler under evidence."""
        inside, maps = self.merge_evidence(evidence)
        inner = condition_model(self.inner, inside)
        given = {
            name: each.given_evidence(self.maps[name], maps[name].counts) if name in evidence else each
            for name, each in self.given.items()
        }
        return None if inner is None else Unfolded(self.domain, inner, maps, given, self.relates_columns)

    def merge_evidence(self, evidence: Evidence) -> tuple[Evidence, dict[str, ValueMap]]:
        """Return evidence on merged codes, share-weighted sums over their values, and maps with the values' weights."""
        inside, maps = dict(evidence), dict(self.maps)
        for name in evidence:
            if name in maps:
                parts = maps[name].shares() * evidence[name]
                inside[name] = np.minimum(np.bincount(maps[name].codes, parts, maps[name].size), 1.0)
                maps[name] = replace(maps[name], counts=parts)
        return inside, maps

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the arrays of the inner model and of the maps."""
        values, arrays = self.inner.to_arrays()
        names = sorted(self.maps)
        meta = {
            "inner": {"kind": self.inner.kind, "values": values, "sizes": list(self.inner.domain.shape)},
            "maps": names,
            "given": {name: each.other for name, each in sorted(self.given.items())},
        }
        held = {f"inner.{name}": array for name, array in arrays.items()}
        for i, name in enumerate(names):
            held |= {f"map{i}.codes": self.maps[name].codes, f"map{i}.counts": self.maps[name].counts}
        for i, name in enumerate(meta["given"]):
            held |= {f"given{i}.cells": self.given[name].cells, f"given{i}.shares": self.given[name].shares}
        return meta, held

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the inner model and the maps."""
        held = meta.get("inner")
        if not isinstance(held, dict) or held.get("kind") == cls.kind or not isinstance(held.get("values"), dict):
            raise stored.make_damage_error("the inner model of the recoded model is missing or invalid")
        sizes = stored.read_members(held, "sizes")
        if len(sizes) != len(domain):
            raise stored.make_damage_error("its merged values do not match its attributes")
        merged = [
            stored.read_whole_number({"size": size}, "size", 1, most)
            for size, most in zip(sizes, domain.shape, strict=True)
        ]
        inside = Domain(domain.names, tuple(merged))
        own = {name.removeprefix("inner."): a for name, a in arrays.items() if name.startswith("inner.")}
        inner = model_class(str(held.get("kind"))).from_arrays(inside, held["values"], own)
        names = stored.read_members(meta, "maps")
        if not all(isinstance(name, str) and name in domain for name in names):
            raise stored.make_damage_error("a value map names an unknown attribute")
        maps = {name: _read_value_map(arrays, i, domain.size(name), inside.size(name)) for i, name in enumerate(names)}
        if any(domain.size(name) != inside.size(name) for name in domain if name not in maps):
            raise stored.make_damage_error("an attribute has merged values but no value map")
        return cls(domain, inner, maps, _read_given(meta.get("given", {}), arrays, inside, maps))


def _read_value_map(arrays: Mapping[str, Array], i: int, size: int, merged: int) -> ValueMap:
    codes = stored.read_codes(arrays, f"map{i}.codes", size, merged)
    if not np.bincount(codes, minlength=merged).all():
        raise stored.make_damage_error("a value map leaves a merged value without original values")
    return ValueMap(codes, merged, stored.read_array(arrays, f"map{i}.counts", (size,), 0.0))


def _read_given(
    named: Any, arrays: Mapping[str, Array], inside: Domain, maps: Mapping[str, ValueMap]
) -> dict[str, GivenCategory]:
    if not isinstance(named, dict) or not all(
        n in maps and other in inside and other != n for n, other in named.items()
    ):
        raise stored.make_damage_error("it names values that depend on an unknown attribute")
    made = {}
    for i, (name, other) in enumerate(named.items()):
        cells = stored.read_codes(arrays, f"given{i}.cells", maps[name].codes.size, maps[name].codes.size)
        size = int(cells.max()) + 1
        if len(np.unique(cells)) < size or len(np.unique(cells * maps[name].size + maps[name].codes)) > size:
            raise stored.make_damage_error(f"the cells of {name!r} do not match its value map")
        shares = stored.read_array(arrays, f"given{i}.shares", (inside.size(other), size), 0.0)
        made[name] = GivenCategory(other, cells, shares)
    return made
