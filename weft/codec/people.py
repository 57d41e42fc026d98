"""People with several rows: which synthetic rows belong to one person.

How many rows a person has was asked of the private rows; which synthetic rows are whose was not, and is made up: rows
that are alike in what stays the same for a person (`per_unit`) are neighbours, and are dealt out to people in the
measured numbers. Only synthetic rows and a released table are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.marginals.marginal import Array

Broken = Callable[[pa.Table], NDArray[np.bool_]]
"""Says which rows of a table break a rule."""


@dataclass(frozen=True)
class People:
    """How rows are dealt out."""

    sizes: Array
    """Share of the people with 1, 2, ... rows."""
    same: tuple[str, ...] = ()
    """Columns that stay the same for a person."""

    @classmethod
    def of(cls, noisy: Array, same: tuple[str, ...]) -> People:
        """Take noisy numbers of people with 1, 2, ... rows; if noise left none of them, all have one row."""
        counts = np.maximum(np.asarray(noisy, np.float64), 0)
        return cls(counts if counts.sum() > 0 else np.eye(1, len(counts))[0], same)

    def settle(self, table: pa.Table, broken: Broken, rng: np.random.Generator) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return the table with what stays the same made the same, and the number of each row's person.

        A row that would break a rule keeps its own values, and has a person of its own.
        """
        order = _alike(table, self.same, rng)
        ends = self._ends(len(order), rng)
        place = np.searchsorted(ends, np.arange(len(order)), side="right")
        first = np.concatenate([[0], ends[:-1]])
        person, origin = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        person[order], origin[order] = place, order[first[place]]
        made = table
        for name in self.same:
            column = made.column(name).take(pa.array(origin))
            made = made.set_column(made.schema.get_field_index(name), made.schema.field(name), column)
        wrong = broken(made) if self.same else np.zeros(len(order), bool)
        if wrong.any():
            alone = pa.array(wrong)
            for name in self.same:
                column = pc.if_else(alone, table.column(name), made.column(name))
                made = made.set_column(made.schema.get_field_index(name), made.schema.field(name), column)
            person[wrong] = len(ends) + np.arange(int(wrong.sum()))
        return made, np.unique(person, return_inverse=True)[1].astype(np.int64)

    def _ends(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return where each person's rows end, for people drawn until the rows are dealt out."""
        if not rows:
            return np.zeros(0, np.int64)
        drawn = 1 + rng.choice(len(self.sizes), rows, p=self.sizes / self.sizes.sum())
        ends = np.cumsum(drawn)
        return np.append(ends[ends < rows], rows).astype(np.int64)


def _alike(table: pa.Table, names: Sequence[str], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the rows in an order in which those that are alike in some columns are neighbours, otherwise random."""
    keys = [rng.random(len(table))]
    for name in names:
        ranks = pc.rank(table.column(name).combine_chunks(), tiebreaker="dense")
        keys.append(ranks.to_numpy(zero_copy_only=False))
    return np.lexsort(keys)
