"""What columns may hold of a date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PIECES = {"year": (1, 9999), "month": (1, 12), "day": (1, 31), "week": (1, 53), "week_from_sunday": (1, 54)}
"""What columns may hold of a date, and between which ends: ISO weeks, or weeks that begin on Sundays."""

PIECES_REMEDY = (
    'pieces must name the columns of year, month and day, such as {year = "y", month = "m", day = "d"}, '
    "and may name those of week or week_from_sunday"
)


def make_a_date(pieces: Mapping[Any, Any]) -> bool:
    """Whether pieces and the names of their columns make up a date."""
    known = all(piece in PIECES and isinstance(name, str) for piece, name in pieces.items())
    return known and {"year", "month", "day"} <= set(pieces) and len(set(pieces.values())) == len(pieces)
