"""What GUM does before and after the adjusting: peel, separate, lay the tables out flat, append."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array, Marginal
from weft.marginals.records import Records, code_dtype
from weft.models.apportion import apportion_records
from weft.models.gum.gum_kernels import Views, count_rows, sweep_rows
from weft.progress import Listener, ignore_event, report_stage


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


def select_maximal_tables(tables: Sequence[Marginal]) -> list[Marginal]:
    """Return the tables of two or more attributes that no other table contains."""
    kept: list[Marginal] = []
    for table in sorted(tables, key=lambda m: -len(m.clique)):
        if len(table.clique) > 1 and not any(set(table.clique) <= set(other.clique) for other in kept):
            kept.append(table)
    return kept


def peel_attributes(tables: Sequence[Marginal]) -> tuple[list[Marginal], list[Appended]]:
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
        core = select_maximal_tables([*(table for table in core if table is not home), home.project(anchors)])


@dataclass(frozen=True)
class GumComponent:
    """Attributes that are adjusted together, and their tables."""

    names: tuple[str, ...]
    tables: tuple[Marginal, ...]
    one_way: tuple[Array, ...]

    @cached_property
    def layout(self) -> KernelLayout:
        """The tables laid out for the kernels."""
        return KernelLayout.of(self.names, self.tables)

    def start(self, n: int, rng: np.random.Generator) -> Array:
        """Make n rows whose columns follow the one-way tables, each shuffled on its own."""
        rows = np.empty((n, len(self.names)), code_dtype(max(len(table) for table in self.one_way)))
        for j, table in enumerate(self.one_way):
            rows[:, j] = rng.permutation(np.repeat(np.arange(len(table)), apportion_records(table, n, rng)))
        return rows


@dataclass(frozen=True)
class GumPlan:
    """Which attributes are adjusted together, and which are appended, in the order in which to do it."""

    parts: tuple[GumComponent, ...]
    appended: tuple[Appended, ...]

    @classmethod
    def of(cls, domain: Domain, tables: Sequence[Marginal], append: bool, separate: bool) -> Self:
        """Lay the plan for these tables."""
        core, appended = select_maximal_tables(tables), list[Appended]()
        if append:
            core, appended = peel_attributes(core)
        later = {a.name for a in appended}
        names = [name for name in domain if name not in later]
        groups = group_connected_names(names, core) if separate else [names] if names else []
        return cls(tuple(_make_component(group, core, tables) for group in groups), tuple(reversed(appended)))


def _make_component(names: Sequence[str], core: Sequence[Marginal], tables: Sequence[Marginal]) -> GumComponent:
    homes = [min((m for m in tables if name in m.clique), key=lambda m: m.cells) for name in names]
    one_way = tuple(home.project((name,)).table for name, home in zip(names, homes, strict=True))
    return GumComponent(tuple(names), tuple(m for m in core if m.clique[0] in names), one_way)


def group_connected_names(names: Sequence[str], tables: Sequence[Marginal]) -> list[list[str]]:
    """Group the names that tables connect, in the order of their first name."""
    label = {name: i for i, name in enumerate(names)}
    for table in tables:
        joined = {label[name] for name in table.clique}
        label = {name: min(joined) if i in joined else i for name, i in label.items()}
    return [[name for name in names if label[name] == i] for i in sorted(set(label.values()))]


@dataclass(frozen=True)
class KernelLayout:
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
        strides = [_compute_strides(m.table.shape) for m in tables]
        return cls(
            names,
            tables,
            _accumulate(len(m.clique) for m in tables),
            np.array([names.index(name) for m in tables for name in m.clique], np.int32),
            np.array([s for each in strides for s in each], np.int32),
            _accumulate(m.cells for m in tables),
        )

    def targets(self, n: int, rng: np.random.Generator) -> Array:
        """Scale every table to n whole records."""
        return np.concatenate([apportion_records(m.table, n, rng).ravel() for m in self.tables])

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
                strides = _compute_strides(m.table.shape)
                turned = np.moveaxis(m.table, axis, -1)
                inner = _compute_strides(turned.shape)
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
            sizes=np.array([_get_attribute_size(name, self.tables) for name in self.names], np.int32),
            first=np.array(first, np.int32),
            cell=np.array(cell, np.int32),
            own=np.array(own, np.int32),
            other=_accumulate(len(view) for view in others),
            column=column,
            stride=stride,
            row_stride=row_stride,
            row=np.array(rows[:-1], np.int32),
            cumulative=np.concatenate(sums).astype(np.float32),
        )


def _get_attribute_size(name: str, tables: Sequence[Marginal]) -> int:
    return next((m.table.shape[m.clique.index(name)] for m in tables if name in m.clique), 1)


def _compute_strides(shape: Sequence[int]) -> list[int]:
    return [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]


def _accumulate(lengths: Iterable[int]) -> Array:
    return np.cumsum([0, *lengths]).astype(np.int32)


MAX_SWEEPS = 12
"""Sweeps over records that were drawn from a model and only need adjusting."""

_STILL = 0.003
"""Part of the values below which a sweep is the last."""


def adjust_records(
    records: Records, tables: Sequence[Marginal], rng: np.random.Generator, listener: Listener = ignore_event
) -> Records:
    """Return the records with values changed so that they agree better with all of these tables, in random order.

    The tables must be non-negative and agree with each other; attributes in none of them stay as they are.
    """
    names = records.domain.names
    kept = tuple(m for m in tables if len(m.clique) > 1)
    if not kept or not len(records):
        return records
    rows = np.empty((len(records), len(names)), code_dtype(max(records.domain.shape)))
    for j, column in enumerate(records.columns):
        rows[:, j] = column
    layout = KernelLayout.of(names, kept)
    target = layout.targets(len(rows), rng)
    # As in guided GUM: between squared error, which neglects small cells, and chi-square, which is slow on large ones.
    state = np.stack([layout.gaps(rows, target), (1.0 + target) ** -0.5], axis=1).astype(np.float32)
    seed = rng.integers(1 << 63, size=1, dtype=np.uint64)
    with report_stage(listener, "adjust records", MAX_SWEEPS) as work:
        for t in range(MAX_SWEEPS):
            taken = sweep_rows(rows, layout.views, state, seed)
            still = taken < _STILL * rows.size
            error = float(layout.distances(state[:, 0]).mean()) / (2 * len(rows))
            work.advance(MAX_SWEEPS - t if still else 1, f"mean total variation {error:.4f}")
            if still:
                break
    rows = rows[rng.permutation(len(rows))]  # early rows take more of the changes
    return Records.of(records.domain, [np.ascontiguousarray(rows[:, j]) for j in range(len(names))])
