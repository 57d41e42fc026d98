"""PrivBayes(InDif): the families of a Bayesian network, chosen on noisy InDif scores (PrivSyn, section 6.1).

PrivSyn swaps PrivBayes' own score for InDif, to have a choice that many columns can pay for. It is the choice of
`privbayes-indif`, of `pgm` as published, and of `privsyn` where it stands for DenseMarg: one and the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.curator import Curator
from weft.marginals.domain import Clique, Domain, make_clique
from weft.methods.common.candidates import useful_cells
from weft.models.mrf import fits_with_clique, junction_tree

# Sparse choices: Bayesian networks built from pairwise scores.


def sparse_network(
    dependence: Mapping[Clique, float],
    domain: Domain,
    *,
    max_parents: int = 2,
    max_cells: int = 5000,
    root: str | None = None,
) -> list[Clique]:
    """Return the families (attribute and parents) of a Bayesian network, as PrivBayes selects on InDif.

    "PrivBayes(InDif)" of PrivSyn's evaluation: from a first attribute on, add the attribute whose parents
    among those already placed tell most about it. With noisy scores of pairs at hand, a parent set scores the
    sum of its pairs, and no further budget is needed; parents are taken by decreasing score while they are
    positive, at most `max_parents`, and the family's table stays within `max_cells`. An attribute gets its
    best parent even if that scores below zero, and none if no table fits.

    One family for each attribute but the first, in order of placement: the child of a family is its attribute
    that no earlier family has (the first family holds `root` too). `root` None: the attribute of the greatest
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
        gain[~placed & (parents[0] < 0)] = np.finfo(np.float64).min  # attributes without a parent come last
        child = int(gain.argmax())
        members = [child, *parents[parents[:, child] >= 0, child]]
        families.append(make_clique(domain.names[i] for i in members))
        placed[child] = True
    if not any(domain.names[first] in family for family in families):
        families.insert(0, (domain.names[first],))  # no table with the first attribute fits
    return families


THETA = 4.0
"""PrivBayes' theta: a table may be so large that its average count is this many times the deviation of its noise."""

MAX_PARENTS = 5
"""Most parents of an attribute."""


def indif_families(
    curator: Curator,
    dependence: Mapping[Clique, float],
    total: float,
    theta: float = THETA,
    max_parents: int = MAX_PARENTS,
) -> list[Clique]:
    """Return the families of a network whose tables are useful at an even share of what is left of the budget."""
    cells = useful_cells(total, curator.sigma(curator.left / len(curator.domain)), theta)
    return sparse_network(dependence, curator.domain, max_parents=max_parents, max_cells=int(cells))


def narrow_families(domain: Domain, families: list[Clique], max_cells: int, max_total: int) -> list[Clique]:
    """Return the families, of those that would make the junction tree too large with fewer parents."""
    kept: list[Clique] = []
    placed: set[str] = set()
    for family in families:
        tree = junction_tree(domain, kept, max_cells=max_cells, max_total=max_total)
        parents = [name for name in family if name in placed]
        while parents and not fits_with_clique(tree, family, max_cells=max_cells, max_total=max_total):
            largest = max(parents, key=domain.size)
            parents.remove(largest)
            family = tuple(name for name in family if name != largest)
        kept.append(family)
        placed.update(family)
    return kept
