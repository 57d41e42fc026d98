"""A public table as a prior: what it says of pairs of columns, where private answers say that it is the better guess.

Before a pair is measured, the model's guess of it is the product of its columns. A public table of the same attributes
gives another: its own pair, brought to the private columns (iterative proportional fitting), so that only the relation
is taken from it. How far each of the two guesses is from the private pair is asked, with noise, in one batch of
distances; the one that is believed to be nearer is what the pair is compared with, shrunk to and, where measuring it is
not worth its price, taken as it is. Public rows are read without charge. The distances to the second guesses are
charged as all distances are, so a public table that misleads costs no more than a noisier choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.curator import Curator
from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, NoisyMarginal, compute_interaction, compute_interaction_norm
from weft.marginals.noise_error import MEAN_ABS_NORMAL
from weft.methods.weave.fine_marginals import find_lowest_unmeasured_order

ROUNDS = 30
"""Rounds of proportional fitting; it comes near in a few."""

NEARER = 0.7
"""A public guess counts if it is believed to be this part as far off as the other, or less. A pair that is left to the
model is told by other pairs, better than by the product of its columns: what is hardly nearer than that is no gain."""

UNSEEN = 0.5
"""Rows that a public pair is taken to have besides its own, spread as its columns are: what nobody there has is rare,
not impossible."""


def rake_pair(pair: Array, rows: Array, columns: Array) -> Array:
    """Return the table with these margins (of one total) that is related as a public pair is.

    >>> rake_pair(np.array([[30.0, 10.0], [10.0, 30.0]]), np.array([60.0, 40.0]), np.array([50.0, 50.0])).sum(axis=0)
    array([50., 50.])
    """
    total = max(float(rows.sum()), 1e-9)
    table = np.asarray(pair, np.float64) + UNSEEN * np.outer(rows, columns) / total**2
    for _ in range(ROUNDS):
        table *= (rows / np.maximum(table.sum(axis=1), 1e-300))[:, None]
        table *= columns / np.maximum(table.sum(axis=0), 1e-300)
    return table


def reconcile_distances(one: Array, other: Array, apart: Array) -> tuple[Array, Array]:
    """Return two noisy distances from one table, brought as near to each other as their ends are apart.

    That is the triangle inequality. Two guesses that are nearly the same table then share both answers, and the smaller
    one is not the one whose noise is.

    >>> reconcile_distances(np.array([90.0, 90.0]), np.array([10.0, 10.0]), np.array([20.0, 500.0]))
    (array([60., 90.]), array([40., 10.]))
    """
    middle, half = (one + other) / 2, np.minimum(np.abs(one - other), apart) / 2
    sign = np.sign(one - other)
    return middle + sign * half, middle - sign * half


@dataclass(frozen=True)
class PublicPrior:
    """The guesses that a public table gives of pairs."""

    curator: Curator
    """Knows the public rows in the codes that pairs are measured in."""

    def guesses(self, pairs: Sequence[Clique], columns: Mapping[Clique, Array]) -> list[Array]:
        """Return what the public rows say of pairs whose columns are known."""
        found = self.curator.public(pairs)
        return [rake_pair(table, columns[a,], columns[b,]) for (a, b), table in zip(pairs, found, strict=True)]

    def taken(self, pair: Clique, guess: Array, gap: float) -> NoisyMarginal:
        """Return a guess as a table that was measured with noise which would leave so large a distance (L1)."""
        domain = self.curator.domain
        order = find_lowest_unmeasured_order(domain, pair, (), self.curator.accounting.is_pure)
        sigma = max(gap, 1.0) / (
            MEAN_ABS_NORMAL * guess.size * compute_interaction_norm(domain.sizes(pair), order) ** 0.5
        )
        table = compute_interaction(guess, order) / guess.size if order else guess
        return NoisyMarginal(pair, table, sigma, order, empty=domain.empty_cells(pair))
