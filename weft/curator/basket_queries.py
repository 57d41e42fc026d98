"""Questions about baskets of items: which items are common, and in how many baskets they are, alone and together.

The privacy unit is a basket. It may hold any number of items, so what it adds to many counts at once is bounded by
letting at most so many of its items count, chosen at random in each basket by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.curator.query_base import QueryBase
from weft.display import format_count
from weft.engines import BATCH_ROWS
from weft.engines.basket_rows import BasketForm as BasketForm
from weft.engines.basket_rows import list_columns as list_columns
from weft.engines.basket_rows import open_baskets
from weft.engines.sources import source_name, table_identity
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.marginals.marginal import Array
from weft.privacy import Charge, Ledger
from weft.privacy.mechanisms import Release
from weft.privacy.partitions import unpack_value_counts
from weft.progress import Listener, ignore_event

if TYPE_CHECKING:
    from weft.engines.basket_rows import Baskets


class BasketCurator(QueryBase):
    """Answer queries on baskets, each for a share of the whole budget (`QueryBase`); all noise is Gaussian."""

    def __init__(self, baskets: Baskets, ledger: Ledger, release: Release) -> None:
        super().__init__(baskets, ledger, release)  # type: ignore[arg-type]
        self._require_gaussian("baskets are counted")
        self._baskets = baskets

    def baskets(self, share: float) -> tuple[int, float]:
        """Release the number of baskets with noise, and its standard deviation.

        Theorem. A basket more or less moves it by one (`total`).
        """
        sigma, _ = self._noise(share, self._adjacency.total())
        charge = self._charge("total", "number of baskets", self._adjacency.total(), [sigma], draws=1)
        (released,) = self._release(charge, [np.array(self._baskets.baskets, np.int64)])
        return int(released), sigma

    def common_items(self, share: float, slack: float, most: int) -> list[str]:
        """Release the items that many baskets hold, where nobody has listed them.

        Theorem (`weft.privacy.partitions`). At most `most` different items of a basket count, each once, so that a
        basket moves the counts of all items that either of two neighbours has by at most `items_l2` in L2 norm. An item
        that one basket alone holds has a count of one; of j such items, at most `most`, some passes the threshold with
        a chance of at most the slack, since that of `most` rows of one unit is no smaller.
        """
        sensitivity = self._adjacency.items_l2(most)
        sigma, _ = self._noise(share, sensitivity)
        charge = Charge.partitions(
            "common items", sensitivity=sensitivity, scale=sigma, columns=1, rows=most, slack=slack
        )
        charge = self._enter(replace(charge, purpose="discovery"))
        return list(unpack_value_counts(self._release(charge, self._baskets.listed(most))))

    def items(self, items: Sequence[str], most: int, share: float) -> tuple[Array, float]:
        """Release in how many baskets each of these items is, with noise of the standard deviation returned.

        Theorem. At most `most` of the items count of a basket, one each: a basket moves so many counts by one,
        sqrt(most) in L2 norm (`items_l2`).
        """
        sensitivity = self._adjacency.items_l2(min(most, len(items)))
        sigma, _ = self._noise(share, sensitivity)
        question = f"support of {format_count(len(items), 'item')}"
        charge = self._charge("marginals", question, sensitivity, [sigma], len(items))
        (released,) = self._release(charge, [self._baskets.counts(items, most)])
        return released, sigma

    def pairs(self, items: Sequence[str], most: int, share: float) -> tuple[Array, float]:
        """Release in how many baskets each two of these items are, as the upper part of a matrix, and the noise on it.

        Theorem. At most `most` of the items count of a basket, which has then at most most (most - 1) / 2 pairs and
        moves as many counts by one (`pairs_l2`).
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
        """Release, for each set of items, how many baskets hold which of them; and the noise on every cell.

        Theorem. That of `Curator.measure`: a basket adds one to exactly one cell of each table, whatever it holds and
        however much, so nothing is left out (`marginal_l2`).
        """
        sensitivity = self._adjacency.marginal_l2()
        sigma, _ = self._noise(share / len(bases), sensitivity)
        cells = sum(1 << len(basis) for basis in bases)
        question = f"contingency tables of {format_count(len(bases), 'item set')}"
        charge = self._charge("marginals", question, sensitivity, [sigma] * len(bases), cells)
        return self._release(charge, [self._baskets.table(basis) for basis in bases]), sigma


@dataclass(frozen=True)
class BasketTable:
    """A table of baskets that may be asked, once a ledger is there to pay."""

    source: Any
    form: BasketForm
    dialect: Dialect = DEFAULT_DIALECT
    listener: Listener = ignore_event

    @property
    def facts(self) -> dict[str, Any]:
        """What a journal tells of the table."""
        return {"source": source_name(self.source), "identity": table_identity(self.source), "method": "itemsets"}

    def read(self) -> Baskets:
        """Read the baskets; whatever cannot be read is refused here, before anything is charged."""
        return open_baskets(self.source, self.form, BATCH_ROWS, self.dialect, self.listener)
