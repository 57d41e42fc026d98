"""Memory layout of the tables of potentials for the kernels, and the spanning forest that chains start from."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, project_table
from weft.marginals.spanning_tree import spanning_tree
from weft.models.chains.chain_kernels import IMPOSSIBLE, LANES
from weft.models.conditional import compute_log_weights


@dataclass(frozen=True)
class TableLayout:
    """Tables over cliques, concatenated in one buffer of *cells* and, for sweeps, copied per attribute in *rows*.

    An *entry* is a pair of an attribute and a clique that contains it. Its copy of the table has the attribute last, so
    that the conditional distribution of the attribute is a product of rows, one from each entry.
    """

    domain: Domain
    cliques: tuple[Clique, ...]

    @cached_property
    def sizes(self) -> Array:
        """Number of codes of each attribute."""
        return np.array(self.domain.shape, np.int64)

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shape of each table."""
        return [self.domain.sizes(clique) for clique in self.cliques]

    @cached_property
    def members(self) -> list[list[int]]:
        """Attribute indices of each clique."""
        return [[self.domain.index(name) for name in clique] for clique in self.cliques]

    @cached_property
    def cell_start(self) -> Array:
        """Bounds of each table in the buffer of cells."""
        return _accumulate_lengths([math.prod(shape) for shape in self.shapes])

    @cached_property
    def places(self) -> tuple[Array, ...]:
        """First two attributes of each clique with their strides; then bounds, attributes and strides of the others."""
        held = [
            [*zip(m, compute_axis_steps(shape), strict=True)]
            for m, shape in zip(self.members, self.shapes, strict=True)
        ]
        pairs = [(each + [(each[0][0] if each else 0, 0)] * 2)[:2] for each in held]
        return (
            *(_make_int_array([pair[i][k] for pair in pairs]) for i in range(2) for k in range(2)),
            _accumulate_lengths([max(len(each) - 2, 0) for each in held]),
            *(_make_int_array([member[k] for each in held for member in each[2:]]) for k in range(2)),
        )

    @cached_property
    def entries(self) -> list[tuple[int, int]]:
        """Attribute and clique of each entry, by attribute; cliques of more than two attributes come last."""
        found: list[list[int]] = [[] for _ in self.domain]
        for c in sorted(range(len(self.members)), key=lambda c: len(self.members[c]) > 2):
            for a in self.members[c]:
                found[a].append(c)
        return [(a, c) for a, cliques in enumerate(found) for c in cliques]

    @cached_property
    def widths(self) -> Array:
        """Row length of each attribute: its number of codes, padded to a multiple of LANES."""
        return -(-self.sizes // LANES) * LANES

    @cached_property
    def sweep(self) -> tuple[Array, ...]:
        """Arguments of the sweeps: entry_start, pairs_end, row_start, other, step, more_start, more, more_step.

        Entries entry_start[j] to entry_start[j + 1] are the tables that contain attribute j; those from pairs_end[j]
        have two or more other attributes. `other` is the first one, with stride `step`; `more` and `more_step` the
        rest.
        """
        other, step, more, more_step, lengths = [], [], [], [], []
        for a, c in self.entries:
            rest = [(b, size) for b, size in zip(self.members[c], self.shapes[c], strict=True) if b != a]
            columns = [b for b, _ in rest] or [a]  # a table of one attribute has one row
            strides = compute_axis_steps([*(size for _, size in rest), int(self.widths[a])])[:-1] or [0]
            other.append(columns[0])
            step.append(strides[0])
            more += columns[1:]
            more_step += strides[1:]
            lengths.append(len(columns) - 1)
        starts = _accumulate_lengths(np.bincount([a for a, _ in self.entries], minlength=len(self.domain)))
        larger = _accumulate_lengths(np.asarray(lengths, np.int64) > 0)
        return (
            starts,
            starts[1:] - np.diff(larger[starts]),
            _accumulate_lengths([self._rows_of(a, c) * int(self.widths[a]) for a, c in self.entries])[:-1],
            _make_int_array(other),
            _make_int_array(step),
            _accumulate_lengths(lengths),
            _make_int_array(more),
            _make_int_array(more_step),
        )

    def _rows_of(self, a: int, c: int) -> int:
        return math.prod(self.shapes[c]) // int(self.sizes[a])

    @cached_property
    def cells(self) -> Array:
        """Cell at each position of the rows; one past the last cell for padding."""
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
        """Largest number of tables, itself included, that share one attribute with each clique."""
        per = np.bincount([a for a, _ in self.entries], minlength=len(self.domain))
        return np.array([max((int(per[a]) for a in members), default=1) for members in self.members], np.float64)

    def tables(self, cells: Array) -> list[Array]:
        """Return views of the tables in a buffer of cells."""
        parts = np.split(cells, self.cell_start[1:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def rows(self, cells: Array) -> Array:
        """Return the rows of potentials (logarithms)."""
        padded = np.append(np.maximum(cells, IMPOSSIBLE), IMPOSSIBLE).astype(np.float32)
        return padded[self.cells]


@dataclass(frozen=True)
class Widened:
    """The same potentials over maximal cliques only: tables of contained cliques are added to them, for sweeps."""

    inner: TableLayout

    @cached_property
    def layout(self) -> TableLayout:
        """Layout of the tables that are contained in no other."""
        near = _make_superset_lookup(self.inner.cliques)
        sets = [frozenset(c) for c in self.inner.cliques]
        outer = {s: c for s, c in zip(sets, self.inner.cliques, strict=True) if not any(s < sets[t] for t in near(c))}
        return TableLayout(self.inner.domain, tuple(outer.values()))

    @cached_property
    def _into(self) -> list[tuple[int, tuple[slice | None, ...]]]:
        """For each inner table: the outer table that contains it, and the index that broadcasts it."""
        near = _make_superset_lookup(self.layout.cliques)
        sets = [set(c) for c in self.layout.cliques]
        found = []
        for c in self.inner.cliques:
            takes = next(i for i in near(c) if sets[i].issuperset(c))
            found.append((takes, tuple(slice(None) if a in c else None for a in self.layout.cliques[takes])))
        return found

    def add_up(self, cells: Array) -> Array:
        """Return the potentials of the outer tables."""
        wide = np.zeros(self.layout.cell_start[-1])
        tables = self.layout.tables(wide)
        for (takes, spread), table in zip(self._into, self.inner.tables(cells), strict=True):
            tables[takes] += table[spread]
        return wide


def _make_superset_lookup(cliques: Sequence[Clique]) -> Callable[[Clique], Sequence[int]]:
    """Return a function from a clique to candidate supersets (indices): the cliques with its rarest attribute."""
    holding: dict[str, list[int]] = {}
    for i, c in enumerate(cliques):
        for name in c:
            holding.setdefault(name, []).append(i)
    every = range(len(cliques))
    return lambda c: min((holding.get(name, []) for name in c), key=len) if c else every


def flatten_tables(tables: Sequence[Array]) -> Array:
    """Return the concatenated tables as float64."""
    return np.concatenate([np.asarray(table, np.float64).ravel() for table in tables]) if tables else np.empty(0)


def compute_axis_steps(shape: Sequence[int]) -> list[int]:
    """Return the stride, in cells, of each axis in C order."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def _accumulate_lengths(lengths: Sequence[int] | Array) -> Array:
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]).astype(np.int64)


def _make_int_array(values: Sequence[int]) -> Array:
    return np.array(values, np.int64)


@dataclass(frozen=True)
class Forest:
    """Forest over all attributes with the distribution of each given its parent."""

    order: Array  # attributes, parents before children
    parent: Array  # parent of each attribute (-1: none)
    start: Array  # start of each attribute's rows, one row per code of the parent
    cumulative: Array  # rows of cumulative probabilities
    log_given: Array  # rows of log-probabilities
    edges: tuple[Clique, ...]
    ties: Array  # mutual information with the parent, divided by the smaller of their entropies; 0 for a root

    def clusters(self, threshold: float) -> list[Array]:
        """Return the groups of two or more attributes connected by ties above the threshold, parents first."""
        group = np.arange(self.parent.size)
        for j in self.order:
            if self.parent[j] >= 0 and self.ties[j] > threshold:
                group[j] = group[self.parent[j]]
        found = [np.array([j for j in self.order if group[j] == g], np.int64) for g in np.unique(group)]
        return [cluster for cluster in found if cluster.size > 1]


def find_spanning_forest(
    domain: Domain, cliques: Sequence[Clique], tables: Sequence[Array], least: float = 0.0
) -> Forest:
    """Return the maximum spanning forest by mutual information over the pairs that some table contains.

    `tables` are consistent probabilities. A pair in several tables is read from the smallest; pairs with mutual
    information of at most `least` nats are excluded. An attribute in no table is uniform.
    """
    ones, pairs = _extract_smaller_tables(cliques, tables)
    single = [ones.get(name, np.full(domain.size(name), 1 / domain.size(name))) for name in domain]
    information = {pair: _mutual_information(table) for pair, table in pairs.items()}
    # Root each tree at its attribute of highest entropy, the most informative one.
    entropy = [_compute_table_entropy(p) for p in single]
    tree = spanning_tree({pair: bits for pair, bits in information.items() if bits > least})
    order, parent = _root_forest(domain, tree, np.argsort(-np.array(entropy), kind="stable").tolist())

    start, rows, ties, at = [], [], np.zeros(len(domain)), 0
    edges = []
    for j, name in enumerate(domain):
        table = single[j][None, :]
        if parent[j] >= 0:
            above = domain.names[parent[j]]
            edge = make_clique((above, name))
            edges.append(edge)
            table = pairs[edge] if edge == (above, name) else pairs[edge].T
            # Parent codes of probability 0 fall back on the one-way distribution.
            seen = table.sum(axis=1, keepdims=True)
            table = np.where(seen > 0, table / np.maximum(seen, 1e-300), single[j][None, :])
            ties[j] = information[edge] / max(min(entropy[j], entropy[parent[j]]), 1e-12)
        start.append(at)
        rows.append(table)
        at += table.size
    cumulative = [np.cumsum(row, axis=1) for row in rows]
    return Forest(
        np.array(order, np.int64),
        parent.astype(np.int64),
        np.array(start, np.int64),
        np.concatenate([(c / c[:, -1:]).ravel() for c in cumulative]),
        np.concatenate([compute_log_weights(row).ravel() for row in rows]),
        tuple(edges),
        ties,
    )


def _extract_smaller_tables(
    cliques: Sequence[Clique], tables: Sequence[Array]
) -> tuple[dict[str, Array], dict[Clique, Array]]:
    """Return the one-way and two-way tables, each projected from the smallest table that contains it."""
    ones: dict[str, Array] = {}
    pairs: dict[Clique, Array] = {}
    for c in sorted(range(len(cliques)), key=lambda c: tables[c].size):
        for name in cliques[c]:
            if name not in ones:
                ones[name] = _normalise_table(project_table(tables[c], cliques[c], (name,)))
        for pair in combinations(cliques[c], 2):
            if pair not in pairs:
                pairs[pair] = _normalise_table(project_table(tables[c], cliques[c], pair))
    return ones, pairs


def _root_forest(domain: Domain, edges: Sequence[Clique], roots: Sequence[int]) -> tuple[list[int], Array]:
    """Return the attributes, parents before children, and their parents; trees are rooted at their first in `roots`."""
    near: list[list[int]] = [[] for _ in domain]
    for a, b in edges:
        i, j = domain.index(a), domain.index(b)
        near[i].append(j)
        near[j].append(i)
    order: list[int] = []
    parent = np.full(len(domain), -1)
    for root in roots:
        queue = [] if root in order else [root]
        while queue:
            j = queue.pop(0)
            order.append(j)
            for child in near[j]:
                if child not in order and child not in queue:
                    parent[child] = j
                    queue.append(child)
    return order, parent


def _normalise_table(table: Array) -> Array:
    table = np.maximum(np.asarray(table, np.float64), 0.0)
    total = table.sum()
    return table / total if total > 0 else np.full(table.shape, 1 / table.size)


def _compute_table_entropy(p: Array) -> float:
    positive = p[p > 0]
    return float(-(positive * np.log(positive)).sum())


def _mutual_information(table: Array) -> float:
    return (
        _compute_table_entropy(table.sum(axis=1))
        + _compute_table_entropy(table.sum(axis=0))
        - _compute_table_entropy(table)
    )
