"""DP-Copula (Li, Xiong, Jiang; EDBT 2014): noisy columns, tied by the correlations of a Gaussian copula; a baseline.

Each column's own distribution is measured; so is how pairs of columns rise together, by Kendall's tau. With rho =
sin(pi tau / 2) they make a multivariate normal distribution, whose draws take their values from the columns. Codes
count as ranks, also of values that have no order: such columns are poorly served.

Where the defaults differ from the paper (`preset="paper"`):
- `accounting` gaussian, published pure: the paper's Laplace noise (here geometric), for a delta of 0.
- `share_columns` 0.5, published 0.8888888888888888: columns have eight times the budget of the correlations.

With the preset as well:
- Added query, marginals: of pairs on a coarse grid.
- Query left out, Kendall's tau.
- Tau is computed from noisy tables of pairs on a coarse grid, which is post-processing. The paper adds noise to tau
  itself, by a sensitivity of 4 / (n + 1) that takes n as public and rows as replaced; we know n only with noise, and
  rows come and go. The tables need no proof but that of every marginal (`Curator.measure`).
- Ties, of which codes have many, are taken out as in tau-b. The rule rho = sin(pi tau / 2) is then right for fine
  grids, and for two columns that are each cut in the middle; between, it is up to a twelfth too strong.
- Columns are noisy counts made non-negative, where the paper leaves the choice of a histogram open.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from weft.bounds import Bounds, Share
from weft.curator import Curator
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array
from weft.marginals.pooling import common_total
from weft.marginals.records import Records
from weft.marginals.simplex import project_to_simplex
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.options import Published, get_published_settings, option
from weft.models import stored_arrays as stored
from weft.models.apportion import apportion_records
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage

# A Gaussian copula: each column's own distribution, and one correlation for each pair of columns.

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
        wanted = make_clique(columns)
        if not wanted:
            return np.asarray(self.total), 0
        if len(wanted) == 1:
            table = self.tables[self.domain.index(wanted[0])]
            return table * (self.total / table.sum()), 0
        return count_marginals(self._records, [wanted])[0] * (self.total / COUNTED), COUNTED

    @cached_property
    def _records(self) -> Records:
        return self.sample(COUNTED, np.random.default_rng(0))

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Make n records: normal scores, of which each column takes the order; its own distribution says the codes.

        Every column then matches its table to the nearest record.
        """
        root = np.linalg.cholesky(self.correlation)
        scores = rng.standard_normal((n, len(self.domain))) @ root.T
        columns = []
        for i, table in enumerate(self.tables):
            codes = np.empty(n, np.int64)
            codes[np.argsort(scores[:, i])] = np.repeat(np.arange(len(table)), apportion_records(table, n, rng))
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
            raise stored.make_damage_error("a column has no value that could be drawn")
        correlation = stored.read_array(arrays, "correlation", (len(domain), len(domain)), -1.0, 1.0)
        if not np.allclose(correlation, correlation.T) or np.linalg.eigvalsh(correlation)[0] <= 0:
            raise stored.make_damage_error("its correlations are none")
        return cls(domain, stored.read_total(meta), tuple(tables), correlation)


@dataclass(frozen=True)
class DpCopula:
    """Each column's own distribution, and a Gaussian copula between them."""

    completes_seeds: ClassVar[bool] = False
    paper: ClassVar[Published | None] = get_published_settings(accounting="pure", share_columns=8 / 9)

    accounting: AccountingName = option(
        "gaussian", '"gaussian"; "paper" for zCDP with the closed form; "pure" for geometric noise and delta 0.'
    )
    share_columns: Share = option(0.5, "Share of the budget for one-way marginals; the rest is for pairs.")
    grid: Annotated[int, Bounds(2, 64)] = option(
        8, "Groups of about as many rows into which a column is cut where pairs are counted."
    )

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing for the pairs."""
        check_shares(share_columns=self.share_columns)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> CopulaModel:
        """Columns, pairs on a grid, correlations."""
        d = len(curator.domain)
        check_noise(curator, share_columns=(self.share_columns, max(d, d * (d - 1) // 2)))
        with report_stage(listener, "measure columns"):
            noisy = curator.measure([(name,) for name in curator.domain], share=self.share_columns)
        total = max(common_total(noisy)[0], 1.0)
        own = {m.clique[0]: project_to_simplex(m.table, total) for m in noisy}
        groups = {name: groups_of(table, self.grid) for name, table in own.items()}
        coarse = curator.recode({name: (codes, int(codes[-1]) + 1) for name, codes in groups.items()})
        pairs: list[Clique] = list(itertools.combinations(sorted(coarse.domain), 2))
        pairs = [pair for pair in pairs if min(coarse.domain.sizes(pair)) > 1]  # else they cannot rise together
        with report_stage(listener, "measure pairs"):
            tables = coarse.measure(pairs or [(name,) for name in coarse.domain], share=coarse.left)
        correlation = np.eye(d)
        for m in tables if pairs else []:
            a, b = m.clique
            shares = [np.bincount(groups[name], own[name]) / total for name in m.clique]
            i, j = curator.domain.index(a), curator.domain.index(b)
            correlation[i, j] = correlation[j, i] = np.sin(np.pi / 2 * tau(m.table / total, *shares))
        return CopulaModel(curator.domain, total, tuple(own[name] for name in curator.domain), repaired(correlation))


def groups_of(table: Array, most: int) -> Array:
    """Return the group of each code: neighbours, up to so many groups of about equal counts.

    >>> groups_of(np.array([1.0, 1.0, 0.0, 6.0, 0.0]), 4).tolist()
    [0, 0, 1, 2, 3]
    """
    ends = np.cumsum(table)
    middle = (ends - table / 2) / max(ends[-1], 1e-9)
    cut = np.minimum((middle * most).astype(np.int64), most - 1)
    return np.unique(cut, return_inverse=True)[1]


def tau(table: Array, rows: Array, columns: Array) -> float:
    """Return Kendall's tau-b of a table of shares: of two draws, how often both rise, less how often one falls.

    `rows` and `columns` are the shares of each axis, which say how often there is a tie. Noise of different cells is
    independent, and no cell is concordant with itself: the numerator of a noisy table is right on average.

    >>> tau(np.diag([0.5, 0.5]), np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    1.0
    """
    rising = [np.sign(np.subtract.outer(np.arange(size), np.arange(size))) for size in table.shape]
    concordance = float((table * (rising[0] @ table @ rising[1].T)).sum())
    untied = float((1 - (rows**2).sum()) * (1 - (columns**2).sum()))
    return float(np.clip(concordance / np.sqrt(untied), -1.0, 1.0)) if untied > 0 else 0.0
