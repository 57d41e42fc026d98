"""Exact marginals of a Markov random field, within and across the cliques of its junction tree, and sampling."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.marginals.domain import Clique, make_clique
from weft.marginals.marginal import Array, Marginal
from weft.marginals.records import Records, code_dtype
from weft.models.apportion import apportion_groups
from weft.models.conditional import ImpossibleEvidenceError
from weft.models.mrf.junction_tree import MAX_TOTAL, JunctionTree, ModelTooLarge
from weft.models.mrf.message_passing import plan_calibration, plan_sums, run_tape
from weft.progress import Listener, ignore_event, report_stage

_SMALL = 1 << 15  # number of cells up to which plain sums are cheaper than planned ones


def reorder_axes(table: Array, axes: Sequence[str], wanted: Sequence[str]) -> Array:
    """Reorder the axes of a table from `axes` to `wanted`."""
    return np.transpose(table, [axes.index(name) for name in wanted])


def calibrate_tree(
    tree: JunctionTree, potentials: Mapping[Clique, Array], total: float, zeros: Sequence[Marginal] = ()
) -> CalibratedTree:
    """Compute the expected counts (sum `total`) of every clique of a tree under p(x) proportional to exp(sum theta).

    `potentials` are log-potentials by clique, -inf allowed; `zeros` are boolean tables, true for impossible cells.
    """
    domain = tree.domain
    order = [tree.in_order(c) for c in potentials]
    barred = [tree.in_order(zero.clique) for zero in zeros]
    tape = plan_calibration(tree, order, barred)
    work = tape.start(total, [reorder_axes(z.table, z.clique, axes) for z, axes in zip(zeros, barred, strict=True)])
    theta = np.empty(tape.length)
    for axes, (c, table) in zip(order, potentials.items(), strict=True):
        if table.shape != domain.sizes(c):
            raise ValueError(f"the potential over {c} needs shape {domain.sizes(c)}, not {table.shape}")
        theta[tape.tables[axes]] = reorder_axes(table, c, axes).ravel()
    tape.run(work, theta)
    if tape.log_partition(work) == -math.inf:
        raise ImpossibleEvidenceError("no record is possible under these zeros or conditions; relax one of them")
    return CalibratedTree(tree, tuple(tape.belief(work, i) for i in range(len(tree.cliques))), total)


@dataclass(frozen=True)
class CalibratedTree:
    """Calibrated junction tree: consistent expected counts over each clique."""

    tree: JunctionTree
    tables: tuple[Array, ...]
    """One table per clique, axes as in `tree.axes`."""
    total: float

    def marginal(self, columns: Iterable[str]) -> Array:
        """Return expected counts over any attributes, axes in clique order."""
        return self.many([make_clique(columns)])[0]

    def many(self, cliques: Sequence[Clique], *, max_cells: int = MAX_TOTAL) -> list[Array]:
        """Return expected counts over many cliques, sharing work between them.

        Subsets of tree cliques are projected by way of shared unions; others need variable elimination.
        """
        domain = self.tree.domain
        for c in cliques:
            if domain.cells(c) > max_cells:
                raise ModelTooLarge(
                    f"a marginal over {', '.join(c)} has {domain.cells(c):,} cells, above the limit of {max_cells:,}; "
                    "query fewer columns"
                )
        search = _Elimination(self, max_cells)
        at_home: dict[Clique, int] = {}
        for c in dict.fromkeys(cliques):
            home = self.tree.home(c)
            if home is None:
                search.foresee(frozenset(c))
            else:
                at_home[c] = home
                search.needs[home][frozenset(c)] = None
        for number, sets in enumerate(search.needs):
            names = [self.tree.in_order(names) for names in sets]
            search.tables[number] = dict(zip(sets, self._project(number, names), strict=True))
        answers = {}
        for c in dict.fromkeys(cliques):
            if c in at_home:
                axes, table = self.tree.in_order(c), search.tables[at_home[c]][frozenset(c)]
            else:
                axes, table = search.joint(frozenset(c))
            # Copy, so that a small result does not keep a large work array alive.
            answers[c] = reorder_axes(table, axes, c).copy()
        return [answers[c] for c in cliques]

    def _project(self, home: int, group: Sequence[Clique]) -> list[Array]:
        axes, table = self.tree.axes[home], self.tables[home]
        if table.size <= _SMALL or not group:
            return [sum_out_axes(table, axes, names) for names in group]
        code, places, source, size = plan_sums(self.tree.domain, axes, group)
        work = np.empty(size)
        work[source] = table.ravel()
        run_tape(code, work)
        shapes = [self.tree.domain.sizes(names) for names in group]
        return [work[place].reshape(shape) for place, shape in zip(places, shapes, strict=True)]


def sum_out_axes(table: Array, axes: Sequence[str], kept: Iterable[str]) -> Array:
    """Sum a table over the axes that are not kept."""
    names = set(kept)
    return np.asarray(table.sum(axis=tuple(i for i, name in enumerate(axes) if name not in names)))


@dataclass
class _Elimination:
    """Joint counts of attributes that are not in one clique, by variable elimination.

    A message from a clique is p(requested attributes below it | its separator), so queries for the same attributes
    below it share the message. Branches without requested attributes sum to one and are skipped. `foresee` collects the
    projections of each clique's belief that queries need, so that they can be computed together.
    """

    beliefs: CalibratedTree
    max_cells: int
    memo: dict[tuple[int, frozenset[str]], tuple[Clique, Array]] = field(default_factory=dict)
    tables: dict[int, dict[frozenset[str], Array]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tree = self.beliefs.tree
        self.needs: list[dict[frozenset[str], None]] = [{} for _ in self.tree.cliques]
        below = [set(c) for c in self.tree.cliques]
        for i in reversed(range(len(below))):
            if self.tree.parents[i] >= 0:
                below[self.tree.parents[i]] |= below[i]
        self.below = [frozenset(names) for names in below]
        self.separators = [frozenset(s) for s in self.tree.separators]

    def _tops(self, wanted: frozenset[str]) -> Iterator[tuple[int, frozenset[str]]]:
        # In each component, the lowest clique whose subtree contains all requested attributes.
        for root, parent in enumerate(self.tree.parents):
            part = wanted & self.below[root] if parent < 0 else frozenset()
            node: int | None = root if part else None
            while node is not None:
                top, node = node, next((c for c in self.tree.children[node] if part <= self.below[c]), None)
                if node is None:
                    yield top, part

    def _branches(self, node: int, wanted: frozenset[str]) -> list[tuple[int, frozenset[str]]]:
        left = wanted.difference(self.tree.cliques[node])
        return [(child, left & self.below[child]) for child in self.tree.children[node] if left & self.below[child]]

    def _needed(self, node: int, kept: frozenset[str], branches: list[tuple[int, frozenset[str]]]) -> frozenset[str]:
        ends = (self.separators[child] for child, _ in branches)
        return kept.union(*ends).intersection(self.tree.cliques[node])

    def foresee(self, wanted: frozenset[str]) -> None:
        """Register the projections that `joint` of these attributes will need."""
        waiting = [(top, part, part) for top, part in self._tops(wanted)]
        while waiting:
            node, part, kept = waiting.pop()
            branches = self._branches(node, part)
            self.needs[node][self._needed(node, kept, branches)] = None
            for child, names in branches:
                self.needs[child][self.separators[child]] = None
                waiting.append((child, names, names | self.separators[child]))

    def joint(self, wanted: frozenset[str]) -> tuple[Clique, Array]:
        """Return the axes and joint counts of attributes that were passed to `foresee`."""
        total = self.beliefs.total
        axes: Clique = ()
        table = np.array(total)
        for top, part in self._tops(wanted):
            found, counts = self._gather(top, part, part)
            table = np.multiply.outer(table, counts / total)
            axes += found
        return axes, table

    def _message(self, node: int, wanted: frozenset[str]) -> tuple[Clique, Array]:
        key = (node, wanted)
        if key not in self.memo:
            separator = self.tree.in_order(self.separators[node])
            axes, table = self._gather(node, wanted, wanted | self.separators[node])
            given = self.tables[node][self.separators[node]]
            first = separator + tuple(name for name in axes if name not in separator)
            table = reorder_axes(table, axes, first)
            given = given.reshape(given.shape + (1,) * (table.ndim - given.ndim))
            self.memo[key] = first, np.divide(table, given, out=np.zeros_like(table), where=given > 0)
        return self.memo[key]

    def _gather(self, node: int, wanted: frozenset[str], kept: frozenset[str]) -> tuple[Clique, Array]:
        branches = self._branches(node, wanted)
        needed = self._needed(node, kept, branches)
        axes, table = self.tree.in_order(needed), self.tables[node][needed]
        for k, (child, names) in enumerate(branches):
            later = kept.union(*(self.separators[other] for other, _ in branches[k + 1 :]))
            axes, table = self._contract(axes, table, *self._message(child, names), later)
        return axes, table

    def _contract(self, left: Clique, a: Array, right: Clique, b: Array, kept: frozenset[str]) -> tuple[Clique, Array]:
        shared = [name for name in left if name in right]
        batch = [name for name in shared if name in kept]
        summed = [name for name in shared if name not in kept]
        mine = [name for name in left if name not in right]
        other = [name for name in right if name not in left]
        domain = self.tree.domain
        axes = (*batch, *mine, *other)
        if domain.cells(axes) > self.max_cells:
            raise ModelTooLarge(
                f"a marginal across cliques needs a table of {domain.cells(axes):,} cells over {', '.join(axes)}, "
                f"above the limit of {self.max_cells:,}; query fewer columns"
            )
        cells = domain.cells
        first = reorder_axes(a, left, (*batch, *mine, *summed)).reshape(cells(batch), cells(mine), cells(summed))
        second = reorder_axes(b, right, (*batch, *summed, *other)).reshape(cells(batch), cells(summed), cells(other))
        return axes, (first @ second).reshape(domain.sizes(axes))


def sample_from_tree(
    beliefs: CalibratedTree, n: int, rng: np.random.Generator, listener: Listener = ignore_event
) -> Records:
    """Sample n records whose counts over each clique follow the beliefs up to rounding.

    Cliques are visited parents first. The n_s records with separator value s are divided over the cells r of the new
    attributes: each gets the floor or the ceiling of n_s p(r | s), with the right mean (`apportion_groups`).
    """
    tree, domain = beliefs.tree, beliefs.tree.domain
    columns: dict[str, Array] = {}
    with report_stage(listener, "sample", total=len(tree.cliques)) as work:
        for axes, separator, table in zip(tree.axes, tree.separators, beliefs.tables, strict=True):
            old, new = axes[: len(separator)], axes[len(separator) :]
            groups, cells = domain.cells(old), domain.cells(new)
            code = np.zeros(n, dtype=np.int64)
            for name in old:
                code *= domain.size(name)
                code += columns[name]
            drawn = apportion_groups(np.ascontiguousarray(table).reshape(groups, cells), code, rng)
            for name in reversed(new):
                drawn, column = np.divmod(drawn, domain.size(name))
                columns[name] = column.astype(code_dtype(domain.size(name)))
            work.advance()
    return Records.of(domain, [columns[name] for name in domain.names])


@dataclass(frozen=True)
class Calibrated:
    """Sampler of a calibrated tree, without later adjustment of the records."""

    beliefs: CalibratedTree

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Sample n records."""
        return sample_from_tree(self.beliefs, n, rng, listener)
