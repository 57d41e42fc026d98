"""Numbers and nouns that agree."""

from __future__ import annotations


def counted(n: int, one: str, many: str | None = None) -> str:
    """Write a number with what it counts.

    >>> counted(1, "row"), counted(2000, "row"), counted(0, "family", "families")
    ('1 row', '2,000 rows', '0 families')
    """
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"
