"""Message passing as a tape: a list of small loops over one flat array, planned once and run by one kernel.

Python decides once, for a tree and the tables that live on it, which loop comes after which; `run` then makes a whole
two-pass calibration in a single call, without a line of Python in between and without compiling anything for a new
structure. Each loop sees a table as three merged axes (o, m, i) and reduces or repeats the middle one.

Collect, leaves first: a clique's table is the sum of its log-potentials and its children's messages. It is turned, in
place, into exp(table - r) where r is the largest value of each slice over the separator to the parent; with z the
slice sums of that, the message is r + log z. Every slice has largest value 1, so nothing under- or overflows, and a
slice that is wholly impossible (r = -inf) is all zeros. Distribute, roots first: the table times (parent's sums over
the separator) / z is the belief. No belief is ever divided by another one, so structural zeros are safe.

Inside a clique, potentials are not added one by one at full size. Small tables are joined into unions first, and the
unions into the clique's table; sums go down the same unions. That turns k passes over a large clique into a few.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array
from weft.models.mrf.junction import JunctionTree
from weft.models.mrf.kernels import ADD, CONDITION, SCALE, SET, SUM, ZERO, run
from weft.models.mrf.unions import merges

_SCRATCH = (-1, -2)


@dataclass(frozen=True)
class Tape:
    """A planned calibration of one tree, with the places of its tables in the work array."""

    tree: JunctionTree
    tables: Mapping[Clique, slice]
    """Where each table of potentials goes in, and its marginal comes out; side by side from 0, tree order of axes."""
    beliefs: tuple[slice, ...]
    """Where each clique's belief ends up."""
    constants: Mapping[int, slice]
    """Where each table of structural zeros lies (0 or -inf)."""
    total: int
    """Place of the total."""
    partitions: tuple[int, ...]
    """Places of the log-partition of each component."""
    code: Array
    size: int

    @property
    def length(self) -> int:
        """Cells of all tables of potentials together."""
        return max((place.stop for place in self.tables.values()), default=0)

    def start(self, total: float, zeros: Sequence[Array] = ()) -> Array:
        """Return a work array, ready to be run."""
        work = np.zeros(self.size)
        work[self.total] = total
        for number, place in self.constants.items():
            work[place] = np.where(zeros[number].ravel(), -np.inf, 0.0)
        return work

    def run(self, work: Array, potentials: Array) -> Array:
        """Calibrate: log-potentials in, expected counts of the same tables out (a view of the work array)."""
        work[: self.length] = potentials
        run(self.code, work)
        return work[: self.length]

    def log_partition(self, work: Array) -> float:
        """Logarithm of the sum of exp(potentials) over the whole domain, as of the last run."""
        return float(sum(work[place] for place in self.partitions))

    def belief(self, work: Array, number: int) -> Array:
        """Expected counts of one clique of the tree, axes in tree order."""
        return work[self.beliefs[number]].reshape(self.tree.domain.sizes(self.tree.axes[number]))


@dataclass
class _Writer:
    """Gives out places in the work array and writes instructions."""

    domain: Domain
    used: int = 0
    scratch: int = 0
    code: list[tuple[int, ...]] = field(default_factory=list)

    def place(self, cells: int) -> int:
        start, self.used = self.used, self.used + cells
        return start

    def emit(self, op: int, to: int, source: int, o: int, m: int, i: int, extra: int = 0) -> None:
        self.code.append((op, to, source, o, m, i, extra))

    def steps(self, axes: Clique, kept: frozenset[str]) -> list[tuple[int, int, int]]:
        # Axes that stay or go together merge into one; the longest run that goes is summed first, so that the
        # remaining steps are over a table several times smaller.
        runs: list[tuple[bool, int]] = []
        for name in axes:
            stays = name in kept
            size = self.domain.size(name)
            if runs and runs[-1][0] == stays:
                runs[-1] = (stays, runs[-1][1] * size)
            else:
                runs.append((stays, size))
        found = []
        while any(not stays for stays, _ in runs):
            k = max((k for k, (stays, _) in enumerate(runs) if not stays), key=lambda k: runs[k][1])
            before, after = math.prod(n for _, n in runs[:k]), math.prod(n for _, n in runs[k + 1 :])
            found.append((before, runs[k][1], after))
            left, right = runs[:k], runs[k + 1 :]
            if left and right:
                left, right = left[:-1], [(True, left[-1][1] * right[0][1]), *right[1:]]
            runs = left + right
        return found or [(1, 1, math.prod(n for _, n in runs))]

    def reduce(self, source: int, axes: Clique, to: int, kept: frozenset[str]) -> None:
        steps = self.steps(axes, kept)
        for k, (o, m, i) in enumerate(steps):
            last = k == len(steps) - 1
            self.emit(SUM, to if last else _SCRATCH[k % 2], source, o, m, i)
            if not last:
                self.scratch = max(self.scratch, o * i)
                source = _SCRATCH[k % 2]

    def expand(self, op: int, to: int, axes: Clique, source: int, kept: frozenset[str]) -> None:
        steps = self.steps(axes, kept)[::-1]
        for k, (o, m, i) in enumerate(steps):
            last = k == len(steps) - 1
            self.emit(op if last else SET, to if last else _SCRATCH[k % 2], source, o, m, i)
            if not last:
                self.scratch = max(self.scratch, o * m * i)
                source = _SCRATCH[k % 2]

    def finish(self) -> Array:
        first = self.place(self.scratch)
        second = self.place(self.scratch)
        code = np.array(self.code, dtype=np.int64).reshape(-1, 7)
        for column in (1, 2):
            code[code[:, column] == _SCRATCH[0], column] = first
            code[code[:, column] == _SCRATCH[1], column] = second
        return code


