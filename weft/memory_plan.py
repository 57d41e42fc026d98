"""Memory plan: how the memory of a run is divided, before anything is spent."""

import re
from dataclasses import dataclass
from typing import Self

from weft.errors import MemoryLimitError, MethodError

PROGRAM = 320 << 20
"""Approximate bytes of the program itself: Python, its libraries and compiled code."""

MODEL = 384 << 20
"""Largest number of bytes for model fitting within the methods' limits: a junction tree of 2^24 cells, three times."""

MIN_MEMORY = 1 << 30
"""Smallest supported limit."""

_VALUE = 64  # bytes of an unencoded value; most take less
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes for data that grows with the table: larger data is processed in pieces, spilled to files, or refused."""

    codes: int = 1 << 30
    """Encoded table in memory; a larger one is read again for each count."""
    counts: int = 1 << 28
    """Tables counted in one pass over the rows; more are counted in several passes."""
    spill: int = 1 << 28
    """Data per row of a streamed table, above which it is kept in files."""
    rows: int | None = None
    """Rows read or generated at a time; None: as many as is fastest."""
    stated: bool = False
    """Whether the user set a limit, so that operations which cannot keep to it are refused."""

    @classmethod
    def of(cls, memory: str | int | None) -> Self:
        """Divide a limit such as "4GB"; MethodError if it is invalid, MemoryLimitError if it is too small.

        >>> MemoryPlan.of("4GB").codes < 4e9 / 3, MemoryPlan.of(None) == MemoryPlan()
        (True, True)
        """
        if memory is None:
            return cls()
        limit = parse_memory(memory)
        if limit < MIN_MEMORY:
            raise MemoryLimitError(f"the memory limit {memory} is too small for program and model: use 1GiB or more")
        free = limit - PROGRAM - MODEL
        usual = cls()
        return cls(
            codes=free // 3,
            counts=min(free // 3, usual.counts),
            spill=min(free // 12, usual.spill),
            rows=free // 4,
            stated=True,
        )

    @property
    def cells(self) -> int:
        """Cells counted in one pass."""
        return self.counts // 8

    def rows_at_once(self, columns: int, usual: int) -> int:
        """Return the number of rows with `columns` columns to read or generate at a time, at most `usual`."""
        if self.rows is None:
            return usual
        # Three batches are in memory at a time (`weft.io.reader`).
        return max(min(self.rows // (3 * _VALUE * max(columns, 1)), usual), min(usual, 1 << 10))


def parse_memory(memory: str | int) -> int:
    """Return the bytes of a size such as 4GB, 512 MiB or 2e9; MethodError if it is invalid.

    >>> parse_memory("4GB"), parse_memory("1.5 GiB"), parse_memory(7)
    (4000000000, 1610612736, 7)
    """
    found = re.fullmatch(r"\s*([0-9]+\.?[0-9]*(?:e[0-9]+)?)\s*([KMGT]I?)?B?\s*", str(memory), re.IGNORECASE)
    unit = (found[2] or "").upper() if found else ""
    if found is None or unit not in _UNITS:
        raise MethodError(f"invalid memory limit {memory}: use a size such as 4GB or 512MiB")
    return int(float(found[1]) * _UNITS[unit])
