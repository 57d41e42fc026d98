"""Where every table of potentials lies, as the kernels want it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array


@dataclass(frozen=True)
class Layout:
    """Tables over cliques, end to end in one buffer of *cells*; and, for sweeps, one copy an attribute in *rows*.

    An *entry* is a pair of an attribute and a clique that contains it: its copy of the table has the attribute
    last, so that the conditional distribution of the attribute is a product of rows, one from each entry.
    """

    domain: Domain
    cliques: tuple[Clique, ...]

    @cached_property
    def sizes(self) -> Array:
        """Number of values of each attribute."""
        return np.array(self.domain.shape, np.int64)

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shape of each table."""
        return [self.domain.sizes(clique) for clique in self.cliques]

    @cached_property
    def members(self) -> list[list[int]]:
        """Attributes of each clique, by number."""
        return [[self.domain.index(name) for name in clique] for clique in self.cliques]

    @cached_property
    def cell_start(self) -> Array:
        """Bounds of each table in the buffer of cells."""
        return _bounds([math.prod(shape) for shape in self.shapes])

    @cached_property
    def flat_members(self) -> tuple[Array, Array, Array]:
        """Bounds, attribute and step (cells between neighbouring values) of every member of every clique."""
        return (
            _bounds([len(clique) for clique in self.cliques]),
            _integers([a for members in self.members for a in members]),
            _integers([s for shape in self.shapes for s in steps(shape)]),
        )

    @cached_property
    def entries(self) -> list[tuple[int, int]]:
        """Attribute and clique of each entry, by attribute."""
        found: list[list[int]] = [[] for _ in self.domain]
        for c, members in enumerate(self.members):
            for a in members:
                found[a].append(c)
        return [(a, c) for a, cliques in enumerate(found) for c in cliques]

    @cached_property
    def sweep(self) -> tuple[Array, ...]:
        """What `gibbs` reads: entry_start, row_start, other_start, other, step."""
        other, step, lengths = [], [], []
        for a, c in self.entries:
            rest = [(b, size) for b, size in zip(self.members[c], self.shapes[c], strict=True) if b != a]
            other += [b for b, _ in rest]
            step += steps([*(size for _, size in rest), int(self.sizes[a])])[:-1]
            lengths.append(len(rest))
        cells = [math.prod(self.shapes[c]) for _, c in self.entries]
        return (
            _bounds(np.bincount([a for a, _ in self.entries], minlength=len(self.domain))),
            _bounds(cells)[:-1],
            _bounds(lengths),
            _integers(other),
            _integers(step),
        )

    @cached_property
    def feedback(self) -> tuple[Array, Array, Array]:
        """What `herd` reads besides: own_step, line_start of each entry, and the first cell of each of its rows."""
        own, lines = [], []
        for a, c in self.entries:
            place = self.members[c].index(a)
            own.append(steps(self.shapes[c])[place])
            cells = np.arange(self.cell_start[c], self.cell_start[c + 1]).reshape(self.shapes[c])
            lines.append(cells.take(0, axis=place).ravel())
        return _integers(own), _bounds([x.size for x in lines]), np.concatenate([np.empty(0, np.int64), *lines])

    @cached_property
    def crowding(self) -> Array:
        """Of each clique: the largest number of tables that share one attribute with it, itself included."""
        per = np.bincount([a for a, _ in self.entries], minlength=len(self.domain))
        return np.array([max((int(per[a]) for a in members), default=1) for members in self.members], np.float64)

    def tables(self, cells: Array) -> list[Array]:
        """Return views of the tables in a buffer of cells."""
        parts = np.split(cells, self.cell_start[1:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def rows(self, cells: Array) -> Array:
        """Return the rows of potentials: exponentiated, every row scaled to a largest entry of one."""
        tables = self.tables(cells)
        made = []
        for a, c in self.entries:
            table = np.moveaxis(tables[c], self.members[c].index(a), -1)
            top = table.max(axis=-1, keepdims=True)
            made.append(np.exp(table - np.where(np.isfinite(top), top, 0.0), dtype=np.float32).ravel())
        return np.concatenate(made) if made else np.empty(0, np.float32)


@dataclass(frozen=True)
class Widened:
    """The same potentials over fewer tables: those inside another are added to it, and sweeps look at it alone."""

    inner: Layout

    @cached_property
    def layout(self) -> Layout:
        """The tables that are inside no other."""
        sets = [frozenset(c) for c in self.inner.cliques]
        outer = {s: c for s, c in zip(sets, self.inner.cliques, strict=True) if not any(s < t for t in sets)}
        return Layout(self.inner.domain, tuple(outer.values()))

    @cached_property
    def _into(self) -> list[tuple[int, tuple[slice | None, ...]]]:
        """Of each inner table: the outer table that takes it, and how its axes are spread over that one's."""
        sets = [set(c) for c in self.layout.cliques]
        found = []
        for c in self.inner.cliques:
            takes = next(i for i, s in enumerate(sets) if s.issuperset(c))
            found.append((takes, tuple(slice(None) if a in c else None for a in self.layout.cliques[takes])))
        return found

    def add_up(self, cells: Array) -> Array:
        """Return the outer tables' potentials for the inner ones'."""
        wide = np.zeros(self.layout.cell_start[-1])
        tables = self.layout.tables(wide)
        for (takes, spread), table in zip(self._into, self.inner.tables(cells), strict=True):
            tables[takes] += table[spread]
        return wide


def flatten(tables: Sequence[Array]) -> Array:
    """Return tables end to end, in float64."""
    return np.concatenate([np.asarray(table, np.float64).ravel() for table in tables]) if tables else np.empty(0)


def steps(shape: Sequence[int]) -> list[int]:
    """Return the distance in cells between neighbouring values of each axis, in C order."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def _bounds(lengths: Sequence[int] | Array) -> Array:
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]).astype(np.int64)


def _integers(values: Sequence[int]) -> Array:
    return np.array(values, np.int64)
