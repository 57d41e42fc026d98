"""Records grown from seeds with a number of drawn attributes that is not told: a model with a likelihood.

A record keeps the first attributes of its seed in the network's order and has the last omega drawn, omega being one of
several numbers, evenly. Whoever sees a record does not see omega, so that a row that shares more of it is a likelier
seed: with s attributes shared from the first on, Pr{y = M(d)} is the mean, over the omegas, of the chance of y's last
omega attributes where m - omega <= s, and of 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array
from weft.models.bayesnet.model import BayesNet, Family


@dataclass(frozen=True)
class RandomOmega:
    """A network that completes seeds; rows and records have one column for each attribute of the network's order."""

    model: BayesNet
    omegas: Sequence[int]
    """Numbers of attributes that may be drawn."""

    @property
    def domain(self) -> Domain:
        """The attributes in the order in which they are kept and drawn."""
        return self.model.domain.project(self.model.order)

    def grow(self, seeds: Array, rng: np.random.Generator) -> Array:
        """Return a record for each seed, drawn independently."""
        records = np.array(seeds, np.int64)
        first = len(self.model.order) - rng.choice(np.asarray(self.omegas), len(records))
        for i, family in enumerate(self.model.families):
            ends = np.cumsum(family.table, axis=1)[self._group(family, records)]
            drawn = (ends < rng.random(len(records))[:, None] * ends[:, -1:]).sum(axis=1)
            records[:, i] = np.where(first <= i, drawn, records[:, i])
        return records

    def log_likelihood(self, records: Array, seeds: Array) -> Array:
        """Return the logarithm of each record's chance (lines) to come from each seed (columns)."""
        m = len(self.model.order)
        chances = [f.table[self._group(f, records), records[:, i]] for i, f in enumerate(self.model.families)]
        with np.errstate(divide="ignore"):
            # last[:, s]: the chance of all attributes from place s on, given those before.
            logs = np.log(np.column_stack([*chances, np.ones(len(records))]))
            last = np.cumsum(logs[:, ::-1], axis=1)[:, ::-1]
            places = [m - omega for omega in self.omegas]
            told = np.stack([np.exp(last[:, p, None]) * (np.arange(m + 1) >= p) for p in places]).mean(axis=0)
            told = np.log(told)
        shared = np.zeros((len(records), len(seeds)), np.int64)
        agree = np.ones(shared.shape, bool)
        for i in range(m):
            agree &= records[:, i, None] == seeds[None, :, i]
            shared += agree
        return np.asarray(np.take_along_axis(told, shared, axis=1))

    def _group(self, family: Family, records: Array) -> Array:
        """Return the configuration of an attribute's parents in each record."""
        group = np.zeros(len(records), np.int64)
        for name in family.parents:
            codes = records[:, self.model.order.index(name)]
            seen = self.model.buckets[name][codes] if name in self.model.buckets else codes
            group = group * self.model.width(name) + seen
        return group
