"""Coded records: a table whose values are encoded as small integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from weft.marginals.domain import Domain

Codes = NDArray[np.unsignedinteger[Any]]


def code_dtype(size: int) -> np.dtype[Any]:
    """Return the smallest unsigned type for the codes 0 to size - 1: uint8, uint16 or uint32."""
    chosen: DTypeLike = np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32
    return np.dtype(chosen)


@dataclass(frozen=True)
class Records:
    """Columnar records: one array of codes per attribute, each of the smallest unsigned type.

    >>> domain = Domain(("a", "b"), (3, 300))
    >>> records = Records.of(domain, [[0, 2], [299, 1]])
    >>> len(records), records.columns[1].dtype
    (2, dtype('uint16'))
    """

    domain: Domain
    columns: tuple[Codes, ...]

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.domain):
            raise ValueError("records need one array of codes for each attribute of the domain")
        if len({len(column) for column in self.columns}) > 1:
            raise ValueError("the arrays of codes must have equal length")
        for name, size, column in zip(self.domain.names, self.domain.shape, self.columns, strict=True):
            if column.dtype != code_dtype(size):
                raise ValueError(f"the codes of {name!r} must be {code_dtype(size)}, not {column.dtype}")

    @classmethod
    def of(cls, domain: Domain, columns: Sequence[Any]) -> Records:
        """Create records from arrays of any integer type."""
        typed = tuple(
            np.ascontiguousarray(column, dtype=code_dtype(size))
            for column, size in zip(columns, domain.shape, strict=True)
        )
        return cls(domain, typed)

    @classmethod
    def empty(cls, domain: Domain) -> Records:
        """Return zero records over a domain."""
        return cls.of(domain, [np.empty(0, np.uint8)] * len(domain))

    @classmethod
    def concatenate(cls, parts: Sequence[Records]) -> Records:
        """Concatenate records of one domain."""
        domain = parts[0].domain
        return cls(domain, tuple(np.concatenate(columns) for columns in zip(*(p.columns for p in parts), strict=True)))

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> Codes:
        """Return the codes of one attribute."""
        return self.columns[self.domain.index(name)]

    def take(self, rows: Any) -> Records:
        """Select rows by index array, mask or slice."""
        return Records(self.domain, tuple(column[rows] for column in self.columns))


def sibling_pairs(starts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of all ordered pairs of different rows of a family; family f has rows starts[f]:starts[f + 1].

    >>> [pairs.tolist() for pairs in sibling_pairs(np.array([0, 2, 3]))]
    [[0, 1], [1, 0]]
    """
    sizes = np.diff(starts)
    begin, size = np.repeat(starts[:-1], sizes), np.repeat(sizes, sizes)
    first = np.repeat(np.arange(starts[-1]), size - 1)
    run = np.arange(len(first)) - np.repeat(np.cumsum(size - 1) - (size - 1), size - 1)
    second = begin[first] + run
    return first, second + (second >= first)
