"""Queries on baskets of items: common items, and the support of items and of item sets.

The privacy unit is a basket of any size; its contribution is bounded by counting at most `most` random items of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.curator.query_base import QueryBase
from weft.display import format_count
from weft.engines import BATCH_ROWS
from weft.engines.sources import source_name, table_identity
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.marginals.marginal import Array
from weft.privacy import Charge, Ledger
from weft.privacy.mechanisms import Release
from weft.privacy.partitions import unpack_value_counts
from weft.progress import Listener, ignore_event
from weft_lab.baskets.basket_rows import BasketForm as BasketForm
from weft_lab.baskets.basket_rows import list_columns as list_columns
from weft_lab.baskets.basket_rows import open_baskets

if TYPE_CHECKING:
    from weft_lab.baskets.basket_rows import Baskets


class BasketCurator(QueryBase):
    """Answer queries on baskets, each for a share of the whole budget (`QueryBase`); all noise is Gaussian."""

    def __init__(self, baskets: Baskets, ledger: Ledger, release: Release) -> None:
        super().__init__(baskets, ledger, release)  # type: ignore[arg-type]
        self._require_gaussian("baskets are counted")
        self._baskets = baskets

    def baskets(self, share: float) -> tuple[int, float]:
        """Return the noisy number of baskets and its standard deviation.

        Privacy: sensitivity `total` = 1, since one basket changes the number by one.
        """
        sigma, _ = self._noise(share, self._adjacency.total())
        charge = self._charge("total", "number of baskets", self._adjacency.total(), [sigma], draws=1)
        (released,) = self._release(charge, [np.array(self._baskets.baskets, np.int64)])
        return int(released), sigma

    def common_items(self, share: float, slack: float, most: int) -> list[str]:
        """Return the items that many baskets hold, without a public list of items.

        Privacy (`weft.privacy.partitions`): at most `most` different items of a basket count, each once, so a basket
        changes the counts of all items of either of two neighbours by at most `items_l2` in L2 norm. An item that only
        one basket holds has a count of one; of j such items, at most `most`, one passes the threshold with a
        probability of at most the slack, since the bound for `most` rows of one unit is no smaller.
        """
        sensitivity = self._adjacency.items_l2(most)
        sigma, _ = self._noise(share, sensitivity)
        charge = Charge.partitions(
            "common items", sensitivity=sensitivity, scale=sigma, columns=1, rows=most, slack=slack
        )
        charge = self._enter(replace(charge, purpose="discovery"))
        return list(unpack_value_counts(self._release(charge, self._baskets.listed(most))))

    def items(self, items: Sequence[str], most: int, share: float) -> tuple[Array, float]:
        """Return the noisy support of each item and the standard deviation of the noise.

        Privacy: L2 sensitivity sqrt(most) (`items_l2`), since at most `most` items of a basket count, by one each.
        """
        sensitivity = self._adjacency.items_l2(min(most, len(items)))
        sigma, _ = self._noise(share, sensitivity)
        question = f"support of {format_count(len(items), 'item')}"
        charge = self._charge("marginals", question, sensitivity, [sigma], len(items))
        (released,) = self._release(charge, [self._baskets.counts(items, most)])
        return released, sigma

    def pairs(self, items: Sequence[str], most: int, share: float) -> tuple[Array, float]:
        """Return the noisy support of each item pair, as an upper triangular matrix, and its standard deviation.

        Privacy: L2 sensitivity `pairs_l2`, since a basket changes at most most (most - 1) / 2 counts of pairs by one.
        """
        sensitivity = self._adjacency.pairs_l2(min(most, len(items)))
        sigma, _ = self._noise(share, sensitivity)
        upper = np.triu_indices(len(items), 1)
        question = f"support of {format_count(len(upper[0]), 'item pair')}"
        charge = self._charge("marginals", question, sensitivity, [sigma], max(len(upper[0]), 1))
        (released,) = self._release(charge, [self._baskets.pairs(items, most)[upper]])
        made = np.zeros((len(items), len(items)))
        made[upper] = released
        return made, sigma

    def bases(self, bases: Sequence[Sequence[str]], share: float) -> tuple[list[Array], float]:
        """Return a noisy contingency table for each item set, and the standard deviation of the noise per cell.

        Privacy: L2 sensitivity `marginal_l2` for each table, as in `Curator.measure`: a basket adds one to exactly one
        cell of each table, whatever and however much it holds, so no items need to be left out.
        """
        sensitivity = self._adjacency.marginal_l2()
        sigma, _ = self._noise(share / len(bases), sensitivity)
        cells = sum(1 << len(basis) for basis in bases)
        question = f"contingency tables of {format_count(len(bases), 'item set')}"
        charge = self._charge("marginals", question, sensitivity, [sigma] * len(bases), cells)
        return self._release(charge, [self._baskets.table(basis) for basis in bases]), sigma


@dataclass(frozen=True)
class BasketTable:
    """A table of baskets, ready to be queried once a ledger is open."""

    source: Any
    form: BasketForm
    dialect: Dialect = DEFAULT_DIALECT
    listener: Listener = ignore_event

    @property
    def facts(self) -> dict[str, Any]:
        """Fields about the table for the journal."""
        return {"source": source_name(self.source), "identity": table_identity(self.source), "method": "itemsets"}

    def read(self) -> Baskets:
        """Read the baskets; unreadable input is refused here, before anything is charged."""
        return open_baskets(self.source, self.form, BATCH_ROWS, self.dialect, self.listener)
