"""Association between attributes: Cramer's V of all pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from weft.evaluation.metrics.aligned_tables import Floats, number_cells, split_batches, validate_shared_domain
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array
from weft.marginals.records import Records

_DENSE_CELLS = 1 << 18
_BATCH_CELLS = 1 << 22


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
