"""What weave believes of the pairs that it has measured: something between the answer and what was expected of it.

Noise moves most cells of a measured pair farther than the truth is from the model that was there before. So a pair is
shrunk towards what was expected of it (`weft.marginals.shrinkage`), and the menu knows that: a pair that is measured
with much noise is worth a little, never less than nothing, and more pairs are within reach. Tables with fewer than
three numbers of their own, as pairs of binary columns, are believed as they are: there is too little in one to tell
its spread from its noise (from three on, James and Stein's estimator is the better one). So are larger
cliques: what is beyond pairs is in few cells, and shrinking it lost (decision 019).
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
"""Numbers that a table tells by itself, below which it is believed as it is."""


@dataclass
class PairShrinkage:
    """What was expected of pairs before they were measured, and how far off that turned out to be."""

    shrink: bool = True
    _expected: dict[Clique, Array] = field(default_factory=dict, init=False)
    _off: dict[Clique, float] = field(default_factory=dict, init=False)
    _seen: dict[Clique, tuple[NoisyMarginal, NoisyMarginal]] = field(default_factory=dict, init=False)

    def expect(self, tables: Mapping[Clique, Array]) -> None:
        """Remember what a model says of pairs that are about to be measured for the first time."""
        if self.shrink:
            self._expected = {**{c: t for c, t in tables.items() if len(c) == 2}, **self._expected}

    def of(self, measured: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
        """Return what is believed of each table; the noise that is stated stays that of the measurement."""
        return [self._one(m) if m.clique in self._expected else m for m in measured]

    def _one(self, m: NoisyMarginal) -> NoisyMarginal:
        seen = self._seen.get(m.clique)
        if seen is None or seen[0] is not m:  # most tables are as they were when the last batch was taken
            seen = self._seen[m.clique] = (m, self._shrunk(m))
        return seen[1]

    def _shrunk(self, m: NoisyMarginal) -> NoisyMarginal:
        expected = self._expected[m.clique]
        part = compute_interaction_norm(expected.shape, m.order)
        if not _is_shrinkable(part, expected.size, m.clique):
            return m
        # As James and Stein have it: of k numbers that tell their own spread, two are lost in telling it.
        noise = m.sigma * math.sqrt(part * (1 - 2 / (part * expected.size)))
        mean = compute_interaction(expected, m.order) / expected.size if m.order else expected
        difference = shrink_difference(m.table - mean, expected, noise)
        self._off[m.clique] = float(np.abs(difference).sum())
        return replace(m, table=mean + difference)

    def errors_known(self, tables: Mapping[Clique, Array], parts: Array, noise: Array) -> Array:
        """Return the expected L1 error of tables that were measured, for each noise (table x level).

        `parts` are what was asked of each (`unknown_part`), `noise` is what is left on a cell of that.
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
        """Return the expected L1 error of candidates, if they are measured; `outlook` is what a model says of them."""
        plain = compute_projected_error(outlook, noise, whole=np.isclose(parts, 1))
        sizes = outlook.cells.sum(axis=1)
        shrunk = [i for i, c in enumerate(cliques) if self.shrink and _is_shrinkable(float(parts[i, 0]), sizes[i], c)]
        if shrunk:
            some = Profile(outlook.cells[shrunk], outlook.counts[shrunk])
            plain[shrunk] = np.minimum(plain[shrunk], compute_shrinkage_error(some, gaps[shrunk], noise[shrunk]))
        return plain


def _is_shrinkable(part: float, cells: float, c: Clique) -> bool:
    return len(c) == 2 and part * cells >= MIN_DEGREES_OF_FREEDOM
