"""How much memory a run may take, divided before anything is spent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from weft.errors import MemoryLimitError, MethodError

PROGRAM = 320 << 20
"""About the octets of the program itself: Python, its libraries and what is compiled."""

MODEL = 384 << 20
"""Octets that learning takes at most with the limits that methods have: a junction tree of 2^24 cells, three times."""

MIN_MEMORY = 1 << 30
"""Smallest limit that can be kept."""

_VALUE = 64  # octets of a value as rows have it, not coded; most take less
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}


@dataclass(frozen=True)
class MemoryPlan:
    """Octets for what grows with the table: it is held in smaller pieces, in files, or refused."""

    codes: int = 1 << 30
    """Codes of a table that is held in memory; a larger one is read anew for each count."""
    counts: int = 1 << 28
    """Tables that are counted in one pass over the rows; more are counted in several."""
    spill: int = 1 << 28
    """What is known of each row of a streamed table, past which it is kept in files."""
    rows: int | None = None
    """Rows that are read or made at a time; None: as many as is fastest."""
    stated: bool = False
    """Whether somebody stated a limit, so that what cannot keep to it is refused."""

    @classmethod
    def of(cls, memory: str | int | None) -> Self:
        """Divide a limit such as "4GB"; MethodError if it is none, MemoryLimitError if it is too small to be kept.

        >>> MemoryPlan.of("4GB").codes < 4e9 / 3, MemoryPlan.of(None) == MemoryPlan()
        (True, True)
        """
        if memory is None:
            return cls()
        limit = parse_memory(memory)
        if limit < MIN_MEMORY:
            raise MemoryLimitError(f"the memory limit must be 1GiB or more, not {memory}: program and model need that")
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
        """Cells that are counted in one pass."""
        return self.counts // 8

    def rows_at_once(self, columns: int, usual: int) -> int:
        """Return how many rows of so many columns are read or made at a time, of those that are usual."""
        if self.rows is None:
            return usual
        # Three batches are in work at a time (`weft.io.reader`).
        return max(min(self.rows // (3 * _VALUE * max(columns, 1)), usual), min(usual, 1 << 10))


def parse_memory(memory: str | int) -> int:
    """Return the octets that a text such as 4GB, 512 MiB or 2e9 names; MethodError if it names none.

    >>> parse_memory("4GB"), parse_memory("1.5 GiB"), parse_memory(7)
    (4000000000, 1610612736, 7)
    """
    found = re.fullmatch(r"\s*([0-9]+\.?[0-9]*(?:e[0-9]+)?)\s*([KMGT]I?)?B?\s*", str(memory), re.IGNORECASE)
    unit = (found[2] or "").upper() if found else ""
    if found is None or unit not in _UNITS:
        raise MethodError(f"write a memory limit as 4GB or 512MiB, not {memory}")
    return int(float(found[1]) * _UNITS[unit])