@dataclass
class _Node:
    """A table inside a clique, or a union of some; `holds`: something lies there before its children are added."""

    names: frozenset[str]
    place: int
    holds: bool
    children: list[_Node] = field(default_factory=list)
    constant: bool = False


def join_unions(domain: Domain, axes: Clique, items: Sequence[_Node], writer: _Writer) -> list[_Node]:
    """Join small tables into unions while a union is less than half the clique; return the tables at the top.

    Reading two tables from the clique costs two passes over it; reading them from their union costs one pass, and
    two over the union. Greedy: the smallest union first.
    """
    names = {name: k for k, name in enumerate(axes)}
    logs = np.log2(np.asarray(domain.sizes(axes), dtype=np.float64))
    member = np.zeros((2 * len(items), len(axes)), dtype=np.bool_)
    for k, item in enumerate(items):
        member[k, [names[name] for name in item.names]] = True
    nodes = list(items)
    top = dict.fromkeys(range(len(items)))
    for a, b, new in merges(member, len(items), logs):
        if new == a:
            nodes[a].children.append(nodes[b])
        elif new == b:
            nodes[b].children.append(nodes[a])
        else:
            union = nodes[a].names | nodes[b].names
            nodes.append(_Node(union, writer.place(domain.cells(union)), False, [nodes[a], nodes[b]]))
            top[int(new)] = None
        for old in {a, b} - {new}:
            del top[int(old)]
    return [nodes[k] for k in top]


def plan(tree: JunctionTree, tables: Sequence[Clique], zeros: Sequence[Clique] = ()) -> Tape:
    """Plan the calibration of a tree under log-potentials over `tables` and structural zeros over `zeros`.

    Every table must be covered by one clique of the tree, and none may come twice.
    """
    domain = tree.domain
    writer = _Writer(domain)
    items: list[list[_Node]] = [[] for _ in tree.cliques]
    places: dict[Clique, slice] = {}
    for table in tables:
        start = writer.place(domain.cells(table))
        places[table] = slice(start, writer.used)
        items[_home(tree, table)].append(_Node(frozenset(table), start, True))
    constants = {}
    for number, table in enumerate(zeros):
        start = writer.place(domain.cells(table))
        constants[number] = slice(start, writer.used)
        fixed = _Node(frozenset(table), start, True, constant=True)
        items[_home(tree, table)].append(_Node(fixed.names, writer.place(domain.cells(table)), False, [fixed]))
    total = writer.place(1)
    counts = [domain.cells(s) for s in tree.separators]
    messages = [writer.place(n) for n in counts]
    sums = [writer.place(n) for n in counts]
    starts = [writer.place(n) for n in tree.sizes]
    for number, parent in enumerate(tree.parents):
        if parent >= 0:
            items[parent].append(_Node(frozenset(tree.separators[number]), messages[number], True))
    tops = [
        _Node(frozenset(axes), start, False, join_unions(domain, axes, found, writer))
        for axes, start, found in zip(tree.axes, starts, items, strict=True)
    ]
    for number in reversed(range(len(tops))):
        _collect(writer, tree, tops[number])
        rest = tree.sizes[number] // counts[number]
        writer.emit(CONDITION, starts[number], messages[number], counts[number], rest, 1, sums[number])
    for number, top in enumerate(tops):
        rest = tree.sizes[number] // counts[number]
        known = messages[number] if tree.parents[number] >= 0 else total
        writer.emit(SCALE, starts[number], known, counts[number], rest, 1, sums[number])
        _distribute(writer, tree, top)
    code = writer.finish()
    beliefs = tuple(slice(start, start + n) for start, n in zip(starts, tree.sizes, strict=True))
    roots = tuple(messages[i] for i, parent in enumerate(tree.parents) if parent < 0)
    return Tape(tree, places, beliefs, constants, total, roots, code, writer.used)


def plan_sums(domain: Domain, axes: Clique, tables: Sequence[Clique]) -> tuple[Array, list[slice], slice, int]:
    """Plan the sums of one table down to many: code, places of the results, place of the table, size of the work."""
    writer = _Writer(domain)
    starts = [writer.place(domain.cells(table)) for table in tables]
    nodes = [_Node(frozenset(t), start, True) for t, start in zip(tables, starts, strict=True)]
    source = writer.place(domain.cells(axes))
    _distribute_from(writer, axes, _Node(frozenset(axes), source, True, join_unions(domain, axes, nodes, writer)))
    code = writer.finish()
    places = [slice(s, s + domain.cells(t)) for t, s in zip(tables, starts, strict=True)]
    return code, places, slice(source, source + domain.cells(axes)), writer.used


def _home(tree: JunctionTree, table: Clique) -> int:
    home = tree.home(table)
    if home is None:
        raise ValueError(f"no clique of the tree covers {table}")
    return home


def _collect(writer: _Writer, tree: JunctionTree, node: _Node) -> None:
    axes = tree.in_order(node.names)
    holds = node.holds
    for child in node.children:
        _collect(writer, tree, child)
        writer.expand(ADD if holds else SET, node.place, axes, child.place, child.names)
        holds = True
    if not holds:
        writer.emit(ZERO, node.place, 0, 1, 1, writer.domain.cells(axes))


def _distribute(writer: _Writer, tree: JunctionTree, node: _Node) -> None:
    _distribute_from(writer, tree.in_order(node.names), node)


def _distribute_from(writer: _Writer, axes: Clique, node: _Node) -> None:
    for child in node.children:
        if not child.constant:
            writer.reduce(node.place, axes, child.place, child.names)
            _distribute_from(writer, tuple(name for name in axes if name in child.names), child)
