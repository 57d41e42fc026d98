"""A block of synthetic rows under repair: values are copied between rows, made missing, or replaced.

Privacy: repair reads synthetic rows only. It is post-processing, runs no query on private rows and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.schema.rules.column_values import Values, joint_keys
from weft.schema.rules.rule import Readers, Rows
from weft.values.storage import decode_dictionary


class Block(Mapping[str, Values]):
    """Columns of synthetic rows by name, as the numbers that rules compare."""

    def __init__(
        self, arrays: Mapping[str, pa.Array], readers: Readers, tied: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """Initialise with columns, their readers, and for each dependent column all columns to copy with it."""
        self.arrays, self.readers, self._tied = dict(arrays), readers, tied or {}
        self._read: dict[str, Values] = {}

    def __getitem__(self, name: str) -> Values:
        if name not in self._read:
            self._read[name] = self.readers[name].read(self.arrays[name])
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.readers)

    def __len__(self) -> int:
        return len(self.readers)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.arrays.values())))

    def update(self, arrays: Mapping[str, pa.Array]) -> None:
        """Replace whole columns."""
        for name, array in arrays.items():
            self._set(name, array)

    def branch(self) -> Block:
        """Return an independent copy of the block."""
        made = Block(self.arrays, self.readers, self._tied)
        made._read = dict(self._read)
        return made

    def adopt(self, other: Block, rows: Rows) -> None:
        """Copy some rows from another block."""
        places = np.zeros(self.rows, bool)
        places[rows] = True
        for name, array in other.arrays.items():
            if array is not self.arrays[name] and len(rows):
                self.put(name, rows, decode_dictionary(array).filter(pa.array(places)))

    def copy(self, names: Sequence[str], rows: Rows, donors: Rows) -> None:
        """Copy values from donor rows."""
        if not len(rows):
            return
        places = np.arange(self.rows)
        places[rows] = donors
        for name in dict.fromkeys(tied for given in names for tied in self._tied.get(given, (given,))):
            self._set(name, self.arrays[name].take(pa.array(places)))

    def blank(self, name: str, rows: Rows) -> None:
        """Make values missing."""
        null = self.readers[name].null
        if null.is_valid:  # NaN represents missing values
            self.put(name, rows, pa.array([null.as_py()] * len(rows), null.type))
            return
        gone = np.zeros(self.rows, bool)
        gone[rows] = True
        self._set(name, self.arrays[name].take(pa.array(np.arange(self.rows), mask=gone)))

    def put(self, name: str, rows: Rows, made: pa.Array) -> None:
        """Replace values, given in the column's value type."""
        if not len(rows):
            return
        old = self.arrays[name]
        places = np.arange(self.rows)
        places[rows] = self.rows + np.arange(len(rows))
        plain = decode_dictionary(old)
        joined = pa.concat_arrays([plain, made.cast(plain.type)]).take(pa.array(places))
        if isinstance(old, pa.DictionaryArray):
            known = old.dictionary
            new = pc.unique(joined.drop_null())
            new = new.filter(pc.invert(pc.is_in(new, value_set=known)))
            known = pa.concat_arrays([known, new.cast(known.type)])
            found = pc.index_in(joined, value_set=known, skip_nulls=True).cast(old.type.index_type)
            joined = pa.DictionaryArray.from_arrays(found, known, ordered=old.type.ordered)
        self._set(name, joined)

    def set_numbers(self, name: str, rows: Rows, numbers: NDArray[np.generic]) -> None:
        """Replace values, given as possible numbers; dependent columns are not changed, as they would disagree."""
        if len(rows) and name not in self._tied:
            self.put(name, rows, self.readers[name].make(np.asarray(numbers)))

    def _set(self, name: str, array: pa.Array) -> None:
        self.arrays[name] = array
        self._read.pop(name, None)

    def matching(self, names: Sequence[str], rows: Rows, donors: Rows, rng: np.random.Generator) -> Rows:
        """Return for each row a random donor that agrees in these columns, -1 if there is none."""
        if not len(donors):
            return np.full(len(rows), -1, np.int64)
        if not names:
            return donors[rng.integers(0, len(donors), len(rows))]
        both = np.concatenate([rows, donors])
        keys = joint_keys([self[name].take(both) for name in names])
        return match_donors(keys[: len(rows)], keys[len(rows) :], donors, rng)


def match_donors(
    wanted: NDArray[np.int64], held: NDArray[np.int64], donors: Rows, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return for each key a random donor with the same key, -1 if there is none."""
    order = np.argsort(held, kind="stable")
    first = np.searchsorted(held, wanted, side="left", sorter=order)
    after = np.searchsorted(held, wanted, side="right", sorter=order)
    chosen = first + (rng.random(len(wanted)) * (after - first)).astype(np.int64)
    return np.where(after > first, donors[order[np.minimum(chosen, len(held) - 1)]], -1)
