"""Merge the values of an attribute that noise would drown into one, and tell them apart again at the end.

PrivSyn, section 5.3: values whose noisy count is below a threshold (3 sigma in the paper) become
one "rare" value before pairs are measured. The map depends on a noisy table only and acts on each record
alone, so a recoded record still adds to one cell of every table: sensitivities stay what they were.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weft.marginals.marginal import Array, NoisyMarginal
from weft.marginals.records import Codes, code_dtype


@dataclass(frozen=True)
class ValueMap:
    """A recoding of one attribute: kept values first, in their order, then one code for all merged ones."""

    codes: Array
    """New code of each old code."""
    size: int
    """Number of new codes."""
    counts: Array
    """Noisy counts of the old codes, negative ones cut to zero: how merged values are told apart again."""

    @property
    def merged(self) -> Array:
        """Old codes that share the last new code; empty if nothing was merged."""
        if self.size == self.codes.size:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.codes == self.size - 1)

    def fold(self, marginal: NoisyMarginal) -> NoisyMarginal:
        """Return an already released 1-way table in the new codes: counts of merged values add up, nothing is
        counted again.

        The merged cell is noisier than the others (`sds`), but a `NoisyMarginal` has one sigma. It gets the
        root mean square of its cells' deviations: that keeps the variance of the total, and so the table's
        weight in the common total, exact.
        """
        table = np.bincount(self.codes, weights=marginal.table, minlength=self.size)
        folded = table.astype(marginal.table.dtype)
        sigma = marginal.sigma * float(np.sqrt(self.codes.size / self.size))
        return replace(marginal, table=folded, sigma=sigma)

    def sds(self, sigma: float) -> Array:
        """Return the noise of each folded cell: sigma times the root of the number of values in it."""
        return sigma * np.sqrt(np.bincount(self.codes, minlength=self.size))

    def shares(self) -> Array:
        """Return the part of its new code that each old code gets back: 1 for kept values."""
        shared = (self.codes == self.size - 1) & (self.merged.size > 0)
        weights = np.where(shared, self.counts, 1.0)
        total = np.bincount(self.codes, weights=weights, minlength=self.size)
        even = 1 / np.bincount(self.codes, minlength=self.size)
        return np.where(total[self.codes] > 1e-300, weights / np.maximum(total, 1e-300)[self.codes], even[self.codes])

    def unfold(self, codes: Array, rng: np.random.Generator) -> Codes:
        """Return old codes; the merged one becomes a value drawn by noisy counts (uniform if all are 0)."""
        merged = self.merged
        old = np.zeros(self.size, dtype=code_dtype(self.codes.size))
        old[self.codes] = np.arange(self.codes.size)
        records = old[codes]
        if merged.size:
            rare = np.flatnonzero(np.asarray(codes) == self.size - 1)
            records[rare] = rng.choice(merged, size=rare.size, p=self.shares()[merged])
        return records


def merge_rare(marginal: NoisyMarginal, threshold: float) -> ValueMap:
    """Return the map that keeps values with a noisy count of at least `threshold` and merges all others.

    With fewer than two values below the threshold nothing is merged.
    """
    if marginal.table.ndim != 1:
        raise ValueError(f"values are merged by a 1-way table, not by one over {marginal.clique}")
    counts = np.maximum(marginal.table, 0).astype(np.float64)
    rare = marginal.table < threshold
    if np.count_nonzero(rare) < 2:
        return ValueMap(np.arange(counts.size), counts.size, counts)
    kept = int(counts.size - np.count_nonzero(rare))
    codes = np.where(rare, kept, np.cumsum(~rare) - 1)
    return ValueMap(codes, kept + 1, counts)
