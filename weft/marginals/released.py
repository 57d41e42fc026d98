"""Noisy tables as they were released, in the codes they were asked in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, NoisyMarginal


@dataclass(frozen=True)
class Released:
    """A noisy table, and the groups of codes that it was counted in."""

    noisy: NoisyMarginal
    coding: Mapping[str, Array] = field(default_factory=dict)
    """For attributes whose codes had been merged before: the code that each of the schema's codes had become."""

    @property
    def clique(self) -> Clique:
        """The attributes of the table, sorted."""
        return self.noisy.clique

    def size(self, name: str) -> int:
        """Return how many codes an attribute had when the table was asked."""
        return int(self.noisy.table.shape[self.clique.index(name)])

    def codes(self, name: str, size: int) -> Array:
        """Return the code of each of the `size` codes that the schema gives an attribute."""
        return self.coding.get(name, np.arange(size))

    def fits(self, domain: Domain) -> bool:
        """Whether it is a table over attributes of this domain, in its codes or in groups of them."""
        return all(
            name in domain and (len(self.coding[name]) if name in self.coding else self.size(name)) == domain.size(name)
            for name in self.clique
        )

    @property
    def total_variance(self) -> float:
        """Variance of the sum of all cells."""
        return math.prod(self.noisy.table.shape) * self.noisy.sigma**2
