"""Model of independent attributes: one distribution per attribute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np

from weft.marginals.domain import Domain, make_clique
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.models import stored_arrays as stored
from weft.models.apportion import apportion_records
from weft.models.conditional import Evidence, ImpossibleEvidenceError, Sampler
from weft.progress import Listener, ignore_event


@dataclass(frozen=True)
class IndependentModel:
    """One table of expected counts per attribute, in the domain's order, all with the same total."""

    kind: ClassVar[str] = "independent"
    fixed_records: ClassVar[bool] = False
    relates_columns: ClassVar[bool] = False

    domain: Domain
    total: float
    tables: tuple[Array, ...]

    def __post_init__(self) -> None:
        if tuple(len(table) for table in self.tables) != self.domain.shape:
            raise ValueError("an independent model needs one table of matching size per attribute")

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return the product of the one-way distributions, scaled to the total."""
        shares = [self.tables[self.domain.index(name)] / self.total for name in make_clique(columns)]
        return self.total * reduce(np.multiply.outer, shares, np.ones(()))

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Sample n records: each attribute matches its table up to rounding and is shuffled independently."""
        return Records.of(
            self.domain,
            [rng.permutation(np.repeat(np.arange(len(t)), apportion_records(t, n, rng))) for t in self.tables],
        )

    def conditioned(self, evidence: Evidence) -> Sampler:
        """Return the model with each table weighted by its evidence; exact because attributes are independent."""
        tables = [
            table * evidence[name] if name in evidence else table
            for name, table in zip(self.domain, self.tables, strict=True)
        ]
        if any(not table.any() for table in tables):
            raise ImpossibleEvidenceError("no record is possible under these conditions; relax one of them")
        return replace(self, tables=tuple(tables))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the concatenated tables."""
        return {"total": self.total}, {"tables": np.concatenate(self.tables) if self.tables else np.zeros(0)}

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Split the concatenated tables."""
        tables = stored.end_to_end(arrays, "tables", [(size,) for size in domain.shape], 0.0)
        return cls(domain, stored.read_total(meta), tuple(tables))
