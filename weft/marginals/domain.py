"""Domains of encoded attributes, cliques, value orders and structural zeros."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Clique = tuple[str, ...]
"""Sorted attribute names without duplicates; identifies a marginal."""


def make_clique(names: Iterable[str]) -> Clique:
    """Return the clique of these attributes.

    >>> make_clique(["sex", "age"])
    ('age', 'sex')
    """
    return tuple(sorted(set(names)))


@dataclass(frozen=True, eq=False)
class FineGrid:
    """Public grid for the first one-way marginal of an ordered attribute."""

    cells: NDArray[np.int64]
    """Cell of each code, in code order; each special code has a cell of its own."""
    levels: NDArray[np.int64]
    """Roundness level of the values in each cell; 0: not round."""
    widths: NDArray[np.float64]
    """Number of values in each cell, or its length."""

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.levels)

    def coarser(self, most: float, apart: int) -> FineGrid:
        """Merge adjacent cells until at most `most` remain, not counting the last `apart` cells, which are kept."""
        inside = self.size - apart
        joined = max(math.ceil(inside / max(most, 1.0)), 1)
        if joined == 1:
            return self
        cells = np.arange(self.size) // joined
        cells[inside:] = cells[inside - 1] + 1 + np.arange(apart)
        widths = np.bincount(cells, weights=self.widths).astype(np.float64)
        return FineGrid(cells[self.cells], np.zeros(len(widths), np.int64), widths)


@dataclass(frozen=True)
class Order:
    """Public facts about the codes of an attribute: whether they are ordered, and which are special.

    Only adjacent codes of an ordered attribute may be merged. Special codes are never merged.

    >>> Order(True, frozenset({5})).grouped([0, 0, 1, 1, 1, 2])
    Order(ordered=True, apart=frozenset({2}))
    """

    ordered: bool = False
    """Whether non-special codes increase with the values that they encode."""
    apart: frozenset[int] = frozenset()
    """Special codes: missing, other, special values."""
    grid: FineGrid | None = field(default=None, compare=False, repr=False)
    """Grid for the first one-way marginal; None: one cell of width 1 and roundness 0 for each code."""

    def fine_grid(self, size: int) -> FineGrid:
        """Return the grid, or the default grid of `size` codes."""
        if self.grid is not None:
            return self.grid
        return FineGrid(np.arange(size), np.zeros(size, np.int64), np.ones(size))

    def grouped(self, groups: Sequence[int]) -> Order:
        """Return the order of merged codes, given the group of each code."""
        inside = [group for code, group in enumerate(groups) if code not in self.apart]
        rising = all(a <= b for a, b in pairwise(inside))
        return Order(self.ordered and rising, frozenset(int(groups[code]) for code in self.apart))


@dataclass(frozen=True, eq=False)
class StructuralZeros:
    """Cells of a marginal that no valid row can fall in; public knowledge, so using them has no privacy cost."""

    clique: Clique
    cells: NDArray[np.bool_]
    """True where a cell is impossible; axis i belongs to attribute i of the clique."""

    def over(self, wider: Clique, shape: Sequence[int]) -> NDArray[np.bool_]:
        """Return the same structural zeros in a table over a superset of the clique."""
        sizes = dict(zip(wider, shape, strict=True))
        axes = [sizes[name] if name in self.clique else 1 for name in wider]
        return np.broadcast_to(self.cells.reshape(axes), tuple(shape))

    def grouped(self, groups: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]) -> StructuralZeros:
        """Return the structural zeros of merged codes: cells in which every combination of codes is impossible."""
        possible = ~self.cells
        for axis, name in enumerate(self.clique):
            if name in groups:
                merged = np.zeros((sizes[name], *np.delete(possible.shape, axis)), bool)
                np.logical_or.at(merged, groups[name], np.moveaxis(possible, axis, 0))
                possible = np.moveaxis(merged, 0, axis)
        return StructuralZeros(self.clique, ~possible)

    def breaks(self, name: str) -> NDArray[np.int64]:
        """Return the codes of an attribute whose structural zeros differ from those of the preceding code."""
        slices = np.moveaxis(self.cells, self.clique.index(name), 0)
        flat = slices.reshape(len(slices), -1)
        return np.flatnonzero((flat[1:] != flat[:-1]).any(axis=1)) + 1


@dataclass(frozen=True)
class Domain:
    """Attribute names, in table order, and the number of codes of each attribute.

    >>> domain = Domain(("age", "sex", "ward"), (10, 2, 5))
    >>> domain.size("age"), domain.cells(("age", "sex"))
    (10, 20)
    >>> domain.project(("sex", "ward")).shape
    (2, 5)
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    orders: tuple[Order, ...] = field(default=(), compare=False)
    """Order of each attribute's codes; empty: all attributes are unordered and have no special codes."""
    impossible: tuple[StructuralZeros, ...] = field(default=(), compare=False)
    """Structural zeros: combinations of values that the schema's rules exclude."""

    def __post_init__(self) -> None:
        if len(self.names) != len(self.shape):
            raise ValueError("a domain needs one size for each name")
        if len(set(self.names)) != len(self.names):
            raise ValueError("attribute names in a domain must be unique")
        if self.orders and len(self.orders) != len(self.names):
            raise ValueError("a domain needs one order for each name, or none")
        if any(size < 1 for size in self.shape):
            raise ValueError("every attribute needs at least one code")

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Domain:
        """Create a domain from a mapping of name to size, in the mapping's order."""
        return cls(tuple(sizes), tuple(int(size) for size in sizes.values()))

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._position

    def index(self, name: str) -> int:
        """Return the position of an attribute."""
        return self._position[name]

    def size(self, name: str) -> int:
        """Return the number of codes of an attribute."""
        return self.shape[self._position[name]]

    def order(self, name: str) -> Order:
        """Return the order of an attribute's codes (default: unordered)."""
        return self.orders[self._position[name]] if self.orders else Order()

    def sizes(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the shape of the table over these attributes, in the order given."""
        return tuple(self.size(name) for name in names)

    def cells(self, names: Iterable[str]) -> int:
        """Return the number of cells of the table over these attributes (1 if there are none)."""
        return math.prod(self.sizes(names))

    def project(self, names: Iterable[str]) -> Domain:
        """Return the domain of these attributes, in the order given."""
        names = tuple(names)
        kept = tuple(known for known in self.impossible if set(known.clique) <= set(names))
        return Domain(names, self.sizes(names), tuple(self.order(name) for name in names), kept)

    def empty_cells(self, c: Clique) -> NDArray[np.bool_] | None:
        """Return the structural zeros of the marginal over a clique; None if every cell is possible."""
        known = [one.over(c, self.sizes(c)) for one in self.impossible if set(one.clique) <= set(c)]
        return np.logical_or.reduce(known) if known else None

    def log10_size(self) -> float:
        """Return the decimal logarithm of the number of possible records."""
        return sum(math.log10(size) for size in self.shape)
