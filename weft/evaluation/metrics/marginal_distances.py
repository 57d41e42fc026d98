"""Figures of marginals: k-way total variation, coverage of rare values, and association (Cramer's V) of all pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from weft.evaluation.metrics.aligned_tables import (
    Floats,
    Ints,
    fold_cliques,
    number_cells,
    split_batches,
    validate_shared_domain,
)
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array
from weft.marginals.records import Records

_DENSE_CELLS = 1 << 18
_BATCH_CELLS = 1 << 22


@dataclass(frozen=True)
class KWay:
    """Total variation distances (half the L1 distance of the normalised tables) of several k-way marginals."""

    k: int
    cliques: tuple[Clique, ...]
    """The marginals compared, with attributes in the table's order."""
    tvds: Floats
    """Total variation distance of each, in [0, 1]."""

    @property
    def tvd(self) -> float:
        """Mean total variation distance."""
        return float(np.mean(self.tvds))

    @property
    def l1(self) -> float:
        """Mean L1 distance: twice the total variation, in [0, 2]."""
        return 2 * self.tvd


def k_way(
    real: Records, synth: Records, k: int, *, limit: int | None = 300, seed: int = 0, threads: int | None = None
) -> KWay:
    """Compare all k-way marginals or, if there are more than `limit`, that many drawn with the seed."""
    domain = validate_shared_domain(real, synth)
    chosen = _choose_cliques(domain, k, limit, np.random.default_rng([seed, k]))
    return KWay(k, tuple(chosen), distances(real, synth, chosen, threads))


def distances(real: Records, synth: Records, cliques: Sequence[Clique], threads: int | None = None) -> Floats:
    """Compute the total variation distance of each marginal, with both tables normalised by their number of rows."""
    return np.array(fold_cliques(real, synth, cliques, partial(_total_variation, len(real), len(synth)), threads))


def _total_variation(n: int, m: int, a: Ints, b: Ints) -> float:
    # Integers over the common denominator: rounded once, at the division, independently of the order.
    common = math.lcm(n, m)
    if common < 1 << 61:
        return int(np.abs(a * (common // n) - b * (common // m)).sum()) / (2 * common)
    return 0.5 * float(np.abs(a / n - b / m).sum())


def _choose_cliques(domain: Domain, k: int, limit: int | None, rng: np.random.Generator) -> list[Clique]:
    d = len(domain)
    if not 1 <= k <= d:
        raise ValueError(f"invalid {k}-way marginal: k must be from 1 to the number of attributes ({d})")
    picked: set[tuple[int, ...]] = set()
    if limit is None or math.comb(d, k) <= limit:
        picked.update(combinations(range(d), k))
    else:
        while len(picked) < limit:
            picked.add(tuple(sorted(rng.choice(d, k, replace=False).tolist())))
    return [tuple(domain.names[i] for i in columns) for columns in sorted(picked)]


@dataclass(frozen=True)
class Coverage:
    """Numbers of rare values, or combinations of values, of the real table, and of those in the synthetic table."""

    cliques: tuple[Clique, ...]
    rare: Ints
    """Number of rare cells of each clique in the real table."""
    found: Ints
    """Number of those that occur in the synthetic table."""
    invented: Ints
    """Number of cells that occur only in the synthetic table."""

    @property
    def share(self) -> float:
        """Share of the rare cells that occur in the synthetic table; 1 if no cell is rare."""
        rare = int(self.rare.sum())
        return int(self.found.sum()) / rare if rare else 1.0


def coverage(
    real: Records,
    synth: Records,
    *,
    ways: int = 1,
    rare: float = 0.01,
    cliques: Sequence[Clique] | None = None,
    threads: int | None = None,
) -> Coverage:
    """Count the values (ways=1) or pairs of values (ways=2) that at most a share `rare` of the real rows has.

    By default, all cliques of `ways` attributes are counted.
    """
    domain = validate_shared_domain(real, synth)
    if not 0 < rare <= 1:
        raise ValueError("invalid `rare`: expected a share of the rows, above 0 and at most 1")
    chosen = tuple(combinations(domain.names, ways)) if cliques is None else tuple(cliques)
    figures = fold_cliques(real, synth, chosen, partial(_count_rare_cells, rare * len(real)), threads)
    table: Ints = np.array(figures, np.int64).reshape(len(chosen), 3)
    return Coverage(chosen, table[:, 0], table[:, 1], table[:, 2])


def _count_rare_cells(most: float, a: Ints, b: Ints) -> tuple[int, int, int]:
    rare = (a > 0) & (a <= most)
    return (
        int(np.count_nonzero(rare)),
        int(np.count_nonzero(rare & (b > 0))),
        int(np.count_nonzero((a == 0) & (b > 0))),
    )


def cramers_v(table: Array) -> float:
    """Compute Cramer's V of a two-way table of counts, in [0, 1], without bias correction; 0 if an axis has one code.

    V^2 = (sum of n_ij^2 / (n_i n_j) - 1) / (min(r, c) - 1), where r and c are the numbers of codes that occur.
    """
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    squares = np.square(table, dtype=np.float64)
    return _compute_strength(float(_invert_counts(rows) @ squares @ _invert_counts(columns)), rows, columns)


def _compute_strength(squares: float, rows: Array, columns: Array) -> float:
    """Compute V from the sum of n_ij^2 / (n_i n_j)."""
    levels = min(np.count_nonzero(rows), np.count_nonzero(columns)) - 1
    return min(1.0, math.sqrt(max(0.0, squares - 1) / levels)) if levels > 0 else 0.0


def _invert_counts(counts: Array) -> Floats:
    return np.divide(1.0, counts, out=np.zeros(len(counts)), where=counts > 0)


def associations(records: Records, *, threads: int | None = None) -> Floats:
    """Compute Cramer's V of all attribute pairs (`cramers_v`); the diagonal is 1."""
    domain = validate_shared_domain(records)
    matrix = np.eye(len(domain))

    def enter(pair: Clique, value: float) -> None:
        i, j = (domain.index(name) for name in pair)
        matrix[i, j] = matrix[j, i] = value

    for batch in pair_batches(domain):
        for pair, table in zip(batch, count_marginals(records, batch, threads), strict=True):
            enter(pair, cramers_v(table))
    for pair in large_pairs(domain):
        enter(pair, _sparse_v(records, pair))
    return matrix


def _sparse_v(records: Records, pair: Clique) -> float:
    """Compute Cramer's V of a pair with a large table from its occupied cells."""
    rows, columns = count_marginals(records, [(name,) for name in pair])
    cells, counts = np.unique(number_cells((records,), pair)[0], return_counts=True)
    i, j = np.divmod(cells, records.domain.size(pair[1]))
    return _compute_strength(float(np.sum(counts / rows[i] * counts / columns[j])), rows, columns)


def large_pairs(domain: Domain) -> Iterator[Clique]:
    """Return the pairs whose tables are too large for dense counts."""
    return (pair for pair in combinations(domain.names, 2) if domain.cells(pair) > _DENSE_CELLS)


def pair_batches(domain: Domain) -> Iterator[list[Clique]]:
    """Return the other pairs in batches whose tables fit in memory together."""
    sized = ((pair, domain.cells(pair)) for pair in combinations(domain.names, 2))
    return split_batches(((pair, cells) for pair, cells in sized if cells <= _DENSE_CELLS), _BATCH_CELLS)
