"""Recode attributes by maps that do not depend on exact rows: merge codes, or join several attributes into one."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from weft.engines.privacy_units import Owners
from weft.engines.spill import allocate_zeros, iterate_chunks
from weft.marginals.domain import Domain, Order
from weft.marginals.marginal import Array
from weft.marginals.records import Codes, Records, code_dtype

Maps = Mapping[str, tuple[NDArray[Any], int]]
"""By attribute: the new code of each old code, and the number of new codes."""

Joined = Mapping[str, Mapping[str, tuple[NDArray[Any], int]]]
"""By new attribute: the attributes that it joins, each with the recoding of its codes."""


@dataclass(frozen=True)
class Recoding:
    """Value-level maps of some attributes.

    Privacy: maps are computed from noisy output, so applying one is not a query. Each row keeps exactly one code per
    attribute, hence one cell per marginal: adding or removing a row still changes one cell of any recoded marginal by
    one (sensitivity 1).
    """

    source: Domain
    tables: Mapping[str, Codes] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    joined: Joined = field(default_factory=dict)
    """New attributes, each a combination of source codes: the code of a row depends on this row only."""
    kept: tuple[str, ...] | None = None
    """Attributes that can be counted, including new ones; None: all of the source."""

    @property
    def domain(self) -> Domain:
        """The domain after recoding."""
        return self._recoded(self.source.names if self.kept is None else self.kept)

    def _recoded(self, names: Sequence[str]) -> Domain:
        sizes = tuple(self.sizes.get(name, self._size(name)) for name in names)
        known = (one for one in self.source.impossible if set(one.clique) <= set(names))
        impossible = tuple(one.grouped(self.tables, self.sizes) for one in known)
        orders = tuple(self._order(name) for name in names)
        return Domain(tuple(names), sizes, orders, tuple(one for one in impossible if one.cells.any()))

    def _size(self, name: str) -> int:
        if name in self.joined:
            return math.prod(size for _, size in self.joined[name].values())
        return self.source.size(name)

    def _order(self, name: str) -> Order:
        order = Order() if name in self.joined else self.source.order(name)
        return order.grouped(self.tables[name].tolist()) if name in self.tables else order

    def sources(self, names: Collection[str]) -> list[str]:
        """Return the source attributes from which these are computed."""
        made = {member for name in names if name in self.joined for member in self.joined[name]}
        return [name for name in self.source if name in made or name in names]

    def arranged(self, joined: Joined, kept: Sequence[str]) -> Recoding:
        """Join attributes of the source and leave some out; only before any codes are merged."""
        if self.tables or self.kept is not None:
            raise ValueError("attributes must be joined before their codes are merged")
        for maps in joined.values():
            for name, (codes, size) in maps.items():
                _validate_map(self.source, name, codes, size)
        return replace(self, joined=joined, kept=tuple(kept))

    def then(self, maps: Maps) -> Recoding:
        """Apply further maps to the result of this recoding."""
        domain = self.domain
        tables, sizes = dict(self.tables), dict(self.sizes)
        for name, (codes, size) in maps.items():
            table = _validate_map(domain, name, codes, size)
            tables[name] = table[tables[name]] if name in tables else table
            sizes[name] = size
        return replace(self, tables=tables, sizes=sizes)

    def apply(self, records: Records, names: Sequence[str] | None = None) -> Records:
        """Recode records over source attributes to these attributes (None: all); codes without a map are shared."""
        if names is None:
            names = records.domain.names if self.kept is None else self.kept
        columns = (self._column(records, name) for name in names)
        return Records(self._recoded(names), tuple(columns))

    def _column(self, records: Records, name: str) -> Codes:
        column = self._joined(records, name) if name in self.joined else records.column(name)
        return self.tables[name][column] if name in self.tables else column

    def _joined(self, records: Records, name: str) -> Codes:
        """Number the combinations of codes, with the last attribute varying fastest."""
        made = np.zeros(len(records), np.int64)
        for member, (codes, size) in self.joined[name].items():
            made = made * size + np.asarray(codes)[records.column(member)]
        return made.astype(code_dtype(self._size(name)))


@dataclass(frozen=True, kw_only=True)
class RecodedEngine:
    """Base class of engines that recode rows when they are counted."""

    recoding: Recoding

    @property
    def domain(self) -> Domain:
        """The attributes that can be counted."""
        return self.recoding.domain

    def recode(self, maps: Maps) -> Self:
        """Return a view with recoded attributes."""
        return replace(self, recoding=self.recoding.then(maps))

    def arrange(self, joined: Joined, kept: Sequence[str]) -> Self:
        """Return a view of some attributes, and of new ones that join others."""
        return replace(self, recoding=self.recoding.arranged(joined, kept))


def _validate_map(domain: Domain, name: str, codes: NDArray[Any], size: int) -> Codes:
    if name not in domain:
        raise ValueError(f"{name!r} is not an attribute of the table")
    codes = np.asarray(codes)
    if codes.shape != (domain.size(name),) or not np.issubdtype(codes.dtype, np.integer):
        raise ValueError(f"the map of {name!r} needs one whole number for each of its {domain.size(name)} codes")
    if codes.min() < 0 or codes.max() >= size:
        raise ValueError(f"the map of {name!r} has values outside its {size} new codes")
    return codes.astype(code_dtype(size))


_MAX_INDEX = 1 << 62


def group_distinct_rows(records: Records) -> tuple[Array, Array]:
    """Return the distinct rows in lexicographic order, and the count of each.

    >>> from weft.marginals.domain import Domain
    >>> [a.tolist() for a in group_distinct_rows(Records.of(Domain(("a", "b"), (2, 9)), [[1, 0, 1], [3, 8, 3]]))]
    [[[0, 8], [1, 3]], [1, 2]]
    """
    key = np.zeros(len(records), np.int64)
    radix = 1
    for column, size in zip(records.columns, records.domain.shape, strict=True):
        if radix * size > _MAX_INDEX:  # renumber the combinations so far, in order
            distinct, key = np.unique(key, return_inverse=True)
            radix = len(distinct)
        key = key * size + column
        radix *= size
    _, first, counts = np.unique(key, return_index=True, return_counts=True)
    rows = [column[first].astype(np.int64) for column in records.columns]
    return np.column_stack(rows) if rows else np.zeros((len(first), 0), np.int64), counts.astype(np.int64)


Deal = Callable[[Array], Array]
"""Function that returns a secret uniform 64-bit word (a coin) for each fingerprint, independent of its value."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def names_of(records: Records) -> Array:
    """Return a fingerprint of each row, equal for equal rows."""
    names = np.zeros(len(records), np.uint64)
    for column in records.columns:
        names = (names ^ column.astype(np.uint64)) * _ODD
        names ^= names >> _SHIFT
    return names


