"""Multiplicative weights over a joint distribution that is kept in independent parts.

The table of all combinations of all columns fits no memory. Columns that no measured marginal connects are independent
in it, though, so that one table for each connected part says as much; where all columns are connected it is the table
of the paper. Everything here is of released answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np

from weft.marginals.domain import Clique, Domain, clique
from weft.marginals.marginal import Array, Marginal, NoisyMarginal

Parts = tuple[Marginal, ...]
"""A distribution: tables that each sum to one, over columns that they do not share."""


def cells_joined(domain: Domain, parts: Parts, c: Clique) -> int:
    """Return the cells of the table that holds a clique: of all parts that have a column of it, together."""
    return domain.cells({name for part in parts for name in part.clique if set(part.clique) & set(c)})


def joined(domain: Domain, parts: Parts, c: Clique) -> Parts:
    """Return the same distribution with the columns of a clique in one part, without the cells that no row may have."""
    touched = [part for part in parts if set(part.clique) & set(c)]
    if len(touched) == 1:
        return parts
    whole = product(touched)
    empty = domain.empty_cells(whole.clique)
    table = whole.table if empty is None or empty.all() else np.where(empty, 0.0, whole.table)
    rest = [part for part in parts if not set(part.clique) & set(c)]
    return (*rest, Marginal(whole.clique, table / table.sum()))


def expected(parts: Parts, c: Clique) -> Array:
    """Return the distribution of the columns of a clique."""
    return product([part.project(set(part.clique) & set(c)) for part in parts if set(part.clique) & set(c)]).table


def product(parts: Iterable[Marginal]) -> Marginal:
    """Return the distribution of independent parts together, axes in clique order."""

    def beside(one: Marginal, other: Marginal) -> Marginal:
        names = (*one.clique, *other.clique)
        both = clique(names)
        return Marginal(both, np.multiply.outer(one.table, other.table).transpose([names.index(name) for name in both]))

    return reduce(beside, parts, Marginal((), np.ones(())))


def updated(parts: Parts, measured: NoisyMarginal, total: float) -> Parts:
    """Return a distribution after one step towards a measured table: p(x) exp((m(x) - n p(x)) / 2n), scaled.

    Noisy counts are held between 0 and n, so that no step is longer than half a logarithm.
    """
    wanted = np.clip(measured.table / total, 0.0, 1.0)
    made = []
    for part in parts:
        if set(measured.clique) <= set(part.clique):
            step = np.exp((wanted - part.project(measured.clique).table) / 2)
            summed = [axis for axis, name in enumerate(part.clique) if name not in measured.clique]
            table = part.table * np.expand_dims(step, tuple(summed))
            part = Marginal(part.clique, table / table.sum())
        made.append(part)
    return tuple(made)


def averaged(history: Sequence[Parts]) -> Parts:
    """Return the mean of distributions over time, in the parts of the last one, which hold those of all others."""
    return tuple(
        Marginal(part.clique, np.mean([expected(parts, part.clique) for parts in history], axis=0))
        for part in history[-1]
    )
