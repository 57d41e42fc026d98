"""One-way marginals in unmerged codes; rare values are merged in joint marginals only.

The first measurement decides which rare values are merged; the final model splits them again by the one-way marginal.
Later measurements of such an attribute therefore use its own codes: they cost the same, and are summed over merged
values for joint marginals.

Privacy: in either coding a row adds to one cell of a one-way marginal, and noisy measurements decided the merging, so
sensitivity and charge are those of any marginal, under both neighbour relations. Both curators charge one ledger.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from weft.curator import Curator
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, NoisyMarginal, compute_interaction_norm
from weft.marginals.pooling import pool_measurements
from weft.marginals.simplex import project_to_simplex
from weft.marginals.value_groups import ValueMap


def measure_new_interactions(
    curator: Curator, prices: Mapping[Clique, float], share: float, total: float, known: Collection[Clique] = ()
) -> list[NoisyMarginal]:
    """Measure the unmeasured interaction terms of each clique, with parts of the share in proportion to its price.

    A one-way marginal is the sum of its interaction terms and an even spread of the known total.
    """
    groups: dict[int, list[Clique]] = {}
    for c in prices:
        groups.setdefault(
            find_lowest_unmeasured_order(curator.domain, c, known, curator.accounting.is_pure), []
        ).append(c)
    whole = math.fsum(prices.values())
    found: dict[Clique, NoisyMarginal] = {}
    for order, cliques in groups.items():
        paid = [prices[c] for c in cliques]
        part = share * math.fsum(paid) / whole
        tables = curator.interactions(cliques, order, part, paid) if order else curator.measure(cliques, part, paid)
        if order == 1:
            tables = [replace(m, table=m.table + total / m.cells, order=0) for m in tables]
        found |= {m.clique: m for m in tables}
    return [found[c] for c in prices]


def find_lowest_unmeasured_order(domain: Domain, c: Clique, known: Collection[Clique], pure: bool) -> int:
    """Return the lowest order of the interaction terms to measure; 0 for the whole table."""
    order = min(len(c), 3)
    sizes = domain.sizes(c)
    if pure or 1 in sizes or (order == 3 and any(p not in known for p in combinations(c, 2))):
        return 0
    # For very wide attributes nearly the whole table is new; measuring it whole needs less rounding noise.
    return order if compute_interaction_norm(sizes, order) < 0.98 else 0


def compute_interaction_share(
    domain: Domain, cliques: Sequence[Clique], known: Collection[Clique], pure: bool
) -> Array:
    """Return the squared sensitivity of each clique's query relative to that of a whole table."""
    parts = [
        compute_interaction_norm(domain.sizes(c), find_lowest_unmeasured_order(domain, c, known, pure)) for c in cliques
    ]
    return np.array(parts).reshape(-1, 1)


def remeasure_columns(
    curator: Curator, tables: Mapping[Clique, NoisyMarginal], prices: Mapping[Clique, float], share: float, total: float
) -> dict[Clique, NoisyMarginal]:
    """Measure some one-way marginals again and pool both measurements."""
    new = {m.clique: m for m in measure_new_interactions(curator, prices, share, total)}
    return {c: pool_measurements(old, new[c]) if c in new else old for c, old in tables.items()}


@dataclass
class FineColumns:
    """One-way marginals in unmerged codes, and the merged values of joint marginals."""

    curator: Curator
    """Curator of the unmerged codes."""
    total: float
    maps: Mapping[str, ValueMap]
    tables: dict[Clique, NoisyMarginal]

    def folded(self, c: Clique) -> NoisyMarginal:
        """Return a one-way marginal in merged values."""
        table = self.tables[c]
        return self.maps[c[0]].fold(table) if c[0] in self.maps else table

    def own(self, prices: Mapping[Clique, float]) -> dict[Clique, float]:
        """Return the prices of one-way marginals with merged values."""
        return {c: price for c, price in prices.items() if len(c) == 1 and c[0] in self.maps}

    def measure(self, prices: Mapping[Clique, float], share: float) -> None:
        """Measure one-way marginals again, in unmerged codes."""
        self.tables = remeasure_columns(self.curator, self.tables, prices, share, self.total)

    def told_apart(self) -> dict[str, ValueMap]:
        """Return the maps of merged values with the estimated counts of the values in them."""
        return {
            name: replace(found, counts=project_to_simplex(self.tables[name,].table, self.total))
            for name, found in self.maps.items()
        }


def measure_batch(
    merged: Curator,
    fine: FineColumns,
    prices: Mapping[Clique, float],
    share: float,
    measured: dict[Clique, NoisyMarginal],
) -> None:
    """Measure the marginals of a batch and add them to `measured`, pooled with earlier measurements."""
    own = fine.own(prices)
    joint = {c: price for c, price in prices.items() if c not in own}
    part = share * math.fsum(own.values()) / math.fsum(prices.values())
    if joint:
        for noisy in measure_new_interactions(merged, joint, share - part, fine.total, measured):
            old = measured.get(noisy.clique)
            measured[noisy.clique] = noisy if old is None else pool_measurements(old, noisy)
    if own:
        fine.measure(own, part)
        measured |= {c: fine.folded(c) for c in own}
