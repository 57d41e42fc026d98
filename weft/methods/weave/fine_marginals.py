"""Columns in all their values: measured as often as they are bought, and merged for joint tables alone.

Rare values are merged by a first look, and told apart again by what is known of the column alone. So whatever is spent
on such a column later is spent in its own codes: it costs the same, and joint tables get the sums of merged values.

In either codes a row adds to one cell of a column's table, and which codes are merged was fixed by noisy answers. So
the charge is that of any marginal, under both relations of neighbours, and both doors charge one ledger.
"""

from __future__ import annotations

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

# Ask only for what is not known yet: of a marginal, the interactions beyond the tables below it.


def measure_new_interactions(
    curator: Curator,
    prices: Mapping[Clique, float],
    share: float,
    total: float,
    known: Collection[Clique] = (),
) -> list[NoisyMarginal]:
    """Measure of each clique what is not known, for its price's part of the share.

    The total is known, so a column's table is its interaction and an even spread of the total.
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
    """Return the least order of the interactions asked for: what is below is known. 0: the whole table is."""
    order = min(len(c), 3)
    sizes = domain.sizes(c)
    if pure or 1 in sizes or (order == 3 and any(p not in known for p in combinations(c, 2))):
        return 0
    # Of very wide columns nearly all is asked; a whole table then needs less noise in whole numbers.
    return order if compute_interaction_norm(sizes, order) < 0.98 else 0


def compute_interaction_share(
    domain: Domain, cliques: Sequence[Clique], known: Collection[Clique], pure: bool
) -> Array:
    """Return, of each clique, the part of a row that is asked for: what it costs beside a whole table."""
    parts = [
        compute_interaction_norm(domain.sizes(c), find_lowest_unmeasured_order(domain, c, known, pure)) for c in cliques
    ]
    return np.array(parts).reshape(-1, 1)


def remeasure_columns(
    curator: Curator, tables: Mapping[Clique, NoisyMarginal], prices: Mapping[Clique, float], share: float, total: float
) -> dict[Clique, NoisyMarginal]:
    """Return columns, some of them measured once more for a share of the budget, and both measurements combined."""
    new = {m.clique: m for m in measure_new_interactions(curator, prices, share, total)}
    return {c: pool_measurements(old, new[c]) if c in new else old for c, old in tables.items()}


@dataclass
class FineColumns:
    """What is known of each column alone, and the groups in which joint tables count it."""

    curator: Curator
    """The door to the columns' own codes."""
    total: float
    maps: Mapping[str, ValueMap]
    tables: dict[Clique, NoisyMarginal]

    def folded(self, c: Clique) -> NoisyMarginal:
        """Return a column as joint tables count it."""
        table = self.tables[c]
        return self.maps[c[0]].fold(table) if c[0] in self.maps else table

    def own(self, prices: Mapping[Clique, float]) -> dict[Clique, float]:
        """Return those of the marginals that are columns with merged values."""
        return {c: price for c, price in prices.items() if len(c) == 1 and c[0] in self.maps}

    def measure(self, prices: Mapping[Clique, float], share: float) -> None:
        """Measure columns once more, in their own codes."""
        self.tables = remeasure_columns(self.curator, self.tables, prices, share, self.total)

    def told_apart(self) -> dict[str, ValueMap]:
        """Return the groups with all that is known of the values in them."""
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
    """Measure the marginals of a batch for a share of the budget, and add them to those that were measured."""
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
