"""Few records, each of which stands for many: a distribution on atoms, spread a little over other values.

What methods leave that make records one by one. Every attribute of a drawn record keeps its code with one chance for
all, and has else a code drawn evenly; so that no combination is impossible only because there are few atoms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np

from weft.marginals.domain import Domain, clique
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.models import stored
from weft.models.apportion import apportion
from weft.models.evidence import Evidence, Impossible, Sampler
from weft.progress import Listener, silence

MOST_ATOMS = 1 << 20
"""Records that a model file may hold."""


@dataclass(frozen=True)
class AtomsModel:
    """Records that are equally likely, each spread over other values.

    >>> model = AtomsModel(Domain(("a",), (2,)), 100.0, np.array([[0], [0], [1]]), keep=0.8)
    >>> model.marginal(["a"]).round(1).tolist()
    [63.3, 36.7]
    """

    kind: ClassVar[str] = "atoms"
    fixed_records: ClassVar[bool] = False
    relates_columns: ClassVar[bool] = True

    domain: Domain
    total: float
    atoms: Array
    """Codes, one line a record, one column an attribute in the domain's order."""
    keep: float = 1.0
    """The chance of a value to stay as it is."""

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return expected counts, exactly: a sum over records of products over columns."""
        names = clique(columns)
        spread = [self._spread(name) for name in names]
        first, rest = (self._beside(spread[: len(names) // 2]), self._beside(spread[len(names) // 2 :]))
        return np.asarray((first.T @ rest).reshape(self.domain.sizes(names)) * (self.total / len(self.atoms)))

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = silence) -> Records:
        """Make n records: each atom as often as any other, to the nearest record."""
        return _Drawn(self, np.ones(len(self.atoms))).sample(n, rng, listener)

    def conditioned(self, evidence: Evidence) -> Sampler:
        """Return what draws exactly under evidence: atoms by how likely they are to give it, then their values."""
        weights = np.ones(len(self.atoms))
        for name, wanted in evidence.items():
            weights *= self._spread(name) @ wanted
        if not weights.any():
            raise Impossible("no record is possible under these conditions; relax one of them")
        return _Drawn(self, weights, evidence)

    def _spread(self, name: str) -> Array:
        """Return the distribution of an attribute in each atom."""
        size = self.domain.size(name)
        table = np.full((len(self.atoms), size), (1 - self.keep) / size)
        table[np.arange(len(self.atoms)), self.atoms[:, self.domain.index(name)]] += self.keep
        return table

    def _beside(self, spread: Sequence[Array]) -> Array:
        """Return the distribution of several attributes in each atom, the last varies fastest."""
        start = np.ones((len(self.atoms), 1))
        return reduce(lambda one, other: (one[:, :, None] * other[:, None, :]).reshape(len(one), -1), spread, start)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what a model file keeps."""
        columns = {f"column-{i}": column.astype(np.int64) for i, column in enumerate(self.atoms.T)}
        return {"total": self.total, "keep": self.keep, "atoms": len(self.atoms)}, columns

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the model."""
        many = stored.whole(meta, "atoms", 1, MOST_ATOMS)
        columns = [stored.codes(arrays, f"column-{i}", many, size) for i, size in enumerate(domain.shape)]
        atoms = np.stack(columns, axis=1) if columns else np.zeros((many, 0), np.int64)
        return cls(domain, stored.total(meta), atoms, stored.number(meta, "keep", 0.0, 1.0))


@dataclass(frozen=True)
class _Drawn:
    """Draws records of atoms with these weights, under evidence."""

    model: AtomsModel
    weights: Array
    evidence: Evidence = field(default_factory=dict)

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = silence) -> Records:
        """Make n records."""
        model = self.model
        chosen = rng.permutation(np.repeat(np.arange(len(model.atoms)), apportion(self.weights, n, rng)))
        columns = []
        for i, (name, size) in enumerate(zip(model.domain.names, model.domain.shape, strict=True)):
            wanted = self.evidence.get(name, np.ones(size))
            codes = model.atoms[chosen, i]
            stays = model.keep * wanted[codes]
            moves = (1 - model.keep) * wanted.mean()
            other = rng.choice(size, n, p=wanted / wanted.sum())
            columns.append(np.where(rng.random(n) * (stays + moves) < stays, codes, other))
        return Records.of(model.domain, columns)
