"""Contingency tables over a clique: exact or modelled ones, and noisy ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.marginals.domain import Clique

Array = NDArray[Any]


def project_table(table: Array, clique: Clique, onto: Iterable[str]) -> Array:
    """Sum a table over `clique` down to the attributes of `onto`, which come out in the clique's order.

    >>> project_table(np.array([[1, 2], [3, 4]]), ("a", "b"), ("b",))
    array([4, 6])
    """
    kept = set(onto)
    if not kept <= set(clique):
        raise ValueError(f"{sorted(kept - set(clique))} is not in {clique}")
    axes = tuple(i for i, name in enumerate(clique) if name not in kept)
    return np.asarray(table.sum(axis=axes)) if axes else table


def compute_interaction(table: Array, order: int) -> Array:
    """Return table.size times what a table tells that its projections onto fewer than `order` axes do not.

    A table is a sum of orthogonal terms, one for each subset of its axes; the term of a subset is the projection onto
    it with the mean along each of its axes taken away, spread over the other axes. What is returned are the
    terms of `order` axes and more: again an orthogonal projection, and of whole numbers whole numbers.

    >>> compute_interaction(np.array([[5, 2], [1, 4]]), 2)
    array([[ 6, -6],
           [-6,  6]])
    """
    rest = table * table.size
    for few in range(order):
        for axes in itertools.combinations(range(table.ndim), few):
            term = table.sum(axis=tuple(set(range(table.ndim)) - set(axes)), keepdims=True)
            for axis in axes:
                term = term * table.shape[axis] - term.sum(axis=axis, keepdims=True)
            rest = rest - term
    return np.asarray(rest)


def compute_interaction_norm(shape: Sequence[int], order: int) -> float:
    """Return the squared length of what `compute_interaction` leaves of a single row, as a part of the whole.

    >>> compute_interaction_norm((2, 2), 2), compute_interaction_norm((2, 2), 0)
    (0.25, 1.0)
    """
    of_order = np.zeros(len(shape) + 1)  # the sum over subsets of each size: coefficients of prod (1/d + (1 - 1/d) x)
    of_order[0] = 1.0
    for d in shape:
        of_order[1:] = of_order[1:] / d + of_order[:-1] * (1 - 1 / d)
        of_order[0] /= d
    return float(of_order[order:].sum())


@dataclass(frozen=True)
class Marginal:
    """A table of counts over a clique; axis i belongs to attribute i of the clique.

    >>> Marginal(("a", "b"), np.array([[1, 2], [3, 4]])).project(("a",)).table
    array([3, 7])
    """

    clique: Clique
    table: Array
    empty: Array | None = field(default=None, kw_only=True)
    """Cells that no row may have, where rules say so (`Domain.impossible`): they stay empty whatever is done."""

    def __post_init__(self) -> None:
        if self.table.ndim != len(self.clique):
            raise ValueError(f"a table over {self.clique} needs {len(self.clique)} axes, not {self.table.ndim}")
        if list(self.clique) != sorted(set(self.clique)):
            raise ValueError(f"{self.clique} is not sorted, or repeats a name")

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.table.size)

    def project(self, onto: Iterable[str]) -> Marginal:
        """Sum out every attribute that is not in `onto`."""
        kept = set(onto)
        return Marginal(tuple(c for c in self.clique if c in kept), project_table(self.table, self.clique, kept))


@dataclass(frozen=True)
class NoisyMarginal(Marginal):
    """A marginal as released: integer counts with independent noise of known standard deviation a cell."""

    sigma: float
    """Standard deviation of the noise on each cell, in counts."""
    order: int = 0
    """If above 0, the table holds interaction terms only (`compute_interaction`, in counts).
    The noise is that of a whole table before the rest is taken away; other tables have to tell the rest."""

    @property
    def precision(self) -> float:
        """One over the noise variance: the weight of this table when several tell of the same thing."""
        return 1.0 / self.sigma**2

    @property
    def measured(self) -> Measured:
        """What was measured and how well, without the answer."""
        return Measured(self.clique, self.table.shape, self.sigma, self.order)


@dataclass(frozen=True)
class Measured:
    """A marginal that was asked of the private rows: where, and with how much noise."""

    clique: Clique
    shape: tuple[int, ...]
    """Codes of each attribute when it was asked; fewer than the domain's where values had been merged before."""
    sigma: float
    """Standard deviation of the noise on each cell, in counts."""
    order: int = 0
    """If above 0, only what projections onto fewer attributes do not tell: of those it says nothing."""

    @property
    def cells(self) -> int:
        """Number of cells, each with its own noise."""
        return math.prod(self.shape)
