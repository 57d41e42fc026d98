"""What a draft knows of a column from its rows, and what a kind makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MAX_CATEGORY_INTEGERS = 30
"""A wide whole-number column with at most this many different values is drafted as a category."""
MAX_UNREMARKED_TEXTS = 100
"""More texts than this are not listed without a word about it."""
MAX_LISTED_TEXTS = 2_000
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
class ColumnEvidence:
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
        many = len(self.counts) > (MAX_CATEGORY_INTEGERS if named else MAX_UNREMARKED_TEXTS) and 1 < mean <= _ROWS_EACH
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


# Numbers that are codes and no amounts: -9, 99 or 999 for "not asked", far from all that is counted.

_NEGATIVE = (-1, -7, -8, -9, -77, -88, -97, -98, -99, -777, -888, -997, -998, -999, -9998, -9999, -99999)
_POSITIVE = (77, 88, 96, 97, 98, 99, 777, 888, 996, 997, 998, 999, 7777, 8888, 9997, 9998, 9999, 99998, 99999)
_LONG_SENTINELS = (999998, 999999, 9999998, 9999999, 99999999, 999999999, -999999)
_CODES = np.array(sorted({*_NEGATIVE, *_POSITIVE, *_LONG_SENTINELS}), dtype=np.float64)
_MAX_SENTINELS = 4  # such codes in one column
_FAR = 10  # steps beyond the highest amount, at least


def find_sentinels(different: NDArray[Any]) -> list[Any]:
    """Return the codes at either end of rising numbers that stretch their range; none if too little would be left.

    Below nought they stand out if all else is nought or more; above, if they are as far away as the rest is wide.

    >>> find_sentinels(np.array([-9, 0, 1, 40, 999]))
    [-9, 999]
    >>> find_sentinels(np.array([-9, -3, 0, 5])), find_sentinels(np.arange(100))
    ([], [])
    """
    known = np.isin(different.astype(np.float64), _CODES)
    amounts = different[~known]
    if len(amounts) < 2:
        return []
    below = [value for value in different[known] if value < 0]
    gap = 0.0 if amounts[0] >= 0 else max(float(amounts[-1]) - float(amounts[0]), _FAR)
    found = [value for value in below if float(amounts[0]) - float(value) > gap]
    top = float(amounts[-1])
    floor = max(float(amounts[0]), 0.0)
    far = max(top - floor, float(_FAR))
    found += [value for value in different[known] if float(value) - top > far]
    return [value.item() for value in found] if len(found) <= _MAX_SENTINELS else []
