"""A small generator network: normal numbers in, a distribution for each column out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from weft.marginals.counting import count
from weft.marginals.domain import Domain, clique
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.models import stored
from weft.progress import Listener, silence

COUNTED = 1 << 15
"""Records on which marginals are counted."""

MOST_UNITS = 1 << 12
"""Units of a layer in a model file."""

_ROWS = 1 << 12
"""Records made in one go."""


@dataclass(frozen=True)
class GeneratorModel:
    """One hidden layer of tanh units, then a softmax for each column, from which its code is drawn."""

    kind: ClassVar[str] = "generator"
    fixed_records: ClassVar[bool] = False
    relates_columns: ClassVar[bool] = True

    domain: Domain
    total: float
    into: Array
    """Weights from normal numbers to hidden units."""
    out: Array
    """Weights from hidden units, and a last line that is always on, to the codes of all columns end to end."""

    @cached_property
    def ends(self) -> Array:
        """Where the codes of each column end."""
        return np.cumsum(self.domain.shape)

    def hidden(self, normal: Array) -> Array:
        """Return the hidden units, and a one."""
        return np.column_stack([np.tanh(normal @ self.into), np.ones(len(normal))])

    def chances(self, hidden: Array) -> list[Array]:
        """Return the distribution of each column."""
        made = []
        for logits in np.split(hidden @ self.out, self.ends[:-1], axis=1):
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            made.append(weights / weights.sum(axis=1, keepdims=True))
        return made

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Return codes of n records, one a line."""
        pieces = [np.zeros((0, len(self.domain)), np.int64)]
        for start in range(0, n, _ROWS):
            rows = min(_ROWS, n - start)
            chances = self.chances(self.hidden(rng.standard_normal((rows, len(self.into)))))
            at = [(rng.random((rows, 1)) > np.cumsum(c, axis=1)).sum(axis=1) for c in chances]
            pieces.append(np.minimum(np.column_stack(at), np.array(self.domain.shape) - 1))
        return np.concatenate(pieces)

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = silence) -> Records:
        """Make n records."""
        return Records.of(self.domain, list(self.draw(n, rng).T))

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return expected counts, as counted on records that are always the same."""
        return self.answered(columns)[0]

    def answered(self, columns: Sequence[str]) -> tuple[Array, int]:
        """Return the same, and on how many records it was counted."""
        return count(self._records, [clique(columns)])[0] * (self.total / COUNTED), COUNTED

    @cached_property
    def _records(self) -> Records:
        return self.sample(COUNTED, np.random.default_rng(0))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what a model file keeps."""
        return {"total": self.total, "normal": len(self.into), "hidden": len(self.out) - 1}, {
            "into": self.into,
            "out": self.out,
        }

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the model."""
        normal, hidden = (stored.whole(meta, name, 1, MOST_UNITS) for name in ("normal", "hidden"))
        into = stored.table(arrays, "into", (normal, hidden), -stored.STEEPEST, stored.STEEPEST)
        out = stored.table(arrays, "out", (hidden + 1, sum(domain.shape)), -stored.STEEPEST, stored.STEEPEST)
        return cls(domain, stored.total(meta), into, out)
