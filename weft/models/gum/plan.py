"""What GUM does before and after the adjusting: peel, separate, lay the tables out flat, append."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array, Marginal
from weft.marginals.records import code_dtype
from weft.models.apportion import apportion
from weft.models.gum.kernel import Views, count_rows


@dataclass(frozen=True)
class Appended:
    """An attribute that is drawn last: its table given the anchors, which stand first and in clique order."""

    name: str
    anchors: tuple[str, ...]
    table: Array

    def draw(self, columns: Mapping[str, Array], rng: np.random.Generator) -> Array:
        """Draw a value for each record: the anchors' conditional, to the nearest record within each group."""
        shape, size = self.table.shape[:-1], self.table.shape[-1]
        group = np.ravel_multi_index([columns[name] for name in self.anchors], shape)
        chance = self.table.reshape(-1, size)
        empty = chance.sum(axis=1) == 0
        chance = np.where(empty[:, None], chance.sum(axis=0) + np.float64(chance.sum() == 0), chance)
        held = np.bincount(group, minlength=len(chance))
        ends = np.cumsum(chance, axis=1) * (held / chance.sum(axis=1))[:, None] + rng.random((len(chance), 1))
        ends[:, -1] = held + 0.5  # the last value takes what is left, whatever the rounding of the sums
        quota = np.diff(np.minimum(np.floor(ends), held[:, None]).astype(np.int64), axis=1, prepend=0)
        values = np.repeat(np.tile(np.arange(size), len(chance)), quota.ravel())
        order = rng.permutation(len(group))
        drawn = np.empty(len(group), code_dtype(size))
        drawn[order[np.argsort(group[order], kind="stable")]] = values
        return drawn


def maximal(tables: Sequence[Marginal]) -> list[Marginal]:
    """Return the tables of two or more attributes that no other table contains."""
    kept: list[Marginal] = []
    for table in sorted(tables, key=lambda m: -len(m.clique)):
        if len(table.clique) > 1 and not any(set(table.clique) <= set(other.clique) for other in kept):
            kept.append(table)
    return kept


def peel(tables: Sequence[Marginal]) -> tuple[list[Marginal], list[Appended]]:
    """Take off attributes that lie in one table only, again and again, and return what is left.

    The table stays behind summed over what was taken off. A tree of pairs is taken off whole.
    """
    core, appended = list(tables), list[Appended]()
    while True:
        homes: dict[str, list[Marginal]] = {}
        for table in core:
            for name in table.clique:
                homes.setdefault(name, []).append(table)
        lonely = [name for name, held in homes.items() if len(held) == 1]
        if not lonely:
            return core, appended
        name = lonely[0]
        home = homes[name][0]
        axis = home.clique.index(name)
        anchors = home.clique[:axis] + home.clique[axis + 1 :]
        appended.append(Appended(name, anchors, np.moveaxis(home.table, axis, -1)))
        core = maximal([*(table for table in core if table is not home), home.project(anchors)])


@dataclass(frozen=True)
class Part:
    """Attributes that are adjusted together, and their tables."""

    names: tuple[str, ...]
    tables: tuple[Marginal, ...]
    one_way: tuple[Array, ...]

    @cached_property
    def layout(self) -> Layout:
        """The tables laid out for the kernels."""
        return Layout.of(self.names, self.tables)

    def start(self, n: int, rng: np.random.Generator) -> Array:
        """Make n rows whose columns follow the one-way tables, each shuffled on its own."""
        rows = np.empty((n, len(self.names)), code_dtype(max(len(table) for table in self.one_way)))
        for j, table in enumerate(self.one_way):
            rows[:, j] = rng.permutation(np.repeat(np.arange(len(table)), apportion(table, n, rng)))
        return rows


@dataclass(frozen=True)
class Plan:
    """Which attributes are adjusted together, and which are appended, in the order in which to do it."""

    parts: tuple[Part, ...]
    appended: tuple[Appended, ...]

    @classmethod
    def of(cls, domain: Domain, tables: Sequence[Marginal], append: bool, separate: bool) -> Self:
        """Lay the plan for these tables."""
        core, appended = maximal(tables), list[Appended]()
        if append:
            core, appended = peel(core)
        later = {a.name for a in appended}
        names = [name for name in domain if name not in later]
        groups = components(names, core) if separate else [names] if names else []
        return cls(tuple(_part(group, core, tables) for group in groups), tuple(reversed(appended)))


