"""Marginals (contingency tables over a clique): exact, estimated and noisy."""

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
    """Project a table over `clique` onto the attributes in `onto`, with axes in the clique's order.

    >>> project_table(np.array([[1, 2], [3, 4]]), ("a", "b"), ("b",))
    array([4, 6])
    """
    kept = set(onto)
    if not kept <= set(clique):
        raise ValueError(f"{sorted(kept - set(clique))} is not in {clique}")
    axes = tuple(i for i, name in enumerate(clique) if name not in kept)
    return np.asarray(table.sum(axis=axes)) if axes else table


def compute_interaction(table: Array, order: int) -> Array:
    """Return table.size times the interaction terms of a table that involve at least `order` axes.

    A table is a sum of orthogonal terms, one for each subset of its axes. The term of a subset is the projection onto
    it, minus the mean along each of its axes, spread evenly over the other axes. Keeping the terms of at least `order`
    axes is an orthogonal projection. The factor table.size makes the result an integer table if the input is one.

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
    """Return the squared L2 norm of the interaction terms of a single row's table (the whole table has norm 1).

    >>> compute_interaction_norm((2, 2), 2), compute_interaction_norm((2, 2), 0)
    (0.25, 1.0)
    """
    of_order = np.zeros(len(shape) + 1)  # sums over subsets of each size: coefficients of prod (1/d + (1 - 1/d) x)
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
    """Structural zeros (`Domain.impossible`): cells that every estimator keeps at zero."""

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
        """Sum over every attribute that is not in `onto`."""
        kept = set(onto)
        return Marginal(tuple(c for c in self.clique if c in kept), project_table(self.table, self.clique, kept))


@dataclass(frozen=True)
class NoisyMarginal(Marginal):
    """Released marginal: integer counts with independent noise of known standard deviation in each cell."""

    sigma: float
    """Standard deviation of the noise on each cell, in counts."""
    order: int = 0
    """If positive, the table holds only interaction terms of at least this order (`compute_interaction`, in counts).
    `sigma` is then the noise of a whole table before projection; lower-order terms come from other measurements."""

    @property
    def precision(self) -> float:
        """Inverse noise variance: the weight of this table when several measurements are pooled."""
        return 1.0 / self.sigma**2

    @property
    def measured(self) -> Measured:
        """The query and its noise, without the noisy answer."""
        return Measured(self.clique, self.table.shape, self.sigma, self.order)


@dataclass(frozen=True)
class Measured:
    """Description of a marginal query on the private rows: its clique, shape and noise."""

    clique: Clique
    shape: tuple[int, ...]
    """Number of codes of each attribute in the query; below the domain's size if values were merged before."""
    sigma: float
    """Standard deviation of the noise on each cell, in counts."""
    order: int = 0
    """If positive, only interaction terms of at least this order were measured, and no lower-order terms."""

    @property
    def cells(self) -> int:
        """Number of cells, each with independent noise."""
        return math.prod(self.shape)
