"""Message passing as a tape: a list of small loops over one flat array, planned once and run by one kernel.

For a tree and its tables, Python plans the sequence of loops once; `run_tape` then runs a whole two-pass calibration in
one call, and new structures need no compilation. Each loop treats a table as three merged axes (o, m, i) and sums or
broadcasts the middle one.

Collect, leaves first: the table of a clique is the sum of its log-potentials and its children's messages. It is
replaced by exp(table - r), where r is the maximum of each slice over the separator to the parent; with z the slice
sums, the message is r + log z. Every slice has maximum 1, which prevents underflow and overflow; an impossible slice (r
= -inf) is all zeros. Distribute, roots first: the belief is the table times (parent's sums over the separator) / z.
Beliefs are never divided by each other, so structural zeros are safe.

Potentials are not added to a clique one by one at full size. Small tables are first joined into unions, and the unions
into the clique's table; sums use the same unions. This replaces k passes over a large clique by a few.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from weft.kernels import kernel
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array
from weft.models.mrf.junction_tree import JunctionTree


@kernel(cache=True, nogil=True)
def find_merges(member: Array, count: int, logs: Array) -> Any:
    """Compute greedy unions; return rows (a, b, the node that replaces both: a, b, or a new one)."""
    width = len(logs)
    full = logs.sum()
    alive = np.zeros(2 * count, np.bool_)
    alive[:count] = True
    size = np.zeros(2 * count)
    for a in range(count):
        for v in range(width):
            if member[a, v]:
                size[a] += logs[v]
    best = np.full(2 * count, np.inf)
    mate = np.full(2 * count, -1)
    found = np.empty((count, 3), np.int64)
    made, nodes = 0, count
    for a in range(count):
        for b in range(a):
            union = _compute_union_size(member, a, b, logs)
            if union < best[a]:
                best[a], mate[a] = union, b
    while True:
        a = -1
        for k in range(nodes):
            if alive[k] and mate[k] >= 0 and (a < 0 or best[k] < best[a]):
                a = k
        if a < 0:
            break
        b = mate[a]
        # A union must be at most half the clique; a table contained in another is always its child.
        if best[a] > full - 1.0 + 1e-9 and best[a] > max(size[a], size[b]) + 1e-9:
            best[a] = np.inf
            mate[a] = -1
            for k in range(a):
                if alive[k]:
                    union = _compute_union_size(member, a, k, logs)
                    if union <= max(size[a], size[k]) + 1e-9 and union < best[a]:
                        best[a], mate[a] = union, k
            if mate[a] < 0:
                continue
            b = mate[a]
        if best[a] <= size[a] + 1e-9 and _is_subset(member, b, a):
            new = a
        elif best[a] <= size[b] + 1e-9 and _is_subset(member, a, b):
            new = b
        else:
            new = nodes
            nodes += 1
            for v in range(width):
                member[new, v] = member[a, v] or member[b, v]
            size[new] = best[a]
            alive[new] = True
        found[made] = (a, b, new)
        made += 1
        for k in (a, b):
            if k != new:
                alive[k] = False
        # Nodes whose mate was merged search again among earlier live nodes; so does the new node.
        for k in range(nodes):
            if alive[k] and (k == new or (mate[k] >= 0 and not alive[mate[k]])):
                best[k], mate[k] = np.inf, -1
                for j in range(k):
                    if alive[j]:
                        union = _compute_union_size(member, k, j, logs)
                        if union < best[k]:
                            best[k], mate[k] = union, j
    return found[:made]


@kernel(cache=True, nogil=True)
def _compute_union_size(member: Array, a: int, b: int, logs: Array) -> Any:
    total = 0.0
    for v in range(len(logs)):
        if member[a, v] or member[b, v]:
            total += logs[v]
    return total


@kernel(cache=True, nogil=True)
def _is_subset(member: Array, a: int, b: int) -> Any:
    return not np.any(member[a] & ~member[b])


SUM, SET, ADD, ZERO, CONDITION, SCALE = range(6)
"""Sum out the middle axis; broadcast along it (assign or add); clear; convert logs to conditionals; to counts."""

_MIN_EXPONENT = -708.0
_MAGIC = 1.5 * 2.0**52
_LOG2E = 1.0 / math.log(2.0)
_LOG2_HIGH, _LOG2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_LOG2 = math.log(2.0)
_ROOT_HALF = 0x3FE6A09E667F3BCD
_CHUNK = 1 << 11
_D3, _D5, _D7, _D9, _D11, _D13, _D15, _D17, _D19 = (1.0 / k for k in range(3, 20, 2))
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12 = (1.0 / math.factorial(k) for k in range(2, 13))


@kernel(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def run_tape(code: Array, work: Array) -> None:
    """Run a tape."""
    for k in range(len(code)):
        op, to, source, o, m, i, extra = code[k]
        if op == SUM:
            _sum(work, to, source, o, m, i)
        elif op == SET:
            _set(work, to, source, o, m, i)
        elif op == ADD:
            _add(work, to, source, o, m, i)
        elif op == ZERO:
            work[to : to + i] = 0.0
        elif op == CONDITION:
            _condition(work, to, source, o, m, extra)
        else:
            _scale(work, to, source, o, m, extra)


@kernel(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _sum(work: Array, to: int, source: int, o: int, m: int, i: int) -> None:
    if i == 1:
        for a in range(o):
            row = work[source + a * m : source + (a + 1) * m]
            total = 0.0
            for b in range(m):
                total += row[b]
            work[to + a] = total
        return
    for a in range(o):
        out = work[to + a * i : to + (a + 1) * i]
        row = work[source + a * m * i : source + a * m * i + i]
        for c in range(i):
            out[c] = row[c]
        for b in range(1, m):
            row = work[source + (a * m + b) * i : source + (a * m + b + 1) * i]
            for c in range(i):
                out[c] += row[c]


@kernel(cache=True, nogil=True)
def _set(work: Array, to: int, source: int, o: int, m: int, i: int) -> None:
    if i == 1:
        for a in range(o):
            value = work[source + a]
            out = work[to + a * m : to + (a + 1) * m]
            for b in range(m):
                out[b] = value
        return
    for a in range(o):
        row = work[source + a * i : source + (a + 1) * i]
        for b in range(m):
            out = work[to + (a * m + b) * i : to + (a * m + b + 1) * i]
            for c in range(i):
                out[c] = row[c]


@kernel(cache=True, nogil=True)
def _add(work: Array, to: int, source: int, o: int, m: int, i: int) -> None:
    if i == 1:
        for a in range(o):
            value = work[source + a]
            out = work[to + a * m : to + (a + 1) * m]
            for b in range(m):
                out[b] += value
        return
    for a in range(o):
        row = work[source + a * i : source + (a + 1) * i]
        for b in range(m):
            out = work[to + (a * m + b) * i : to + (a * m + b + 1) * i]
            for c in range(i):
                out[c] += row[c]


@kernel(cache=True, nogil=True)
def _condition(work: Array, table: int, message: int, o: int, m: int, sums: int) -> None:
    # Process several short slices at once, so that each step is a loop over many cached cells.
    chunk = max(1, _CHUNK // m)
    for first in range(0, o, chunk):
        after = min(o, first + chunk)
        for a in range(first, after):
            row = work[table + a * m : table + (a + 1) * m]
            r = _largest(row)
            work[message + a] = r
            # A slice without possible cells stays at -inf, with sum 0.
            shift = r if r > -np.inf else 0.0
            for b in range(m):
                row[b] -= shift
        exponentiate_row(work[table + first * m : table + after * m])
        for a in range(first, after):
            work[sums + a] = _total(work[table + a * m : table + (a + 1) * m])
        add_logarithms(work[message + first : message + after], work[sums + first : sums + after])


@kernel(cache=True, nogil=True)
def _largest(row: Array) -> Any:
    # Four at a time, so that comparisons do not wait for each other.
    m = len(row)
    p = q = r = s = -np.inf
    for b in range(0, m - 3, 4):
        p = row[b] if row[b] > p else p
        q = row[b + 1] if row[b + 1] > q else q
        r = row[b + 2] if row[b + 2] > r else r
        s = row[b + 3] if row[b + 3] > s else s
    for b in range(m - m % 4, m):
        p = row[b] if row[b] > p else p
    return max(p, q, r, s)


@kernel(cache=True, nogil=True, fastmath={"reassoc"})
def _total(row: Array) -> Any:
    total = 0.0
    for b in range(len(row)):
        total += row[b]
    return total


@intrinsic  # type: ignore[untyped-decorator]
def _bits(_context: Any, _value: Any) -> Any:
    """Reinterpret the bits of a float as an integer, in a register."""

    def cast(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], context.get_value_type(types.int64))

    return types.int64(types.float64), cast


@intrinsic  # type: ignore[untyped-decorator]
def _float(_context: Any, _value: Any) -> Any:
    def cast(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], context.get_value_type(types.float64))

    return types.float64(types.int64), cast


@kernel(cache=True, nogil=True, fastmath={"contract"})
def exponentiate_row(row: Array) -> None:
    """Replace each value x <= 0 by exp(x), accurate to the last bit or two; 0 below exp(-708)."""
    # exp(x) = 2^k exp(f) with k the nearest integer to x / log 2, computed by adding a number so large that the sum has
    # no fraction, and |f| <= log(2) / 2, where the Taylor series to the 12th power is exact in double precision.
    # Without calls and branches, the loop is vectorized.
    for b in range(len(row)):
        x = row[b]
        y = x if x > _MIN_EXPONENT else _MIN_EXPONENT
        t = y * _LOG2E + _MAGIC
        k = t - _MAGIC
        f = (y - k * _LOG2_HIGH) - k * _LOG2_LOW
        p = _C9 + f * (_C10 + f * (_C11 + f * _C12))
        p = _C5 + f * (_C6 + f * (_C7 + f * (_C8 + f * p)))
        p = 1.0 + f * (1.0 + f * (_C2 + f * (_C3 + f * (_C4 + f * p))))
        power = _float((_bits(t) + 1023) << 52)
        row[b] = p * power if x > _MIN_EXPONENT else 0.0


@kernel(cache=True, nogil=True, fastmath={"contract"})
def add_logarithms(row: Array, values: Array) -> None:
    """Add log(value) to each element of a row, accurate to the last bits, for values of at least 1 (0 is read as 1)."""
    # value = 2^k f with f between 1/sqrt(2) and sqrt(2), and log f = 2 atanh(g), g = (f - 1) / (f + 1), |g| < 0.172.
    for b in range(len(row)):
        bits = _bits(values[b] if values[b] > 1.0 else 1.0)
        k = (bits - _ROOT_HALF) >> 52
        f = _float(bits - (k << 52))
        g = (f - 1.0) / (f + 1.0)
        h = g * g
        p = _D13 + h * (_D15 + h * (_D17 + h * _D19))
        p = _D5 + h * (_D7 + h * (_D9 + h * (_D11 + h * p)))
        row[b] += k * _LOG2 + 2.0 * g * (1.0 + h * (_D3 + h * p))


@kernel(cache=True, nogil=True)
def _scale(work: Array, table: int, known: int, o: int, m: int, sums: int) -> None:
    for a in range(o):
        row = work[table + a * m : table + (a + 1) * m]
        z = work[sums + a]
        factor = work[known + a] / z if z > 0.0 else 0.0
        for b in range(m):
            row[b] *= factor


_SCRATCH = (-1, -2)


@dataclass(frozen=True)
class Tape:
    """Planned calibration of one tree, with the positions of its tables in the work array."""

    tree: JunctionTree
    tables: Mapping[Clique, slice]
    """Position of each table: potentials as input, marginal as output; contiguous from 0, axes in tree order."""
    beliefs: tuple[slice, ...]
    constants: Mapping[int, slice]  # tables of structural zeros (0 or -inf)
    total: int
    partitions: tuple[int, ...]  # log-partition of each component
    code: Array
    size: int

    @property
    def length(self) -> int:
        """Total number of cells of the potentials."""
        return max((place.stop for place in self.tables.values()), default=0)

    def start(self, total: float, zeros: Sequence[Array] = ()) -> Array:
        """Return an initialized work array."""
        work = np.zeros(self.size)
        work[self.total] = total
        for number, place in self.constants.items():
            work[place] = np.where(zeros[number].ravel(), -np.inf, 0.0)
        return work

    def run(self, work: Array, potentials: Array) -> Array:
        """Compute the expected counts of the tables from their log-potentials; returns a view of the work array."""
        work[: self.length] = potentials
        run_tape(self.code, work)
        return work[: self.length]

    def log_partition(self, work: Array) -> float:
        """Return the logarithm of the sum of exp(potentials) over the whole domain in the last run."""
        return float(sum(work[place] for place in self.partitions))

    def belief(self, work: Array, number: int) -> Array:
        """Return the expected counts of one clique of the tree, axes in tree order."""
        return work[self.beliefs[number]].reshape(self.tree.domain.sizes(self.tree.axes[number]))


@dataclass
class _Writer:
    """Allocator of the work array and writer of instructions."""

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
        # Adjacent axes that are both kept or both summed are merged. The longest summed run comes first, so that the
        # remaining steps use a much smaller table.
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
    """Table inside a clique, or a union of tables; `holds`: it has content before its children are added."""

    names: frozenset[str]
    place: int
    holds: bool
    children: list[_Node] = field(default_factory=list)
    constant: bool = False


def join_unions(domain: Domain, axes: Clique, items: Sequence[_Node], writer: _Writer) -> list[_Node]:
    """Join small tables into unions of at most half the clique, the smallest union first; return the top-level tables.

    Summing a clique to two tables costs two passes over it; with their union, one pass and two over the union.
    """
    names = {name: k for k, name in enumerate(axes)}
    logs = np.log2(np.asarray(domain.sizes(axes), dtype=np.float64))
    member = np.zeros((2 * len(items), len(axes)), dtype=np.bool_)
    for k, item in enumerate(items):
        member[k, [names[name] for name in item.names]] = True
    nodes = list(items)
    top = dict.fromkeys(range(len(items)))
    for a, b, new in find_merges(member, len(items), logs):
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


def plan_calibration(tree: JunctionTree, tables: Sequence[Clique], zeros: Sequence[Clique] = ()) -> Tape:
    """Plan the calibration for log-potentials over distinct `tables`, and `zeros`, each covered by a clique."""
    domain = tree.domain
    writer = _Writer(domain)
    items: list[list[_Node]] = [[] for _ in tree.cliques]
    places: dict[Clique, slice] = {}
    for table in tables:
        start = writer.place(domain.cells(table))
        places[table] = slice(start, writer.used)
        items[_find_home(tree, table)].append(_Node(frozenset(table), start, True))
    constants = {}
    for number, table in enumerate(zeros):
        start = writer.place(domain.cells(table))
        constants[number] = slice(start, writer.used)
        fixed = _Node(frozenset(table), start, True, constant=True)
        items[_find_home(tree, table)].append(_Node(fixed.names, writer.place(domain.cells(table)), False, [fixed]))
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
        _write_collect(writer, tree, tops[number])
        rest = tree.sizes[number] // counts[number]
        writer.emit(CONDITION, starts[number], messages[number], counts[number], rest, 1, sums[number])
    for number, top in enumerate(tops):
        rest = tree.sizes[number] // counts[number]
        known = messages[number] if tree.parents[number] >= 0 else total
        writer.emit(SCALE, starts[number], known, counts[number], rest, 1, sums[number])
        _distribute_from(writer, tree.in_order(top.names), top)
    code = writer.finish()
    beliefs = tuple(slice(start, start + n) for start, n in zip(starts, tree.sizes, strict=True))
    roots = tuple(messages[i] for i, parent in enumerate(tree.parents) if parent < 0)
    return Tape(tree, places, beliefs, constants, total, roots, code, writer.used)


def plan_sums(domain: Domain, axes: Clique, tables: Sequence[Clique]) -> tuple[Array, list[slice], slice, int]:
    """Plan the projections of one table: return code, positions of results, position of the table, work size."""
    writer = _Writer(domain)
    starts = [writer.place(domain.cells(table)) for table in tables]
    nodes = [_Node(frozenset(t), start, True) for t, start in zip(tables, starts, strict=True)]
    source = writer.place(domain.cells(axes))
    _distribute_from(writer, axes, _Node(frozenset(axes), source, True, join_unions(domain, axes, nodes, writer)))
    code = writer.finish()
    places = [slice(s, s + domain.cells(t)) for t, s in zip(tables, starts, strict=True)]
    return code, places, slice(source, source + domain.cells(axes)), writer.used


def _find_home(tree: JunctionTree, table: Clique) -> int:
    home = tree.home(table)
    if home is None:
        raise ValueError(f"no clique of the tree covers {table}")
    return home


def _write_collect(writer: _Writer, tree: JunctionTree, node: _Node) -> None:
    axes = tree.in_order(node.names)
    holds = node.holds
    for child in node.children:
        _write_collect(writer, tree, child)
        writer.expand(ADD if holds else SET, node.place, axes, child.place, child.names)
        holds = True
    if not holds:
        writer.emit(ZERO, node.place, 0, 1, 1, writer.domain.cells(axes))


def _distribute_from(writer: _Writer, axes: Clique, node: _Node) -> None:
    for child in node.children:
        if not child.constant:
            writer.reduce(node.place, axes, child.place, child.names)
            _distribute_from(writer, tuple(name for name in axes if name in child.names), child)