def _part(names: Sequence[str], core: Sequence[Marginal], tables: Sequence[Marginal]) -> Part:
    homes = [min((m for m in tables if name in m.clique), key=lambda m: m.cells) for name in names]
    one_way = tuple(home.project((name,)).table for name, home in zip(names, homes, strict=True))
    return Part(tuple(names), tuple(m for m in core if m.clique[0] in names), one_way)


def components(names: Sequence[str], tables: Sequence[Marginal]) -> list[list[str]]:
    """Group the names that tables connect, in the order of their first name."""
    label = {name: i for i, name in enumerate(names)}
    for table in tables:
        joined = {label[name] for name in table.clique}
        label = {name: min(joined) if i in joined else i for name, i in label.items()}
    return [[name for name in names if label[name] == i] for i in sorted(set(label.values()))]


@dataclass(frozen=True)
class Layout:
    """Many tables end to end: table m has its cells from `offset[m]`, its columns from `start[m]`."""

    names: tuple[str, ...]
    tables: tuple[Marginal, ...]
    start: Array
    column: Array
    stride: Array
    offset: Array

    @classmethod
    def of(cls, names: tuple[str, ...], tables: tuple[Marginal, ...]) -> Self:
        """Lay these tables out; the names say which column of the rows is which."""
        strides = [_strides(m.table.shape) for m in tables]
        return cls(
            names,
            tables,
            _running(len(m.clique) for m in tables),
            np.array([names.index(name) for m in tables for name in m.clique], np.int32),
            np.array([s for each in strides for s in each], np.int32),
            _running(m.cells for m in tables),
        )

    def targets(self, n: int, rng: np.random.Generator) -> Array:
        """Scale every table to n whole records."""
        return np.concatenate([apportion(m.table, n, rng).ravel() for m in self.tables])

    def gaps(self, rows: Array, target: Array) -> Array:
        """Count the rows and subtract the target, cell by cell."""
        counts = np.zeros(len(target), np.int64)
        count_rows(rows, self.start, self.column, self.stride, self.offset, counts)
        return counts - target

    def distances(self, gaps: Array) -> Array:
        """Sum the absolute gaps of each table."""
        return np.add.reduceat(np.abs(gaps), self.offset[:-1])

    @cached_property
    def views(self) -> Views:
        """The tables as each attribute sees them, with its conditional given the others as running sums."""
        cell, own, others, rows, sums = [], [], [], [0], []
        first = [0]
        for name in self.names:
            for m, offset in zip(self.tables, self.offset, strict=False):
                if name not in m.clique:
                    continue
                axis = m.clique.index(name)
                strides = _strides(m.table.shape)
                turned = np.moveaxis(m.table, axis, -1)
                inner = _strides(turned.shape)
                cell.append(offset)
                own.append(strides.pop(axis))
                rest = [self.names.index(other) for other in m.clique if other != name]
                others.append(list(zip(rest, strides, inner[:-1], strict=True)))
                # A group that the table leaves empty offers every value alike.
                sums.append(np.cumsum(turned + 1e-9 * max(turned.max(), 1e-9), axis=-1, dtype=np.float64).ravel())
                rows.append(rows[-1] + m.cells)
            first.append(len(cell))
        column, stride, row_stride = np.array([each for view in others for each in view], np.int32).T.copy()
        return Views(
            sizes=np.array([_size(name, self.tables) for name in self.names], np.int32),
            first=np.array(first, np.int32),
            cell=np.array(cell, np.int32),
            own=np.array(own, np.int32),
            other=_running(len(view) for view in others),
            column=column,
            stride=stride,
            row_stride=row_stride,
            row=np.array(rows[:-1], np.int32),
            cumulative=np.concatenate(sums).astype(np.float32),
        )


def _size(name: str, tables: Sequence[Marginal]) -> int:
    return next((m.table.shape[m.clique.index(name)] for m in tables if name in m.clique), 1)


def _strides(shape: Sequence[int]) -> list[int]:
    return [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]


def _running(lengths: Iterable[int]) -> Array:
    return np.cumsum([0, *lengths]).astype(np.int32)
