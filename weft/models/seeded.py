"""Records that seeds were asked for, released: they are what was paid for, and there are no more of them.

Those for which no seed could be had were drawn whole; which these are is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from weft.errors import MethodError, ModelFileError
from weft.marginals.counting import count
from weft.marginals.domain import Domain, clique
from weft.marginals.marginal import Array
from weft.marginals.records import Records, code_dtype
from weft.progress import Listener, silence


@dataclass(frozen=True)
class SeededModel:
    """A fixed set of released records. They are handed out as they are, in a random order, at most all of them."""

    kind: ClassVar[str] = "seeded"
    fixed_records: ClassVar[bool] = True
    relates_columns: ClassVar[bool] = True

    records: Records
    deniable: bool = False
    """Whether these records are plausible to deny and no more: NOT differentially private."""

    @property
    def domain(self) -> Domain:
        """The attributes of the records."""
        return self.records.domain

    @property
    def total(self) -> float:
        """The number of records: as many as were asked for, which tells nothing of the table."""
        return float(len(self.records))

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return the records' own counts."""
        (table,) = count(self.records, [clique(columns)])
        return table.astype(np.float64)

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = silence) -> Records:
        """Hand out n of the records."""
        if n > len(self.records):
            raise MethodError(
                f"there are {len(self.records):,} records, as many as were asked for when the model was fitted, and no "
                "more: ask for at most so many, fit again with a larger --rows (in Python, rows), or leave out omega, "
                "which draws as many as are wanted"
            )
        return self.records.take(rng.permutation(len(self.records))[:n])

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the columns."""
        meta = {"guarantee": "plausible deniability, not differential privacy"} if self.deniable else {}
        return meta, {f"column-{i}": column for i, column in enumerate(self.records.columns)}

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild from the columns; codes outside the domain are refused."""
        try:
            columns = tuple(arrays[f"column-{i}"] for i in range(len(domain)))
            if any(
                column.ndim != 1 or column.dtype != code_dtype(size) or int(column.max(initial=0)) >= size
                for column, size in zip(columns, domain.shape, strict=True)
            ):
                raise ValueError("a column does not fit its attribute")
            if not len(columns[0]):
                raise ValueError("there are no records")
            return cls(Records(domain, columns), "guarantee" in meta)
        except (KeyError, ValueError) as error:
            raise ModelFileError(f"the model file's records are damaged ({error}); fit it again") from error