def divide_rows(names: Array, owners: Owners | None, shares: Sequence[float], deal: Deal) -> Array:
    """Return the part of each row, by one coin per privacy unit; `len(shares)` for rows that are in no part.

    Privacy (parallel composition): every unit gets a coin that is uniform, independent of all others and of the rows,
    and the part of its rows depends on nothing else. Let D' be D with one more unit, or with one unit replaced. Couple
    the runs in which all shared units have the same coin, and a replaced unit the coin of its predecessor: coins have
    the same distribution on both tables, so this couples all runs. In each coupled pair the parts of D and D' are equal
    except one, which differs by that unit: added, removed or replaced. So the costs of queries to different parts do
    not add up for any unit, and averaging over the pairs preserves the guarantee.

    This requires secret coins: they are drawn afresh for each division from the operating system's entropy, and never
    released. Coins assigned by position from a known seed would not do: a row inserted at the front would pass every
    coin on to the next row, and so move many rows to another part.

    `deal` gets a fingerprint of each unit, which a mechanism must not use. It is for the audit, which has to give the
    same coin to the same unit on both tables, as in the argument (`weft_lab.replay.couple_coins`).

    With `owners`, the rows of a unit share a coin: its fingerprint is the sum of its rows' fingerprints, in any order.
    """
    if owners is not None:
        _, owners = np.unique(owners, return_inverse=True)
        summed = np.zeros(int(owners.max(initial=-1)) + 1, np.uint64)
        np.add.at(summed, owners, names)
        names = summed
    part = part_of(deal(names), shares)
    return np.asarray(part if owners is None else part[owners])


def part_of(words: Array, shares: Sequence[float]) -> Array:
    """Return the part of each word; `len(shares)` for none, if the shares sum to less than 1."""
    ends = np.cumsum(shares)
    part = np.searchsorted(ends, (words >> np.uint64(11)) * 2.0**-53, side="right")
    # Rounding of the sum must not leave out rows if the shares are meant to sum to 1.
    return np.minimum(part, len(shares) - 1) if ends[-1] > 1 - 1e-9 else part


def iterate_divided_rows(
    names: Array, keep: Array | None, owners: Owners | None, shares: Sequence[float], deal: Deal, spill: int
) -> list[Array]:
    """Return a mask of the kept rows in each part, by the coins of `divide_rows`, computed in chunks."""
    masks = [allocate_zeros(len(names), np.bool_, spill) for _ in shares]
    coins = np.empty(0) if owners is None else _coins_of_units(names, keep, owners, shares, deal, spill)
    for cut in iterate_chunks(len(names)):
        kept = np.arange(cut.stop - cut.start) if keep is None else np.flatnonzero(keep[cut])
        part = part_of(deal(names[cut][kept]), shares) if owners is None else coins[owners[cut][kept]]
        for number, mask in enumerate(masks):
            mask[cut.start + kept[part == number]] = True
    return masks


def _coins_of_units(
    names: Array, keep: Array | None, owners: Owners, shares: Sequence[float], deal: Deal, spill: int
) -> Array:
    """Return the part of each unit, by number. A unit's fingerprint is the sum of its kept rows' fingerprints."""
    last = max((int(owners[cut].max(initial=-1)) for cut in iterate_chunks(len(owners))), default=-1)
    summed, coins = allocate_zeros(last + 1, np.uint64, spill), allocate_zeros(last + 1, np.uint8, spill)
    for cut in iterate_chunks(len(names)):
        kept = slice(None) if keep is None else np.flatnonzero(keep[cut])
        np.add.at(summed, owners[cut][kept], names[cut][kept])
    for cut in iterate_chunks(len(summed)):
        coins[cut] = part_of(deal(summed[cut]), shares)
    return coins
