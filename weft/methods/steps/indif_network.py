"""PrivBayes(InDif): the families of a Bayesian network, chosen on noisy InDif scores (PrivSyn, section 6.1).

PrivSyn swaps PrivBayes' own score for InDif, to have a choice that many columns can pay for. It is the choice of
`privbayes-indif`, of `pgm` as published, and of `privsyn` where it stands for DenseMarg: one and the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.curator import Curator
from weft.marginals.domain import Clique, Domain
from weft.models.mrf import fits, junction_tree
from weft.select import sparse_network
from weft.select.useful import useful_cells

THETA = 4.0
"""PrivBayes' theta: a table may be so large that its average count is this many times the deviation of its noise."""

MOST_PARENTS = 5
"""Most parents of an attribute."""


def indif_families(
    curator: Curator,
    dependence: Mapping[Clique, float],
    total: float,
    theta: float = THETA,
    max_parents: int = MOST_PARENTS,
) -> list[Clique]:
    """Return the families of a network whose tables are useful at an even share of what is left of the budget."""
    cells = useful_cells(total, curator.sigma(curator.left / len(curator.domain)), theta)
    return sparse_network(dependence, curator.domain, max_parents=max_parents, max_cells=int(cells))


def narrowed(domain: Domain, families: list[Clique], max_cells: int, max_total: int) -> list[Clique]:
    """Return the families, of those that would make the junction tree too large with fewer parents."""
    kept: list[Clique] = []
    placed: set[str] = set()
    for family in families:
        tree = junction_tree(domain, kept, max_cells=max_cells, max_total=max_total)
        parents = [name for name in family if name in placed]
        while parents and not fits(tree, family, max_cells=max_cells, max_total=max_total):
            largest = max(parents, key=domain.size)
            parents.remove(largest)
            family = tuple(name for name in family if name != largest)
        kept.append(family)
        placed.update(family)
    return kept
