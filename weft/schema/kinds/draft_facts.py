"""Evidence about a column that a draft computes from private rows, and the entry that a kind derives from it."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MAX_CATEGORY_INTEGERS = 30
"""Threshold: an integer column over a wide range with at most this many different values is drafted as a category."""
MAX_UNREMARKED_TEXTS = 100
"""Threshold on different texts above which the draft adds a remark."""
MAX_LISTED_TEXTS = 2_000
"""Threshold on different texts above which only the most common ones are listed, and `other` represents the rest."""
COMMON = 200
"""Number of texts that are listed in that case."""
SPIKE = 0.2
"""Threshold on the share of rows with one value, above which the draft suggests this value as special."""
_ROWS_EACH = 20  # mean rows per person; above this threshold, a text rather identifies a place or a device


@dataclass(frozen=True)
class Guess:
    """Draft entry of a column, and the reason for it."""

    entry: dict[str, Any]
    reason: str
    repeats: bool = False
    """Whether the column looks like the id of a person with several rows."""


@dataclass(frozen=True)
class ColumnEvidence:
    """Non-missing values of a column; private, and used only for a draft that a person reviews."""

    name: str
    values: pa.Array
    original: pa.DataType = field(default_factory=pa.null)
    """Arrow type before integral floats were converted to integers."""

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
        """Different values."""
        return self._counted[0]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows with each of the different values."""
        return self._counted[1]

    def looks_like_somebody(self, named: bool, person: bool = False) -> bool:
        """Return whether values repeat as person ids do: many values with a few rows each.

        No value may have very many rows, unless the column name refers to a person.
        """
        mean = self.counts.mean() if len(self.counts) else 0.0
        many = len(self.counts) > (MAX_CATEGORY_INTEGERS if named else MAX_UNREMARKED_TEXTS) and 1 < mean <= _ROWS_EACH
        return bool(many and (person or self.counts.max() <= 10 * mean))


def with_spikes(guess: Guess, different: NDArray[Any], counts: NDArray[Any]) -> Guess:
    """Suggest values that a large share of the rows has as special values."""
    spikes = different[counts > SPIKE * counts.sum()].tolist()
    if not spikes or len(different) <= len(spikes):
        return guess
    return Guess(guess.entry | {"special": spikes}, f"{guess.reason} Very frequent values are special.")


def with_codes(guess: Guess, codes: list[Any]) -> Guess:
    """Suggest sentinel codes as special values, outside the range."""
    if not codes:
        return guess
    special = [*guess.entry.get("special", []), *codes]
    reason = "Numbers far from the others look like codes: list them in missing if they represent missing values."
    return Guess(guess.entry | {"special": special}, f"{guess.reason} {reason}")


# Sentinel codes such as -9, 99 or 999 for "not asked", far from all amounts.
_NEGATIVE = (-1, -7, -8, -9, -77, -88, -97, -98, -99, -777, -888, -997, -998, -999, -9998, -9999, -99999)
_POSITIVE = (77, 88, 96, 97, 98, 99, 777, 888, 996, 997, 998, 999, 7777, 8888, 9997, 9998, 9999, 99998, 99999)
_LONG_SENTINELS = (999998, 999999, 9999998, 9999999, 99999999, 999999999, -999999)
_CODES = np.array(sorted({*_NEGATIVE, *_POSITIVE, *_LONG_SENTINELS}), dtype=np.float64)
_MAX_SENTINELS = 4  # per column
_FAR = 10  # minimum distance from the highest amount


def find_sentinels(different: NDArray[Any]) -> list[Any]:
    """Return the sentinel codes below and above the amounts in sorted numbers.

    A negative code counts if no amount is negative; otherwise its distance, like that of a code above the amounts, must
    exceed 10 and their range. The result is empty if there are fewer than two amounts or too many codes.

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
