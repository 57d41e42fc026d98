"""Questions about privacy units: how many rows each has."""

from __future__ import annotations

from weft.curator.door import Door
from weft.marginals.marginal import Array

MOST_ROWS = 256
"""Rows of a unit that are told apart; those with more are counted with these."""


class UnitQuestions(Door):
    """The curator's questions about units."""

    def rows_per_unit(self, share: float) -> Array:
        """Release how many units have 1, 2, ... rows, with noise; the last number is of those with so many or more.

        Theorem. A unit has one number of kept rows and adds one to one cell, whatever its rows are, and no other unit's
        number changes with it (`weft.engines.units`): one unit more or less moves one cell by one (`units_l2`,
        `units_l1`: sensitivity 1), a replaced one two cells (sqrt 2, and 2). It is this that the noise is scaled by,
        not the rows of a unit.
        """
        pure = self.accounting == "pure"
        sensitivity = self._adjacency.units_l1() if pure else self._adjacency.units_l2()
        scale, _ = self._noise(share, sensitivity)
        most = min(self._adjacency.rows_per_unit, MOST_ROWS)
        charge = self._charge("units", "how many rows a unit has", sensitivity, [scale], draws=most)
        sizes = self._engine.unit_sizes(self._adjacency.rows_per_unit)
        sizes[most - 1] = sizes[most - 1 :].sum()
        (released,) = self._release(charge, [sizes[:most]])
        return released
