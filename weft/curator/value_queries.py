"""Value and unit queries: distinct and common values of undeclared columns, and rows per privacy unit."""

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
    """Answers queries on values as written, each for a share of the whole budget (`QueryBase`)."""

    def __init__(self, listing: Listing, ledger: Ledger, release: Release, whole: float = 1.0) -> None:
        super().__init__(listing, ledger, release, whole)  # type: ignore[arg-type]
        self._listing = listing

    def distinct(self, columns: Sequence[str], share: float) -> list[int]:
        """Return the noisy number of distinct values of each column; missing values are not counted.

        Privacy: a unit's rows add or remove at most `distinct` values of a column, which is the sensitivity of each
        number. Each column is a table of one cell, and the rho_i (or epsilon_i) add up to the share.
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
        """Return the common values of each column with their noisy counts; `slack` covers all columns together.

        Privacy (`weft.privacy.partitions`): a unit changes the counts of a column's values, over all values of either
        of two neighbouring tables, by at most `marginal_l2` in L2 norm. Gaussian noise sigma on them is
        `marginal_l2`/sigma-GDP, and the columns' rho add up to the share. The omission of values without a row is
        visible only if a value that one unit alone has passes the threshold, with a probability of at most slack over
        the number of columns for each column: the release is within `slack` of one that costs the share.
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
        if self._bound is not None:
            charge = replace(charge, terms={**charge.terms, "bound": self._bound})
        charge = self._enter(replace(charge, purpose="discovery"))
        listed = self._listing.values(columns)
        released = self._release(charge, [array for name in columns for array in listed[name]])
        return [unpack_value_counts(released[i : i + ARRAYS]) for i in range(0, len(released), ARRAYS)]


MAX_UNIT_SIZE = 256
"""Largest number of rows per unit with its own cell; units with more rows are counted in this cell."""


class UnitQueries(QueryBase):
    """Queries on privacy units."""

    def rows_per_unit(self, share: float) -> Array:
        """Return the noisy number of units with 1, 2, ... rows; the last cell counts units with as many or more.

        Privacy: a unit has one number of kept rows and adds one to one cell, and does not affect other units' numbers
        (`weft.engines.privacy_units`): one unit more or less changes one cell by one (`units_l2`, `units_l1`:
        sensitivity 1), a replaced one two cells (sqrt 2, and 2). The noise is scaled by this, not by the rows per unit.
        """
        sensitivity = self._adjacency.units(self.accounting.counts.norm)
        scale, _ = self._noise(share, sensitivity)
        most = min(self._adjacency.rows_per_unit, MAX_UNIT_SIZE)
        charge = self._charge("units", "rows per privacy unit", sensitivity, [scale], draws=most)
        sizes = self._engine.unit_sizes(self._adjacency.rows_per_unit)
        sizes[most - 1] = sizes[most - 1 :].sum()
        (released,) = self._release(charge, [sizes[:most]])
        return released

    def unit_sigma(self, share: float) -> float:
        """Return the noise standard deviation of each number that `rows_per_unit` releases for this share."""
        return self._noise(share, self._adjacency.units(self.accounting.counts.norm))[1]

    def bound_contributions(self, rows: int) -> None:
        """Lower the contribution bound of all later queries, on tables opened with it, to a released number of rows.

        This curator's rows are truncated to the former bound, so it cannot be used any longer.
        """
        if self._bound is None:  # of one of several tables: each is opened with a bound of its own
            self._ledger.bound_contributions(rows)
        del self._engine
