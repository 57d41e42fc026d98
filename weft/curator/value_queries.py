"""Questions about columns of which nobody has said what they may hold: how many values, and which are common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from weft.curator.query_base import QueryBase
from weft.display import format_count
from weft.marginals.marginal import Array
from weft.privacy import Charge, Ledger
from weft.privacy.mechanisms import Release
from weft.privacy.partitions import ARRAYS, unpack_value_counts

if TYPE_CHECKING:
    from weft.engines.value_listing import Listing


class ValueCurator(QueryBase):
    """Answers questions about values as they are written, for a price: a share of the whole budget (`QueryBase`)."""

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
        question = f"number of distinct values of {format_count(len(columns), 'column')}"
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
            f"common values of {format_count(len(columns), 'column')}",
            sensitivity=sensitivity,
            scale=sigma,
            columns=len(columns),
            rows=rows,
            slack=slack,
        )
        charge = self._enter(replace(charge, purpose="discovery"))
        listed = self._listing.values(columns)
        released = self._release(charge, [array for name in columns for array in listed[name]])
        return [unpack_value_counts(released[i : i + ARRAYS]) for i in range(0, len(released), ARRAYS)]


# Questions about privacy units: how many rows each has.

MAX_UNIT_SIZE = 256
"""Rows of a unit that are told apart; those with more are counted with these."""


class UnitQuestions(QueryBase):
    """The curator's questions about units."""

    def rows_per_unit(self, share: float) -> Array:
        """Release how many units have 1, 2, ... rows, with noise; the last number is of those with so many or more.

        Theorem. A unit has one number of kept rows and adds one to one cell, whatever its rows are, and no other unit's
        number changes with it (`weft.engines.privacy_units`): one unit more or less moves one cell by one (`units_l2`,
        `units_l1`: sensitivity 1), a replaced one two cells (sqrt 2, and 2). It is this that the noise is scaled by,
        not the rows of a unit.
        """
        sensitivity = self._adjacency.units(self.accounting.counts.norm)
        scale, _ = self._noise(share, sensitivity)
        most = min(self._adjacency.rows_per_unit, MAX_UNIT_SIZE)
        charge = self._charge("units", "rows per privacy unit", sensitivity, [scale], draws=most)
        sizes = self._engine.unit_sizes(self._adjacency.rows_per_unit)
        sizes[most - 1] = sizes[most - 1 :].sum()
        (released,) = self._release(charge, [sizes[:most]])
        return released
