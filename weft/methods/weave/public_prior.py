"""A public table as a prior for pairs of attributes, where noisy distances show that it is the better estimate.

Before a pair is measured, the model's estimate is the product of its one-way marginals. A public table of the same
attributes gives another: its own pair, raked to the private one-way marginals (iterative proportional fitting), so that
only the interaction is public. One batch of noisy distances compares both estimates with the private pair; the closer
one is the reference for the distance, the shrinkage target and, if the pair is not worth measuring, its estimate.

Privacy: public rows are not charged. The distances to the second estimates are charged like all distances, so a
misleading public table costs no more than a noisier selection.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.curator import Curator
from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, NoisyMarginal, compute_interaction, compute_interaction_norm
from weft.marginals.noise_error import MEAN_ABS_NORMAL
from weft.methods.weave.fine_marginals import find_lowest_unmeasured_order

ROUNDS = 30
"""Rounds of proportional fitting; a few are enough."""

NEARER = 0.7
"""A public estimate is used if its distance is at most this fraction of the model's. Other pairs improve the model's
estimate of an unmeasured pair beyond independence, so a slightly closer public estimate is no gain."""

UNSEEN = 0.5
"""Pseudo-rows of a public pair, distributed as under independence: combinations without public rows are rare, not
impossible."""


def rake_pair(pair: Array, rows: Array, columns: Array) -> Array:
    """Rake a public pair to these margins of one total.

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
    """Return two noisy distances from one table, adjusted to differ by at most `apart`, the distance of the estimates.

    This is the triangle inequality: for nearly equal estimates both measurements are averaged, so that the smaller
    distance is not merely the one with the smaller noise.

    >>> reconcile_distances(np.array([90.0, 90.0]), np.array([10.0, 10.0]), np.array([20.0, 500.0]))
    (array([60., 90.]), array([40., 10.]))
    """
    middle, half = (one + other) / 2, np.minimum(np.abs(one - other), apart) / 2
    sign = np.sign(one - other)
    return middle + sign * half, middle - sign * half


@dataclass(frozen=True)
class PublicPrior:
    """Estimates of pairs from public rows."""

    curator: Curator
    """Has the public rows in the codes in which pairs are measured."""

    def guesses(self, pairs: Sequence[Clique], columns: Mapping[Clique, Array]) -> list[Array]:
        """Return the public pairs, raked to the given one-way marginals."""
        found = self.curator.public(pairs)
        return [rake_pair(table, columns[a,], columns[b,]) for (a, b), table in zip(pairs, found, strict=True)]

    def taken(self, pair: Clique, guess: Array, gap: float) -> NoisyMarginal:
        """Return an estimate as a measurement whose noise corresponds to the L1 distance `gap`."""
        domain = self.curator.domain
        order = find_lowest_unmeasured_order(domain, pair, (), self.curator.accounting.is_pure)
        sigma = max(gap, 1.0) / (
            MEAN_ABS_NORMAL * guess.size * compute_interaction_norm(domain.sizes(pair), order) ** 0.5
        )
        table = compute_interaction(guess, order) / guess.size if order else guess
        return NoisyMarginal(pair, table, sigma, order, empty=domain.empty_cells(pair))
