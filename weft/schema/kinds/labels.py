"""What a code is called: a value, the range of a bin, a special value, missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Sort = Literal["value", "bin", "special", "missing", "rest"]
"""What a code stands for."""


@dataclass(frozen=True)
class Label:
    """The name of a code, as the lowest and highest value that it stands for."""

    low: str
    high: str
    sort: Sort

    def __str__(self) -> str:
        return self.low if self.low == self.high else f"{self.low} to {self.high}"

    def joined(self, last: Label) -> Label:
        """Return the label of everything from this bin to a later one."""
        return Label(self.low, last.high, self.sort)


def one(text: str, sort: Sort) -> Label:
    """Return the label of a single value."""
    return Label(text, text, sort)
