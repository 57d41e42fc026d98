"""Empirical-Bayes shrinkage of measured pairs towards the model's estimate before the measurement.

Noise moves most cells of a measured pair farther than the distance between the data and the earlier model. A pair is
therefore shrunk towards its expected table (`weft.marginals.shrinkage`), and the selection takes this into account: a
noisy measurement of a pair gains a little and never loses, so more pairs are worth measuring. Tables with fewer than
three degrees of freedom, such as pairs of binary attributes, are not shrunk, since their variance cannot be estimated
(from three on, the James-Stein estimator dominates). Nor are larger cliques: their interaction terms beyond pairs are
in few cells, and shrinking them was worse (decision 019).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, NoisyMarginal, compute_interaction, compute_interaction_norm
from weft.marginals.noise_error import Profile, compute_projected_error, group_cells_by_size
from weft.marginals.shrinkage import compute_shrinkage_error, shrink_difference

MIN_DEGREES_OF_FREEDOM = 3
"""Minimum degrees of freedom of a table that is shrunk."""


@dataclass
class PairShrinkage:
    """Expected tables of pairs before their measurement, and their estimated distances from the data."""

    shrink: bool = True
    _expected: dict[Clique, Array] = field(default_factory=dict, init=False)
    _off: dict[Clique, float] = field(default_factory=dict, init=False)
    _seen: dict[Clique, tuple[NoisyMarginal, NoisyMarginal]] = field(default_factory=dict, init=False)

    def expect(self, tables: Mapping[Clique, Array]) -> None:
        """Store the model's tables of pairs that are about to be measured for the first time."""
        if self.shrink:
            self._expected = {**{c: t for c, t in tables.items() if len(c) == 2}, **self._expected}

    def of(self, measured: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
        """Return the shrunk measurements; their stated noise remains that of the measurement."""
        return [self._one(m) if m.clique in self._expected else m for m in measured]

    def _one(self, m: NoisyMarginal) -> NoisyMarginal:
        seen = self._seen.get(m.clique)
        if seen is None or seen[0] is not m:  # most measurements are unchanged since the last batch
            seen = self._seen[m.clique] = (m, self._shrunk(m))
        return seen[1]

    def _shrunk(self, m: NoisyMarginal) -> NoisyMarginal:
        expected = self._expected[m.clique]
        part = compute_interaction_norm(expected.shape, m.order)
        if not _is_shrinkable(part, expected.size, m.clique):
            return m
        # James-Stein: of k degrees of freedom, estimating the variance takes two.
        noise = m.sigma * math.sqrt(part * (1 - 2 / (part * expected.size)))
        mean = compute_interaction(expected, m.order) / expected.size if m.order else expected
        difference = shrink_difference(m.table - mean, expected, noise)
        self._off[m.clique] = float(np.abs(difference).sum())
        return replace(m, table=mean + difference)

    def errors_known(self, tables: Mapping[Clique, Array], parts: Array, noise: Array) -> Array:
        """Return the expected L1 error of measured tables for each noise level (table x level).

        `parts` are the measured shares of each (`compute_interaction_share`), `noise` is the noise left per cell.
        """
        plain = compute_projected_error(group_cells_by_size(list(tables.values())), noise, whole=np.isclose(parts, 1))
        shrunk = [i for i, c in enumerate(tables) if c in self._off]
        if shrunk:
            names = [list(tables)[i] for i in shrunk]
            before, off = (
                group_cells_by_size([self._expected[c] for c in names]),
                np.array([self._off[c] for c in names]),
            )
            plain[shrunk] = np.minimum(plain[shrunk], compute_shrinkage_error(before, off, noise[shrunk]))
        return plain

    def errors_new(self, outlook: Profile, cliques: Sequence[Clique], gaps: Array, parts: Array, noise: Array) -> Array:
        """Return the expected L1 error of candidates once measured; `outlook` has the model's tables of them."""
        plain = compute_projected_error(outlook, noise, whole=np.isclose(parts, 1))
        sizes = outlook.cells.sum(axis=1)
        shrunk = [i for i, c in enumerate(cliques) if self.shrink and _is_shrinkable(float(parts[i, 0]), sizes[i], c)]
        if shrunk:
            some = Profile(outlook.cells[shrunk], outlook.counts[shrunk])
            plain[shrunk] = np.minimum(plain[shrunk], compute_shrinkage_error(some, gaps[shrunk], noise[shrunk]))
        return plain


def _is_shrinkable(part: float, cells: float, c: Clique) -> bool:
    return len(c) == 2 and part * cells >= MIN_DEGREES_OF_FREEDOM
