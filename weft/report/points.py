"""What a release is best and worst at, as far as its own noise tells: for a person who has just made it.

Everything comes from the model and the sizes of the noise, which are released: saying it costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.marginals.marginal import Array
from weft.release.modelfile import Fitted
from weft.report.noise import by_column, combined_sigma, expected_tvd
from weft.words import counted

MOST = 3
"""Points of each sort."""

RANGES = 32
"""Numbers and dates of more values than this are looked at in so many ranges."""

LARGE = 0.02
"""Share of misplaced rows from which a column is worth a warning."""


@dataclass(frozen=True)
class Points:
    """What to rely on, and what to be careful with."""

    best: tuple[str, ...]
    worst: tuple[str, ...]


def points(fitted: Fitted) -> Points:
    """Name the columns that the noise has moved least and most, and what was not learned at all."""
    errors = _errors(fitted)
    ranked = sorted(errors, key=lambda name: errors[name])
    half = len(ranked) // 2
    best = [_told(name, errors[name]) for name in ranked[: min(MOST, max(1, half))]]
    worst = [_told(name, errors[name]) for name in ranked[::-1][: min(MOST, half)] if errors[name] >= LARGE]
    pairs = _pairs(fitted)
    merged = _merged(fitted)
    worst = [*([merged] if merged else []), *worst]
    if pairs is not None:
        measured, every = pairs
        said = f"{measured:,} of {counted(every, 'pair')} of columns were counted together"
        (best if measured * 2 >= every else worst).insert(
            0, said if measured else "no two columns were counted together"
        )
    return Points(tuple(best[:MOST]), tuple(worst[:MOST]))


def _errors(fitted: Fitted) -> dict[str, float]:
    """Return the share of rows that noise alone is expected to misplace in each column."""
    index, errors = by_column(fitted.measured), {}
    for column in fitted.schema.modelled:
        if column.name not in fitted.codec.domain:
            continue
        sigma = combined_sigma((column.name,), index)
        if sigma is not None:
            counts = np.asarray(fitted.model.marginal((column.name,)), np.float64)
            errors[column.name] = expected_tvd(_ranged(counts, fitted.codec.domain.order(column.name).ordered), sigma)
    return errors


def _ranged(counts: Array, ordered: bool) -> Array:
    if not ordered or len(counts) <= RANGES:
        return counts
    return np.add.reduceat(counts, np.linspace(0, len(counts), RANGES, endpoint=False).astype(int))


def _pairs(fitted: Fitted) -> tuple[int, int] | None:
    """Return how many pairs of attributes a question has covered, of how many; None where that is not told."""
    names = fitted.codec.domain.names
    every = len(names) * (len(names) - 1) // 2
    if fitted.ledger.parts or fitted.model.fixed_records or not every:
        return None
    seen = {(a, b) for table in fitted.measured for a in table.clique for b in table.clique if a < b}
    return len(seen), every


def _merged(fitted: Fitted) -> str | None:
    """Say how many columns have values that stand for all others."""
    joined = [
        column.name for column in fitted.schema.columns if "values" in column.paid and "other" in column.to_dict()
    ]
    rest = [name for name in joined if str(fitted.schema.column(name).to_dict()["other"]).strip("()") == "other"]
    return f"rare values of {counted(len(rest), 'column')} are told together: {', '.join(rest[:3])}" if rest else None


def _told(name: str, error: float) -> str:
    return f"{name}: noise misplaces about {max(error, 0.001):.1%} of the rows"
