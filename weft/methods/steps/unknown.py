"""Ask only for what is not known yet: of a marginal, the interactions beyond the tables below it.

With Gaussian noise only that part of a table is measured which smaller tables do not tell (`Curator.interactions`). On
small columns that is a small part: a pair of binary ones has half the noise of a whole table for the same budget.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from weft.curator import Curator
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, NoisyMarginal, interacting


def measure_unknown(
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
        groups.setdefault(least_order(curator.domain, c, known, curator.accounting == "pure"), []).append(c)
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


def least_order(domain: Domain, c: Clique, known: Collection[Clique], pure: bool) -> int:
    """Return the least order of the interactions asked for: what is below is known. 0: the whole table is."""
    order = min(len(c), 3)
    sizes = domain.sizes(c)
    if pure or 1 in sizes or (order == 3 and any(p not in known for p in combinations(c, 2))):
        return 0
    # Of very wide columns nearly all is asked; a whole table then needs less noise in whole numbers.
    return order if interacting(sizes, order) < 0.98 else 0


def unknown_part(domain: Domain, cliques: Sequence[Clique], known: Collection[Clique], pure: bool) -> Array:
    """Return, of each clique, the part of a row that is asked for: what it costs beside a whole table."""
    parts = [interacting(domain.sizes(c), least_order(domain, c, known, pure)) for c in cliques]
    return np.array(parts).reshape(-1, 1)
