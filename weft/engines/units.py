"""The privacy unit: keep at most so many rows of each person, before anything is counted.

The argument. Each row gets a random key, independent of everything else, and a unit keeps the rows with its
smallest keys; no other unit has a say. So with the keys of the shared rows held fixed, adding or removing a unit
leaves the kept rows of all others as they were, and adds or removes at most `most` rows: the sensitivity of one
row grows by that factor and no more. The choice is made once, when the table is opened, so all questions see
the same kept rows. The guarantee does not rest on the keys being secret (any choice inside each unit that looks
at no other unit would do); they are random so that the kept rows are a fair sample of the unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class Units:
    """Gathers the unit column while a table is read, then says which rows stay."""

    column: str | None
    """Name of the unit column; None: every row is a unit, and all stay."""

    most: int
    """Rows of one unit that stay."""

    chunks: list[pa.Array] = field(default_factory=list)

    def beside(self, names: Sequence[str]) -> list[str]:
        """Return these column names, with the unit's among them."""
        return [*names] if self.column is None or self.column in names else [*names, self.column]

    def see(self, batch: pa.RecordBatch) -> None:
        """Note the units of the next rows."""
        if self.column is not None:
            self.chunks.append(batch.column(self.column))

    def keep(self, rng: np.random.Generator) -> NDArray[np.bool_] | None:
        """Mark the rows that stay, by position; None: all."""
        return None if self.column is None else keep_rows(unit_codes(self.chunks), self.most, rng)


def unit_codes(chunks: Sequence[pa.Array]) -> NDArray[np.int64]:
    """Number the units of a column given in pieces: equal numbers for equal values, and for no others.

    Rows whose unit is missing all get one number, as if they were one person's. That is the safe reading: nobody
    can then be present in more rows than the limit by leaving the id empty.
    """
    if not sum(map(len, chunks)):
        return np.empty(0, np.int64)
    coded = pa.chunked_array(map(_plain, chunks)).dictionary_encode().unify_dictionaries()
    return np.concatenate([chunk.indices.fill_null(-1).to_numpy().astype(np.int64) for chunk in coded.chunks])


def _plain(chunk: pa.Array) -> pa.Array:
    if not isinstance(chunk, pa.DictionaryArray):
        return chunk
    values = chunk.dictionary
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())  # Arrow cannot pick from views
    return values.take(chunk.indices)


def keep_rows(units: NDArray[np.int64], most: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mark at most `most` rows of each unit, a uniformly random choice in each.

    >>> keep = keep_rows(np.array([0, 1, 0, 0, 1]), 2, np.random.default_rng(1))
    >>> int(keep[[0, 2, 3]].sum()), keep[[1, 4]].tolist()
    (2, [True, True])
    """
    keep = np.zeros(len(units), np.bool_)
    if not len(units):
        return keep
    order = np.lexsort((rng.random(len(units)), units))
    first = np.r_[True, np.diff(units[order]) != 0]
    start = np.maximum.accumulate(np.where(first, np.arange(len(units)), 0))
    keep[order[np.arange(len(units)) - start < most]] = True
    return keep
