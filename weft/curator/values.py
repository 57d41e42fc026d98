"""Questions about columns of which nobody has said what they may hold: how many values, and which are common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from weft.curator.door import Door
from weft.privacy import Charge, Ledger
from weft.privacy.mechanisms import Release
from weft.privacy.partitions import ARRAYS, unpacked
from weft.words import counted

if TYPE_CHECKING:
    from weft.engines.listing import Listing


class ValueCurator(Door):
    """Answers questions about values as they are written, for a price: a share of the whole budget (`Door`)."""

    def __init__(self, listing: Listing, ledger: Ledger, release: Release, whole: float = 1.0) -> None:
        super().__init__(listing, ledger, release, whole)  # type: ignore[arg-type]
        self._listing = listing

    def distinct(self, columns: Sequence[str], share: float) -> list[int]:
        """Release how many different values each column has, with noise; missing ones are none.

        Theorem. A unit's rows come or go with at most `distinct` values of a column, so that a column's number moves by
        no more. Each column is a table of one cell, and the rho_i (or epsilon_i) add up to the share.
        """
        if not columns:
            return []
        scale, _ = self._noise(share / len(columns), self._adjacency.distinct())
        question = f"number of different values of {counted(len(columns), 'column')}"
        charge = self._charge(
            "discovery", question, self._adjacency.distinct(), [scale] * len(columns), draws=len(columns)
        )
        listed = self._listing.values(columns)
        released = self._release(charge, [np.array([len(listed[name][0])]) for name in columns])
        return [int(number[0]) for number in released]

    def values(self, columns: Sequence[str], share: float, slack: float) -> list[dict[str, int]]:
        """Release the values of each column that many rows share, with their noisy counts; `slack` is for all together.

        Theorem (`weft.privacy.partitions`). A unit moves the counts of a column's values, taken over all values that
        either of two neighbouring tables has, by at most `marginal_l2` in L2 norm. Gaussian noise sigma on them is
        `marginal_l2`/sigma-GDP, and the columns' rho add up to the share. That values without a row are left out shows
        only if a value that one unit alone has passes the threshold, with a chance of at most slack over the number of
        columns for each: the release is within `slack` of one that costs the share.
        """
        if not columns:
            return []
        sensitivity, rows = self._adjacency.marginal_l2(), self._adjacency.rows_per_unit
        sigma, _ = self._noise(share / len(columns), sensitivity)
        charge = Charge.partitions(
            f"common values of {counted(len(columns), 'column')}",
            sensitivity=sensitivity,
            scale=sigma,
            columns=len(columns),
            rows=rows,
            slack=slack,
        )
        charge = self._enter(replace(charge, purpose="discovery"))
        listed = self._listing.values(columns)
        released = self._release(charge, [array for name in columns for array in listed[name]])
        return [unpacked(released[i : i + ARRAYS]) for i in range(0, len(released), ARRAYS)]
