"""Which kind a column is, from the noisy numbers of rows of each shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from weft.marginals.marginal import Array
from weft.values.text_shapes import SHAPES, TRUTHS, Shape, Sort

Need = Literal["range", "values", "text", ""]
"""What is left to be found: a range, a list of values, whether text repeats; or nothing."""

MIN_COUNT_DEVIATIONS = 4.0
"""Noise, in standard deviations, above which a number of rows is taken for one."""

MIN_KIND_SHARE = 0.85
"""Share of the filled rows that must read as a kind for the column to be of it; the others count as missing."""

LITTLE = 0.02
"""Share below which a way of writing is taken for a slip."""

EXACT = 2**53
"""Up to here a float distinguishes whole numbers."""

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


_FILLED: tuple[Sort, ...] = ("truth", "number", "moment", "clock", "words", "prose")


class Shaped:
    """Noisy numbers of rows by shape, without what may be noise alone."""

    def __init__(self, noisy: Array, sigma: float) -> None:
        counts = np.asarray(noisy, np.float64)
        self._counts = np.where(counts > MIN_COUNT_DEVIATIONS * sigma, counts, 0.0)

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


def decide_kind(noisy: Array, sigma: float) -> Decision:
    """Say what a column is whose values have these shapes."""
    shaped = Shaped(noisy, sigma)
    filled = shaped.rows(_FILLED)
    markers = [shape.marker for shape, _ in shaped.seen(("marker",))]
    blank = shaped.rows(("blank", "marker")) > 0
    missing: dict[str, Any] = {"missing": markers if markers else blank} if markers or blank else {}

    def of(entry: dict[str, Any], need: Need, why: str, readable: float = filled) -> Decision:
        lost = 1 - readable / filled if filled else 0.0
        told = {"lost_share": round(lost, 3), "missing": missing.get("missing", True)} if lost > LITTLE else {}
        return Decision(entry | missing | told, need, filled, why)

    if not filled:
        return of({"kind": "category"}, "text", "no value stands out from the noise")
    if shaped.rows(("truth",)) >= MIN_KIND_SHARE * filled:
        spelling = shaped.seen(("truth",))[0][0].spelling
        # As true and false are written by everybody; other spellings are kept as the words they are.
        entry = {"kind": "category", "values": list(TRUTHS[spelling])} if spelling else {"kind": "boolean"}
        return of(entry, "", "true or false", shaped.rows(("truth",), spelling=spelling))
    if shaped.rows(("number",)) >= MIN_KIND_SHARE * filled:
        number = _infer_number(shaped)
        if number is not None:
            return of(number, "range", "numbers", shaped.rows(("number",)))
    if shaped.rows(("moment",)) >= MIN_KIND_SHARE * filled:
        entry, readable = _infer_moment(shaped)
        why = "dates" if not shaped.rows(("moment",), midnight=False) else "moments"
        return of(entry, "range", why, readable)
    if shaped.rows(("clock",)) >= MIN_KIND_SHARE * filled:
        clock = shaped.seen(("clock",))[0][0].clock
        return of({"kind": "time", "step": _STEPS[clock]}, "", "times of day", shaped.rows(("clock",)))
    if shaped.rows(("prose",)) > filled / 2:
        return of({"kind": "id", "pattern": "text {}"}, "", "free text")
    # Among words a marker is one more of them, and comes back as it was written.
    told: dict[str, Any] = {"missing": True} if shaped.rows(("blank",)) else {}
    return Decision({"kind": "category"} | told, "text", filled + shaped.rows(("marker",)), "words")


def without_inexact_type(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of whole numbers, without the type of floats where these do not hold its range exactly."""
    largest = max(abs(value) for value in (*entry.get("range", ()), *entry.get("special", ()), 0))
    return {key: value for key, value in entry.items() if key != "type" or value != "float64" or largest <= EXACT}


def _infer_number(shaped: Shaped) -> dict[str, Any] | None:
    """Return the entry of a column of numbers; None if they are codes that only text keeps."""
    every = shaped.rows(("number",))
    if shaped.rows(("number",), padded=True) > LITTLE * every:
        return None
    if shaped.rows(("number",), day=True) >= MIN_KIND_SHARE * every:
        return {"kind": "datetime", "format": "%Y%m%d", "type": "int64"}
    seen = [shape for shape, rows in shaped.seen(("number",)) if rows > LITTLE * every]
    signs = {key: sign for shape in reversed(seen) for key, sign in shape.signs}
    decimals = [shape.decimals for shape in seen]
    if all(number == 0 for number in decimals):
        pointed = shaped.rows(("number",), zeros=True) > every / 2 and not signs  # 12.0: a float wherever it was made
        return {"kind": "integer"} | ({"type": "float64"} if pointed else {}) | signs
    known = [number for number in decimals if number is not None]
    return {"kind": "real"} | ({"decimals": max(known)} if len(known) == len(decimals) else {}) | signs


def _infer_moment(shaped: Shaped) -> tuple[dict[str, Any], float]:
    """Return the entry of a column of dates or moments, and how many rows it reads.

    Dates in ISO form need no format, with or without a time and an offset. Any other way of writing that more than a
    few rows have is a format of its own, the fullest first, which is how released values are written.
    """
    every = shaped.rows(("moment",))
    seen = [(shape, rows) for shape, rows in shaped.seen(("moment",)) if rows > LITTLE * every]
    seen = seen or shaped.seen(("moment",))[:1]
    zoned = seen[0][0].offset
    iso = all(shape.iso for shape, _ in seen)
    spelled = any("T" in shape.form or shape.clock == 1 for shape, _ in seen)
    plain = zoned or (iso and (not spelled or any(shape.clock == 3 or shape.offset for shape, _ in seen)))
    # A format has no fractions of a second and no offsets: what has them cannot be read beside other formats.
    seen = [(shape, n) for shape, n in seen if shape.iso] if plain else [(s, n) for s, n in seen if s.fits_format]
    midnight = all(shape.midnight or not shape.clock for shape, _ in seen) and any(shape.clock for shape, _ in seen)
    clock = max(shape.clock for shape, _ in seen)
    entry: dict[str, Any] = {"kind": "datetime"}
    if not plain:
        entry["format"], *others = _rank_formats(shaped, [shape for shape, _ in seen])
        entry |= {"other_formats": others} if others else {}
    if plain and any(shape.offset for shape, _ in seen):
        entry["timezone"] = "UTC"
    if clock and not midnight:
        entry["step"] = _STEPS[clock]
    elif midnight and plain:
        entry["type"] = "timestamp[s, tz=UTC]" if "timezone" in entry else "timestamp[s]"
    return entry, sum(rows for _, rows in seen)


def _rank_formats(shaped: Shaped, shapes: Sequence[Shape]) -> list[str]:
    """Return the formats of these shapes, the fullest first: whether day or month comes first, clear cases decide."""
    by_day, by_month = (shaped.rows(("moment",), order=order) for order in (1, 2))
    found: dict[str, int] = {}
    for shape in shapes:
        form = shape.form
        if shape.order == 3 and by_day > by_month:
            form = form.replace("%m/%d", "%d/%m").replace("%m-%d", "%d-%m")
        elif shape.order == 3 and by_month > by_day:
            form = form.replace("%d/%m", "%m/%d").replace("%d-%m", "%m-%d")
        found[form] = max(found.get(form, 0), shape.clock)
    return sorted(found, key=lambda form: -found[form])
