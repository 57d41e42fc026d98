"""Where every table of potentials lies, as the kernels want it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array
from weft.models.chains.lanes import IMPOSSIBLE, LANES


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
    def places(self) -> tuple[Array, ...]:
        """Of every clique its first and second attribute with their steps (cells between values), and the others."""
        held = [[*zip(m, steps(shape), strict=True)] for m, shape in zip(self.members, self.shapes, strict=True)]
        pairs = [(each + [(each[0][0] if each else 0, 0)] * 2)[:2] for each in held]
        return (
            *(_integers([pair[i][k] for pair in pairs]) for i in range(2) for k in range(2)),
            _bounds([max(len(each) - 2, 0) for each in held]),
            *(_integers([member[k] for each in held for member in each[2:]]) for k in range(2)),
        )

    @cached_property
    def entries(self) -> list[tuple[int, int]]:
        """Attribute and clique of each entry, by attribute; those of more than two attributes come last."""
        found: list[list[int]] = [[] for _ in self.domain]
        for c in sorted(range(len(self.members)), key=lambda c: len(self.members[c]) > 2):
            for a in self.members[c]:
                found[a].append(c)
        return [(a, c) for a, cliques in enumerate(found) for c in cliques]

    @cached_property
    def widths(self) -> Array:
        """Length of each attribute's rows: its values, and padding up to whole groups of lanes."""
        return -(-self.sizes // LANES) * LANES

    @cached_property
    def sweep(self) -> tuple[Array, ...]:
        """What `gibbs` reads: entry_start, pairs_end, row_start, other, step, more_start, more, more_step.

        Of each attribute its entries begin at entry_start, and those that depend on two or more others at pairs_end;
        of each entry `other` and `step` are the first other attribute, `more` and `more_step` the rest.
        """
        other, step, more, more_step, lengths = [], [], [], [], []
        for a, c in self.entries:
            rest = [(b, size) for b, size in zip(self.members[c], self.shapes[c], strict=True) if b != a]
            columns = [b for b, _ in rest] or [a]  # a table of one attribute has one row
            strides = steps([*(size for _, size in rest), int(self.widths[a])])[:-1] or [0]
            other.append(columns[0])
            step.append(strides[0])
            more += columns[1:]
            more_step += strides[1:]
            lengths.append(len(columns) - 1)
        starts = _bounds(np.bincount([a for a, _ in self.entries], minlength=len(self.domain)))
        larger = _bounds(np.asarray(lengths, np.int64) > 0)
        return (
            starts,
            starts[1:] - np.diff(larger[starts]),
            _bounds([self._rows_of(a, c) * int(self.widths[a]) for a, c in self.entries])[:-1],
            _integers(other),
            _integers(step),
            _bounds(lengths),
            _integers(more),
            _integers(more_step),
        )

    def _rows_of(self, a: int, c: int) -> int:
        return math.prod(self.shapes[c]) // int(self.sizes[a])

    @cached_property
    def cells(self) -> Array:
        """Which cell stands at each place of the rows; past the last one for padding."""
        past = int(self.cell_start[-1])
        made = [np.empty(0, np.int64)]
        for a, c in self.entries:
            cells = np.arange(self.cell_start[c], self.cell_start[c + 1]).reshape(self.shapes[c])
            rows = np.full((self._rows_of(a, c), int(self.widths[a])), past, np.int64)
            rows[:, : self.sizes[a]] = np.moveaxis(cells, self.members[c].index(a), -1).reshape(len(rows), -1)
            made.append(rows.ravel())
        return np.concatenate(made).astype(np.int32 if past < 1 << 31 else np.int64)

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
        """Return the rows of potentials, as logarithms."""
        padded = np.append(np.maximum(cells, IMPOSSIBLE), IMPOSSIBLE).astype(np.float32)
        return padded[self.cells]


@dataclass(frozen=True)
class Widened:
    """The same potentials over fewer tables: those inside another are added to it, and sweeps look at it alone."""

    inner: Layout

    @cached_property
    def layout(self) -> Layout:
        """The tables that are inside no other."""
        near = _neighbours(self.inner.cliques)
        sets = [frozenset(c) for c in self.inner.cliques]
        outer = {s: c for s, c in zip(sets, self.inner.cliques, strict=True) if not any(s < sets[t] for t in near(c))}
        return Layout(self.inner.domain, tuple(outer.values()))

    @cached_property
    def _into(self) -> list[tuple[int, tuple[slice | None, ...]]]:
        """Of each inner table: the outer table that takes it, and how its axes are spread over that one's."""
        near = _neighbours(self.layout.cliques)
        sets = [set(c) for c in self.layout.cliques]
        found = []
        for c in self.inner.cliques:
            takes = next(i for i in near(c) if sets[i].issuperset(c))
            found.append((takes, tuple(slice(None) if a in c else None for a in self.layout.cliques[takes])))
        return found

    def add_up(self, cells: Array) -> Array:
        """Return the outer tables' potentials for the inner ones'."""
        wide = np.zeros(self.layout.cell_start[-1])
        tables = self.layout.tables(wide)
        for (takes, spread), table in zip(self._into, self.inner.tables(cells), strict=True):
            tables[takes] += table[spread]
        return wide


def _neighbours(cliques: Sequence[Clique]) -> Callable[[Clique], Sequence[int]]:
    """Return what gives the cliques, by number, among which are all that contain another: those of its rarest name."""
    holding: dict[str, list[int]] = {}
    for i, c in enumerate(cliques):
        for name in c:
            holding.setdefault(name, []).append(i)
    every = range(len(cliques))
    return lambda c: min((holding.get(name, []) for name in c), key=len) if c else every


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
