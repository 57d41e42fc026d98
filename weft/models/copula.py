"""A Gaussian copula: each column's own distribution, and one correlation for each pair of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from weft.marginals.counting import count
from weft.marginals.domain import Domain, clique
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.models import stored
from weft.models.apportion import apportion
from weft.progress import Listener, silence

COUNTED = 1 << 17
"""Records on which marginals of several columns are counted."""

LEAST = 1e-6
"""Least eigenvalue of a correlation matrix after its repair."""


def repaired(correlation: Array) -> Array:
    """Return a matrix of correlations near the given one: symmetric, positive definite, ones on the diagonal.

    Eigenvalues below `LEAST` are raised to it, and the diagonal is scaled back to one.

    >>> found = repaired(np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]]))
    >>> bool(np.linalg.eigvalsh(found)[0] > 0), np.diag(found).tolist()
    (True, [1.0, 1.0, 1.0])
    """
    values, vectors = np.linalg.eigh((correlation + correlation.T) / 2)
    raised = (vectors * np.maximum(values, LEAST)) @ vectors.T
    size = np.sqrt(np.diag(raised))
    made = raised / np.outer(size, size)
    made = (made + made.T) / 2
    np.fill_diagonal(made, 1.0)
    return np.asarray(made)


@dataclass(frozen=True)
class CopulaModel:
    """Columns with their own tables of expected counts, tied by a multivariate normal distribution of their ranks."""

    kind: ClassVar[str] = "copula"
    fixed_records: ClassVar[bool] = False
    relates_columns: ClassVar[bool] = True

    domain: Domain
    total: float
    tables: tuple[Array, ...]
    """Expected counts of each attribute, in the domain's order."""
    correlation: Array
    """Of the normal scores, positive definite (`repaired`)."""

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return a column's own table; of several columns, what is counted on records, always the same ones."""
        return self.answered(columns)[0]

    def answered(self, columns: Sequence[str]) -> tuple[Array, int]:
        """Return the same, and on how many records it was counted; 0 for a single column."""
        wanted = clique(columns)
        if not wanted:
            return np.asarray(self.total), 0
        if len(wanted) == 1:
            table = self.tables[self.domain.index(wanted[0])]
            return table * (self.total / table.sum()), 0
        return count(self._records, [wanted])[0] * (self.total / COUNTED), COUNTED

    @cached_property
    def _records(self) -> Records:
        return self.sample(COUNTED, np.random.default_rng(0))

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = silence) -> Records:
        """Make n records: normal scores, of which each column takes the order; its own distribution says the codes.

        Every column then matches its table to the nearest record.
        """
        root = np.linalg.cholesky(self.correlation)
        scores = rng.standard_normal((n, len(self.domain))) @ root.T
        columns = []
        for i, table in enumerate(self.tables):
            codes = np.empty(n, np.int64)
            codes[np.argsort(scores[:, i])] = np.repeat(np.arange(len(table)), apportion(table, n, rng))
            columns.append(codes)
        return Records.of(self.domain, columns)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the tables end to end, and the correlations."""
        held = {"tables": np.concatenate(self.tables) if self.tables else np.zeros(0)}
        return {"total": self.total}, held | {"correlation": self.correlation}

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the model."""
        tables = stored.end_to_end(arrays, "tables", [(size,) for size in domain.shape], 0.0)
        if any(not table.sum() > 0 for table in tables):
            raise stored.damaged("a column has no value that could be drawn")
        correlation = stored.table(arrays, "correlation", (len(domain), len(domain)), -1.0, 1.0)
        if not np.allclose(correlation, correlation.T) or np.linalg.eigvalsh(correlation)[0] <= 0:
            raise stored.damaged("its correlations are none")
        return cls(domain, stored.total(meta), tuple(tables), correlation)
