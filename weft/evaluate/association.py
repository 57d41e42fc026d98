"""How columns hang together: Cramer's V and correlation matrices, and what synthesis changed in them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from weft.evaluate.tables import Floats, comparable, keys
from weft.marginals.counting import count
from weft.marginals.marginal import Array
from weft.marginals.records import Records

_DENSE_CELLS = 1 << 20
_ROWS_A_BLOCK = 1 << 12


@dataclass(frozen=True)
class MatrixDifference:
    """A matrix over columns for each table."""

    names: tuple[str, ...]
    real: Floats
    synth: Floats

    @property
    def matrix(self) -> Floats:
        """Synthetic less real."""
        return self.synth - self.real

    @property
    def mean_absolute(self) -> float:
        """Mean absolute difference over pairs of different columns (0 for a single column)."""
        upper = np.abs(self.matrix)[np.triu_indices(len(self.names), 1)]
        return float(np.mean(upper)) if len(upper) else 0.0


def cramers_v(table: Array) -> float:
    """Cramer's V of a two-way table of counts, in [0, 1], without bias correction; 0 if an axis has one code only.

    V^2 = (sum of n_ij^2 / (n_i n_j) - 1) / (min(r, c) - 1), where r and c count the codes that occur.
    """
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    squares = np.square(table, dtype=np.float64)
    return _strength(float(_inverse(rows) @ squares @ _inverse(columns)), rows, columns)


def _strength(squares: float, rows: Array, columns: Array) -> float:
    """Return V of the sum of n_ij^2 / (n_i n_j)."""
    levels = min(np.count_nonzero(rows), np.count_nonzero(columns)) - 1
    return min(1.0, math.sqrt(max(0.0, squares - 1) / levels)) if levels > 0 else 0.0


def _inverse(counts: Array) -> Floats:
    return np.divide(1.0, counts, out=np.zeros(len(counts)), where=counts > 0)


def associations(records: Records, *, threads: int | None = None) -> Floats:
    """Cramer's V of all pairs of columns (`cramers_v`); the diagonal is 1."""
    domain = comparable(records)
    ones = [table.astype(np.float64) for table in count(records, [(name,) for name in domain.names], threads)]
    pairs = list(combinations(range(len(domain)), 2))

    def cramer(pair: tuple[int, int]) -> float:
        (a, b), names = pair, (domain.names[pair[0]], domain.names[pair[1]])
        if domain.cells(names) <= _DENSE_CELLS:
            return cramers_v(count(records, [names], 1)[0])
        cells, counts = np.unique(keys((records,), names)[0], return_counts=True)
        rows, columns = np.divmod(cells, domain.shape[b])
        return _strength(float(np.sum(counts / ones[a][rows] * counts / ones[b][columns])), ones[a], ones[b])

    matrix = np.eye(len(domain))
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        for (a, b), value in zip(pairs, pool.map(cramer, pairs), strict=True):
            matrix[a, b] = matrix[b, a] = value
    return matrix


def correlations(records: Records, columns: Sequence[str] | None = None) -> Floats:
    """Pearson correlation of the codes of ordered columns (None: of all); 0 with a constant column."""
    domain = comparable(records)
    chosen = [records.column(name) for name in (domain.names if columns is None else columns)]
    means = np.array([column.mean(dtype=np.float64) for column in chosen])
    products = np.zeros((len(chosen), len(chosen)))
    for start in range(0, len(records), _ROWS_A_BLOCK):
        block = np.stack([column[start : start + _ROWS_A_BLOCK] for column in chosen]) - means[:, None]
        products += block @ block.T
    spread = np.sqrt(np.diag(products))
    spread[[column.min() == column.max() for column in chosen]] = np.inf
    matrix: Floats = np.clip(products / np.outer(spread, spread), -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return matrix


def association_difference(real: Records, synth: Records, *, threads: int | None = None) -> MatrixDifference:
    """Cramer's V of all pairs in both tables."""
    domain = comparable(real, synth)
    matrices = (associations(records, threads=threads) for records in (real, synth))
    return MatrixDifference(domain.names, *matrices)


def correlation_difference(real: Records, synth: Records, columns: Sequence[str] | None = None) -> MatrixDifference:
    """Correlations of the ordered columns in both tables."""
    domain = comparable(real, synth)
    names = domain.names if columns is None else tuple(columns)
    return MatrixDifference(names, correlations(real, names), correlations(synth, names))
