"""Which kind a column is, from the noisy numbers of rows of each shape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from weft.marginals.marginal import Array
from weft.values.shapes import SHAPES, TRUTHS, Shape, Sort

Need = Literal["range", "values", "text", ""]
"""What is left to be found: a range, a list of values, whether text repeats; or nothing."""

SURE = 4.0
"""Noise, in standard deviations, above which a number of rows is taken for one."""

MOST = 0.85
"""Share of the filled rows that must read as a kind for the column to be of it; the others count as missing."""

LITTLE = 0.02
"""Share below which a way of writing is taken for a slip."""

_STEPS = ("", "1min", "1s", "1us")


@dataclass(frozen=True)
class Decision:
    """What a column is, as far as its shapes tell."""

    entry: dict[str, Any] = field(default_factory=dict)
    """What a schema would say."""
    need: Need = ""
    rows: float = 0.0
    """About how many rows have a value."""
    why: str = ""
    """In a few words."""


class Shaped:
    """Noisy numbers of rows by shape, without what may be noise alone."""

    def __init__(self, noisy: Array, sigma: float) -> None:
        counts = np.asarray(noisy, np.float64)
        self._counts = np.where(counts > SURE * sigma, counts, 0.0)

    def rows(self, sorts: Iterable[Sort], **fields: Any) -> float:
        """Return how many rows have a shape of these sorts whose fields are these."""
        return float(sum(count for shape, count in self.seen(sorts, **fields)))

    def seen(self, sorts: Iterable[Sort], **fields: Any) -> list[tuple[Shape, float]]:
        """Return the shapes of these sorts that rows have, with their numbers, the most common first."""
        found = [
            (shape, float(count))
            for shape, count in zip(SHAPES, self._counts, strict=True)
            if count and shape.sort in set(sorts) and all(getattr(shape, k) == v for k, v in fields.items())
        ]
        return sorted(found, key=lambda pair: -pair[1])


def decide(noisy: Array, sigma: float) -> Decision:
    """Say what a column is whose values have these shapes."""
    shaped = Shaped(noisy, sigma)
    filled = shaped.rows(("truth", "number", "moment", "clock", "words", "prose"))
    markers = [shape.marker for shape, _ in shaped.seen(("marker",))]
    blank = shaped.rows(("blank", "marker")) > 0
    missing: dict[str, Any] = {"missing": markers if markers else blank} if markers or blank else {}

    def of(entry: dict[str, Any], need: Need, why: str) -> Decision:
        return Decision(entry | missing, need, filled, why)

    if not filled:
        return of({"kind": "category"}, "text", "no value stands out from the noise")
    if shaped.rows(("truth",)) >= MOST * filled:
        spelling = shaped.seen(("truth",))[0][0].spelling
        # As true and false are written by everybody; other spellings are kept as the words they are.
        entry = {"kind": "category", "values": list(TRUTHS[spelling])} if spelling else {"kind": "boolean"}
        return of(entry, "", "true or false")
    if shaped.rows(("number",)) >= MOST * filled:
        number = _number(shaped)
        if number is not None:
            return of(number, "range", "numbers")
    if shaped.rows(("moment",)) >= MOST * filled:
        return of(_moment(shaped), "range", "dates" if not shaped.rows(("moment",), midnight=False) else "moments")
    if shaped.rows(("clock",)) >= MOST * filled:
        clock = shaped.seen(("clock",))[0][0].clock
        return of({"kind": "time", "step": _STEPS[clock]}, "", "times of day")
    if shaped.rows(("prose",)) > filled / 2:
        return of({"kind": "id", "pattern": "text {}"}, "", "free text")
    # Among words a marker is one more of them, and comes back as it was written.
    told: dict[str, Any] = {"missing": True} if shaped.rows(("blank",)) else {}
    return Decision({"kind": "category"} | told, "text", filled + shaped.rows(("marker",)), "words")


def _number(shaped: Shaped) -> dict[str, Any] | None:
    """Return the entry of a column of numbers; None if they are codes that only text keeps."""
    every = shaped.rows(("number",))
    if shaped.rows(("number",), padded=True) > LITTLE * every:
        return None
    if shaped.rows(("number",), day=True) >= MOST * every:
        return {"kind": "datetime", "format": "%Y%m%d", "type": "int64"}
    seen = [shape for shape, rows in shaped.seen(("number",)) if rows > LITTLE * every]
    signs = {key: sign for shape in reversed(seen) for key, sign in shape.signs}
    decimals = [shape.decimals for shape in seen]
    if all(number == 0 for number in decimals):
        return {"kind": "integer"} | signs
    known = [number for number in decimals if number is not None]
    return {"kind": "real"} | ({"decimals": max(known)} if len(known) == len(decimals) else {}) | signs


def _moment(shaped: Shaped) -> dict[str, Any]:
    """Return the entry of a column of dates or moments."""
    by_day, by_month = (shaped.rows(("moment",), order=order) for order in (1, 2))
    every = shaped.rows(("moment",))
    shape = shaped.seen(("moment",))[0][0]
    form = shape.form
    if shape.order:  # day first or month first: those that can be read in one way only decide
        if by_day > by_month:
            form = form.replace("%m/%d", "%d/%m").replace("%m-%d", "%d-%m")
        elif by_month > by_day:
            form = form.replace("%d/%m", "%m/%d").replace("%d-%m", "%m-%d")
    midnight = shape.clock and shaped.rows(("moment",), midnight=True) >= MOST * every
    iso = form.startswith("%Y-%m-%d") and "T" not in form and shape.clock != 1
    entry: dict[str, Any] = {"kind": "datetime"}
    if not iso:
        entry["format"] = form
    if shape.offset:
        entry |= {"timezone": "UTC"}
        entry.pop("format", None)
    if shape.clock and not midnight:
        entry["step"] = _STEPS[max(s.clock for s, rows in shaped.seen(("moment",)) if rows > LITTLE * every)]
    elif midnight and "format" not in entry:
        entry["type"] = "timestamp[s, tz=UTC]" if shape.offset else "timestamp[s]"
    return entry
