"""Values of a number within its coarse codes, given the category that they depend on most.

A model relates coarse codes only, so a price would be drawn from its code alike for all products. Where one other
attribute was measured together with fine cells of the number, the cell is drawn given that attribute.

Privacy: post-processing of released measurements and sampled records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weft.marginals.marginal import Array
from weft.marginals.records import Codes
from weft.marginals.value_groups import ValueMap


@dataclass(frozen=True)
class GivenCategory:
    """How the values of an attribute's merged codes are distributed over cells, given the code of another attribute."""

    other: str
    cells: Array
    """Cell of each original code; the codes of a cell share their merged code."""
    shares: Array
    """For each code of the other attribute: the share of each cell in its merged code."""

    def unfold(self, merged: ValueMap, codes: Codes, others: Codes, rng: np.random.Generator) -> Codes:
        """Draw the original codes of records, given their merged codes and the codes of the other attribute."""
        (sizes, cells), groups = self.shares.shape, self._groups(merged)
        both = np.arange(sizes)[:, None]
        drawn = ValueMap((both * merged.size + groups).ravel(), sizes * merged.size, self.shares.ravel()).unfold(
            others.astype(np.int64) * merged.size + codes, rng
        )
        return ValueMap(self.cells, cells, merged.counts).unfold(drawn % cells, rng)

    def weights(self, merged: ValueMap) -> Array:
        """Return the share of each original code in its merged code, for each code of the other attribute."""
        inside = ValueMap(self.cells, self.shares.shape[1], merged.counts).shares()
        return np.asarray(self.shares[:, self.cells] * inside)

    def given_evidence(self, merged: ValueMap, parts: Array) -> GivenCategory:
        """Return the distribution under evidence: `parts` are the weights of the original codes."""
        before, after = (np.bincount(self.cells, each, self.shares.shape[1]) for each in (merged.shares(), parts))
        kept = self.shares * np.where(before > 0, after / np.maximum(before, 1e-300), 0.0)
        return replace(self, shares=normalise_cells(kept, after, self._groups(merged), merged.size))

    def _groups(self, merged: ValueMap) -> Array:
        return merged.codes[np.unique(self.cells, return_index=True)[1]]


def normalise_cells(table: Array, default: Array, groups: Array, size: int) -> Array:
    """Divide the cells of each row by the sum of their group; a group whose sum is 0 gets that of `default`."""
    member = np.zeros((len(groups), size))
    member[np.arange(len(groups)), groups] = 1
    filled = np.where((table @ member)[:, groups] > 1e-12, table, default)
    sums = (filled @ member)[:, groups]
    return np.asarray(np.where(sums > 0, filled / np.maximum(sums, 1e-300), 1 / member.sum(axis=0)[groups]))
