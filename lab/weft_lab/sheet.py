"""What an experiment has to say: a table of words, that a terminal can show as soon as it is whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sheet:
    """One table of results."""

    title: str
    columns: Sequence[str]
    """Heads; the first column names the rows."""
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    """Sentences below the table."""
