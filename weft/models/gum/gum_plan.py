"""Preparation and completion of GUM: peel attributes, separate components, lay out tables, append attributes."""

from __future__ import annotations

from collections import Counter
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
    """Attribute that is sampled last, given its anchors: the leading axes of its table, in clique order."""

    name: str
    anchors: tuple[str, ...]
    table: Array

    def draw(self, columns: Mapping[str, Array], rng: np.random.Generator) -> Array:
        """Sample a value for each record; counts within each group follow the conditional up to rounding."""
        shape, size = self.table.shape[:-1], self.table.shape[-1]
        group = np.ravel_multi_index([columns[name] for name in self.anchors], shape)
        chance = self.table.reshape(-1, size)
        empty = chance.sum(axis=1) == 0
        chance = np.where(empty[:, None], chance.sum(axis=0) + np.float64(chance.sum() == 0), chance)
        held = np.bincount(group, minlength=len(chance))
        ends = np.cumsum(chance, axis=1) * (held / chance.sum(axis=1))[:, None] + rng.random((len(chance), 1))
        ends[:, -1] = held + 0.5  # the last value takes the rest, regardless of rounding
        quota = np.diff(np.minimum(np.floor(ends), held[:, None]).astype(np.int64), axis=1, prepend=0)
        values = np.repeat(np.tile(np.arange(size), len(chance)), quota.ravel())
        order = rng.permutation(len(group))
        drawn = np.empty(len(group), code_dtype(size))
        drawn[order[np.argsort(group[order], kind="stable")]] = values
        return drawn


def select_maximal_tables(tables: Sequence[Marginal]) -> list[Marginal]:
    """Return the tables of two or more attributes that are contained in no other table."""
    kept: list[Marginal] = []
    for table in sorted(tables, key=lambda m: -len(m.clique)):
        if len(table.clique) > 1 and not any(set(table.clique) <= set(other.clique) for other in kept):
            kept.append(table)
    return kept


def peel_attributes(tables: Sequence[Marginal], once: bool = False) -> tuple[list[Marginal], list[Appended]]:
    """Repeatedly remove attributes that are in one table only, which is then projected; a tree of pairs disappears.

    With `once`, only attributes that are in one of the given tables are removed.
    """
    core, appended = list(tables), list[Appended]()
    held = Counter(name for table in tables for name in table.clique)
    while True:
        homes: dict[str, list[Marginal]] = {}
        for table in core:
            for name in table.clique:
                homes.setdefault(name, []).append(table)
        lonely = [name for name, inside in homes.items() if len(inside) == 1 and (held[name] == 1 or not once)]
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
        """Layout of the tables for the kernels."""
        return KernelLayout.of(self.names, self.tables)

    def start(self, n: int, rng: np.random.Generator) -> Array:
        """Return n rows that follow the one-way tables, each attribute shuffled independently."""
        rows = np.empty((n, len(self.names)), code_dtype(max(len(table) for table in self.one_way)))
        for j, table in enumerate(self.one_way):
            rows[:, j] = rng.permutation(np.repeat(np.arange(len(table)), apportion_records(table, n, rng)))
        return rows


@dataclass(frozen=True)
class GumPlan:
    """Attributes that are adjusted together, and attributes that are appended, in order."""

    parts: tuple[GumComponent, ...]
    appended: tuple[Appended, ...]

    @classmethod
    def of(
        cls, domain: Domain, tables: Sequence[Marginal], append: bool, separate: bool, *, once: bool = False
    ) -> Self:
        """Create the plan for these tables; with `once`, attributes are peeled in a single round."""
        core, appended = select_maximal_tables(tables), list[Appended]()
        if append:
            core, appended = peel_attributes(core, once)
        later = {a.name for a in appended}
        names = [name for name in domain if name not in later]
        groups = group_connected_names(names, core) if separate else [names] if names else []
        return cls(tuple(_make_component(group, core, tables) for group in groups), tuple(reversed(appended)))


def _make_component(names: Sequence[str], core: Sequence[Marginal], tables: Sequence[Marginal]) -> GumComponent:
    homes = [min((m for m in tables if name in m.clique), key=lambda m: m.cells) for name in names]
    one_way = tuple(home.project((name,)).table for name, home in zip(names, homes, strict=True))
    return GumComponent(tuple(names), tuple(m for m in core if m.clique[0] in names), one_way)


def group_connected_names(names: Sequence[str], tables: Sequence[Marginal]) -> list[list[str]]:
    """Return the connected components of names under the tables, in order of their first name."""
    label = {name: i for i, name in enumerate(names)}
    for table in tables:
        joined = {label[name] for name in table.clique}
        label = {name: min(joined) if i in joined else i for name, i in label.items()}
    return [[name for name in names if label[name] == i] for i in sorted(set(label.values()))]


@dataclass(frozen=True)
class KernelLayout:
    """Concatenated tables: the cells of table m start at `offset[m]`, its attributes at `start[m]`."""

    names: tuple[str, ...]
    tables: tuple[Marginal, ...]
    start: Array
    column: Array
    stride: Array
    offset: Array

    @classmethod
    def of(cls, names: tuple[str, ...], tables: tuple[Marginal, ...]) -> Self:
        """Lay out these tables for rows with attributes `names`."""
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
        """Scale every table to integer counts of n records."""
        return np.concatenate([apportion_records(m.table, n, rng).ravel() for m in self.tables])

    def gaps(self, rows: Array, target: Array) -> Array:
        """Return the counts of the rows minus the target."""
        counts = np.zeros(len(target), np.int64)
        count_rows(rows, self.start, self.column, self.stride, self.offset, counts)
        return counts - target

    def distances(self, gaps: Array) -> Array:
        """Return the L1 norm of the gaps of each table."""
        return np.add.reduceat(np.abs(gaps), self.offset[:-1])

    @cached_property
    def views(self) -> Views:
        """Views of the tables by attribute, with cumulative conditionals given the other attributes."""
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
                # The small constant makes proposals uniform for groups that are empty in the table.
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


MAX_SWEEPS = 12  # maximum number of sweeps over records sampled from a model

_STILL = 0.003  # share of changed values below which a sweep is the last


def adjust_records(
    records: Records, tables: Sequence[Marginal], rng: np.random.Generator, listener: Listener = ignore_event
) -> Records:
    """Adjust values to match non-negative, consistent tables; return the records in random order."""
    names = records.domain.names
    kept = tuple(m for m in tables if len(m.clique) > 1)
    if not kept or not len(records):
        return records
    rows = np.empty((len(records), len(names)), code_dtype(max(records.domain.shape)))
    for j, column in enumerate(records.columns):
        rows[:, j] = column
    layout = KernelLayout.of(names, kept)
    target = layout.targets(len(rows), rng)
    # Weights as in guided GUM: between squared error (neglects small cells) and chi-square (slow on large cells).
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
    rows = rows[rng.permutation(len(rows))]  # early rows are changed more often
    return Records.of(records.domain, [np.ascontiguousarray(rows[:, j]) for j in range(len(names))])
