"""Neighbouring tables on which a method has nowhere to hide: the worst cases that an attack is run on.

What makes a case bad for the one row that differs, the *canary*:

* Few columns, so that a method has little else to spend its budget on: one column, where all of it goes to a single
  table, and two, where it has to look for the pair and measure it as well.
* Many rows in each cell, against the noise. Noisy counts are then never cut at zero and no value is merged with
  others: what the noise left of the canary reaches the release.
* Cells of very different sizes. A fitted model that starts from even cells stops early on even ones, and keeps less of
  what it measured.

The canary falls into the largest cell. Where a row is replaced, the one that it stands for differs from it in every
column, so that two cells of every table move.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, project
from weft.privacy import Relation
from weft.schema import Schema

Row = tuple[int, ...]

TABLES = ("one column", "two columns")
"""The pairs by name."""

ROWS = 60.0
"""About the rows of the smallest cell, for mu = 1; the noise of a share of the budget is some multiple of 1 / mu."""

STEEP = 20.0
"""How many times larger the largest cell is."""


@dataclass(frozen=True)
class NeighbouringTables:
    """Two tables of whole numbers that differ in one row."""

    name: str
    relation: Relation
    shape: Row
    """Number of codes of each column."""
    counts: Array
    """Rows in each cell that both tables share."""
    canary: Row
    replaced: Row | None
    """The row that stands in the other table in place of the canary; None: there is none."""

    @property
    def columns(self) -> Clique:
        """The names of the columns."""
        return tuple("abcdefgh"[: len(self.shape)])

    @property
    def schema(self) -> Schema:
        """What is public: the codes."""
        return Schema.from_domain(dict(zip(self.columns, self.shape, strict=True)))

    @property
    def without(self) -> pa.Table:
        """The table without the canary."""
        return self._table(self.replaced)

    @property
    def with_canary(self) -> pa.Table:
        """The table with the canary."""
        return self._table(self.canary)

    def _table(self, last: Row | None) -> pa.Table:
        cells = np.array(list(np.ndindex(self.shape)))
        rows = np.repeat(cells, self.counts.ravel(), axis=0)
        rows = rows if last is None else np.vstack([rows, last])
        return pa.table(dict(zip(self.columns, rows.T, strict=True)))

    def figures(self, marginal: Callable[[Sequence[str]], Array]) -> list[float]:
        """Return what a release tells of the canary: the count of its cell in the table of every set of columns.

        Less that of the row it replaces, if there is one. The noisy answers of any method that measures marginals, or
        parts of them, are functions of these tables, and the canary moves each of them along these cells; the total is
        the table of no columns.
        """
        told = []
        for few in range(len(self.columns) + 1):
            for axes in itertools.combinations(range(len(self.columns)), few):
                table = marginal([self.columns[i] for i in axes])
                other = 0.0 if self.replaced is None else table[tuple(self.replaced[i] for i in axes)]
                told.append(float(table[tuple(self.canary[i] for i in axes)] - other))
        return told

    def count(self, rows: pa.Table) -> Callable[[Sequence[str]], Array]:
        """Return the marginals of some rows."""
        table = np.zeros(self.shape)
        np.add.at(table, tuple(rows[name].to_numpy() for name in self.columns), 1)
        return lambda columns: project(table, self.columns, columns)


def worst_cases(relation: Relation, mu: float) -> list[NeighbouringTables]:
    """Return the tables for a neighbour relation, with as many rows as noise for this mu asks for."""
    few = ROWS / min(mu, 1.0)
    one = np.geomspace(STEEP, 1, 8)
    # Close codes go together, and small ones are more frequent: columns that depend on each other, and are uneven.
    a, b = np.indices((4, 4))
    two = np.geomspace(STEEP, 1, 4)[np.abs(a - b)] * (1 - 0.15 * a)
    return [_tables(name, relation, counts * few) for name, counts in zip(TABLES, (one, two), strict=True)]


def _tables(name: str, relation: Relation, counts: Array) -> NeighbouringTables:
    canary = (0,) * counts.ndim
    replaced = (1,) * counts.ndim if relation == "replace-one" else None
    return NeighbouringTables(name, relation, counts.shape, np.ceil(counts).astype(np.int64), canary, replaced)
