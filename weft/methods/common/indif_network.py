"""PrivBayes(InDif): the families of a Bayesian network, selected by noisy InDif scores (PrivSyn, section 6.1).

PrivSyn replaces PrivBayes' own score by InDif, which is affordable for many attributes. Used by `privbayes-indif`, by
the preset of `pgm`, and by `privsyn` in place of DenseMarg.
"""

from collections.abc import Mapping

import numpy as np

from weft.curator import Curator
from weft.marginals.domain import Clique, Domain, make_clique


def useful_cells(total: float, scale: float, theta: float) -> float:
    """Return the maximum cells of a theta-useful table (PrivBayes); at least 1."""
    return max(1.0, total / (theta * scale))


def sparse_network(
    dependence: Mapping[Clique, float],
    domain: Domain,
    *,
    max_parents: int = 2,
    max_cells: int = 5000,
    root: str | None = None,
) -> list[Clique]:
    """Return the families (attribute and parents) of a Bayesian network, selected greedily by pairwise scores.

    "PrivBayes(InDif)" of PrivSyn's evaluation: starting from one attribute, add the attribute with the best parents
    among those already placed. The score of a parent set is the sum of its noisy pair scores, so no further budget is
    needed. Parents are taken by decreasing score while it is positive, at most `max_parents`, and the family's table
    stays within `max_cells`. An attribute gets its best parent even if its score is negative, or none if no table fits.

    There is one family for each attribute but the first, in order of placement; its child is the attribute that is in
    no earlier family (the first family also has `root`). With `root` None, the root is the attribute with the largest
    summed score, where PrivBayes draws one at random. A domain of one attribute gives that attribute alone.
    """
    if max_parents < 1:
        raise ValueError("a network needs at least one parent for each attribute")
    d = len(domain)
    sizes = np.array(domain.shape, dtype=np.float64)
    score = np.full((d, d), -np.inf)
    for pair, value in dependence.items():
        if len(pair) == 2:
            i, j = domain.index(pair[0]), domain.index(pair[1])
            score[i, j] = score[j, i] = value
    strength = np.where(np.isfinite(score), score, 0.0).sum(axis=1)
    first = int(strength.argmax()) if root is None else domain.index(root)

    placed = np.zeros(d, dtype=bool)
    placed[first] = True
    families: list[Clique] = []
    while not placed.all():
        open_score = np.where(placed[None, :] & ~placed[:, None], score, -np.inf)
        cells = sizes.copy()
        parents = np.full((max_parents, d), -1)
        gain = np.where(placed, -np.inf, 0.0)
        for k in range(max_parents):
            fitting = np.where(cells[:, None] * sizes[None, :] <= max_cells, open_score, -np.inf)
            best = fitting.argmax(axis=1)
            value = fitting[np.arange(d), best]
            taken = np.isfinite(value) & ((value > 0) | (k == 0))
            parents[k, taken] = best[taken]
            gain[taken] += value[taken]
            cells[taken] *= sizes[best[taken]]
            open_score[taken, best[taken]] = -np.inf
        gain[~placed & (parents[0] < 0)] = np.finfo(np.float64).min  # attributes without parents are placed last
        child = int(gain.argmax())
        members = [child, *parents[parents[:, child] >= 0, child]]
        families.append(make_clique(domain.names[i] for i in members))
        placed[child] = True
    if not any(domain.names[first] in family for family in families):
        families.insert(0, (domain.names[first],))  # no table with the first attribute fits
    return families


THETA = 4.0
"""PrivBayes' theta: minimum ratio of the average count of a table to the standard deviation of its noise."""

MAX_PARENTS = 5
"""Maximum parents of an attribute."""


def indif_families(
    curator: Curator,
    dependence: Mapping[Clique, float],
    total: float,
    theta: float = THETA,
    max_parents: int = MAX_PARENTS,
) -> list[Clique]:
    """Return the families of a network whose tables are theta-useful with equal shares of the remaining budget."""
    cells = useful_cells(total, curator.sigma(curator.left / len(curator.domain)), theta)
    return sparse_network(dependence, curator.domain, max_parents=max_parents, max_cells=int(cells))
