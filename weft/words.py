"""Numbers as people read them: with nouns that agree, and as shares."""

from __future__ import annotations


def counted(n: int, one: str, many: str | None = None) -> str:
    """Write a number with what it counts.

    >>> counted(1, "row"), counted(2000, "row"), counted(0, "family", "families")
    ('1 row', '2,000 rows', '0 families')
    """
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def percent(share: float) -> str:
    """Write a share, exact enough for its size.

    >>> percent(0.294), percent(0.0007), percent(0.3)
    ('29.4%', '0.07%', '30%')
    """
    digits = 1 if share >= 0.01 else 2
    text = f"{100 * share:.{digits}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "%"
