"""Several columns encoded as one attribute, with one code per possible combination.

Each row is encoded independently by lookup in a public table. Combinations that rules exclude have no code: no method
can sample them, and no budget is spent on them.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.marginals.domain import Domain
from weft.schema.kinds.attributes import Arrays, Single
from weft.schema.kinds.kind import Label, make_single_label
from weft.schema.rules.column_values import Mask


class ColumnGroup:
    """Columns that are encoded as one attribute."""

    def __init__(self, members: Sequence[Single], possible: Mask) -> None:
        """Combine the members' codes; `possible` marks the possible cells of their contingency table, in C order."""
        self.members = tuple(members)
        self.columns = self.reads = tuple(name for member in members for name in member.columns)
        self.needs: tuple[str, ...] = ()
        self.shape = tuple(member.domain.shape[0] for member in members)
        self._cells = np.flatnonzero(possible)
        self.combinations = np.stack(np.unravel_index(self._cells, self.shape), axis=1)
        """Codes of the columns, one row per code of the attribute."""
        self._code = np.searchsorted(self._cells, find_nearest_possible(possible, self.shape))
        self.domain = Domain((" & ".join(self.columns),), (len(self._cells),))

    def labels(self) -> list[tuple[Label, ...]]:
        """Return a label for each combination, joined from the labels of its values."""
        named = [member.labels()[0] for member in self.members]
        words = [" & ".join(str(own[code]) for own, code in zip(named, row, strict=True)) for row in self.combinations]
        return [tuple(make_single_label(word, "value") for word in words)]

    def encode(self, arrays: Arrays) -> list[NDArray[np.int64]]:
        """Return the code of each row's combination; an impossible one is encoded as the nearest possible one."""
        cell = np.zeros(len(arrays[self.columns[0]]), np.int64)
        for member, size in zip(self.members, self.shape, strict=True):
            cell = cell * size + member.encode(arrays)[0]
        return [self._code[cell]]

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return the columns of each combination."""
        found = self.combinations[np.asarray(codes[0]).astype(np.int64)]
        arrays: dict[str, pa.Array] = {}
        for member, own in zip(self.members, found.T, strict=True):
            arrays |= member.decode([np.ascontiguousarray(own)], made, rng)
        return arrays


def find_nearest_possible(possible: Mask, shape: Sequence[int]) -> NDArray[np.int64]:
    """Return for each cell a possible one: itself, or the first one that shares the longest prefix of columns.

    >>> find_nearest_possible(np.array([False, True, True, False]), (2, 2)).tolist()
    [1, 1, 2, 2]
    """
    cells = np.arange(len(possible))
    found = np.where(possible, cells, -1)
    for kept in range(len(shape) - 1, -1, -1):
        inner = math.prod(shape[kept:])
        blocks = possible.reshape(-1, inner)
        first = np.where(blocks.any(axis=1), np.arange(len(blocks)) * inner + blocks.argmax(axis=1), -1)
        found = np.where(found < 0, first[cells // inner], found)
    return found
