"""Columns in all their values: measured as often as they are bought, and merged for joint tables alone.

Rare values are merged by a first look, and told apart again by what is known of the column alone. So whatever is spent
on such a column later is spent in its own codes: it costs the same, and joint tables get the sums of merged values.

In either codes a row adds to one cell of a column's table, and which codes are merged was fixed by noisy answers. So
the charge is that of any marginal, under both relations of neighbours, and both doors charge one ledger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.curator import Curator
from weft.marginals.domain import Clique
from weft.marginals.marginal import NoisyMarginal
from weft.marginals.pooling import pooled
from weft.marginals.recode import ValueMap
from weft.methods.steps.unknown import measure_unknown
from weft.reconcile import simplex


def measured_again(
    curator: Curator, tables: Mapping[Clique, NoisyMarginal], prices: Mapping[Clique, float], share: float, total: float
) -> dict[Clique, NoisyMarginal]:
    """Return columns, some of them measured once more for a share of the budget, and both measurements combined."""
    new = {m.clique: m for m in measure_unknown(curator, prices, share, total)}
    return {c: pooled(old, new[c]) if c in new else old for c, old in tables.items()}


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
        self.tables = measured_again(self.curator, self.tables, prices, share, self.total)

    def told_apart(self) -> dict[str, ValueMap]:
        """Return the groups with all that is known of the values in them."""
        return {
            name: replace(found, counts=simplex(self.tables[name,].table, self.total))
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
        for noisy in measure_unknown(merged, joint, share - part, fine.total, measured):
            old = measured.get(noisy.clique)
            measured[noisy.clique] = noisy if old is None else pooled(old, noisy)
    if own:
        fine.measure(own, part)
        measured |= {c: fine.folded(c) for c in own}
