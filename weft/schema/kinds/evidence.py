"""What a draft knows of a column from its rows, and what a kind makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

FEW = 30
"""A wide whole-number column with at most this many different values is drafted as a category."""
MANY = 100
"""More texts than this are not listed without a word about it."""
VERY_MANY = 2_000
"""More texts than this are not listed: the commonest are, and another stands for the rest."""
COMMON = 200
"""How many are then listed."""
SPIKE = 0.2
"""Share of the rows at one value of a wide numeric column from which it is suggested as special."""
_ID_SHARE = 0.9
_ROWS_EACH = 20  # rows of one person, on average: with more, a text is a place or a device rather than somebody


@dataclass(frozen=True)
class Guess:
    """A column's entry in the draft, and why."""

    entry: dict[str, Any]
    reason: str
    repeats: bool = False
    """Whether it looks like the id of somebody who has several rows."""


@dataclass(frozen=True)
class Evidence:
    """A column as its rows show it, without the missing ones: for a person's review, and private."""

    name: str
    values: pa.Array
    original: pa.DataType = field(default_factory=pa.null)
    """Arrow type before floats that hold whole numbers were taken for such."""

    @property
    def type(self) -> pa.DataType:
        """Arrow type of the values."""
        return self.values.type

    @cached_property
    def _counted(self) -> tuple[pa.Array, NDArray[np.int64]]:
        found = pc.value_counts(self.values)
        return found.field("values"), found.field("counts").to_numpy()

    @property
    def different(self) -> pa.Array:
        """The different values."""
        return self._counted[0]

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many rows have each of the different values."""
        return self._counted[1]

    @property
    def looks_unique(self) -> bool:
        """Whether nearly every row has a value of its own."""
        return len(self.values) >= 20 and len(self.different) > _ID_SHARE * len(self.values)

    def looks_like_somebody(self, named: bool, person: bool = False) -> bool:
        """Whether values repeat as persons do: many of them, with a few rows each, and none with very many.

        Where the name speaks of a person, some may have very many all the same.
        """
        mean = self.counts.mean() if len(self.counts) else 0.0
        many = len(self.counts) > (FEW if named else MANY) and 1 < mean <= _ROWS_EACH
        return bool(many and (person or self.counts.max() <= 10 * mean))


def with_spikes(guess: Guess, different: NDArray[Any], counts: NDArray[Any]) -> Guess:
    """Suggest values that very many rows share as special ones."""
    spikes = different[counts > SPIKE * counts.sum()].tolist()
    if not spikes or len(different) <= len(spikes):
        return guess
    return Guess(guess.entry | {"special": spikes}, f"{guess.reason} Values that very many rows share are special.")


def with_codes(guess: Guess, codes: list[Any]) -> Guess:
    """Set numbers that are codes and no amounts apart from the range, as special ones."""
    if not codes:
        return guess
    special = [*guess.entry.get("special", []), *codes]
    reason = "Numbers far from the others look like codes: list them in missing if they stand for missing values."
    return Guess(guess.entry | {"special": special}, f"{guess.reason} {reason}")
