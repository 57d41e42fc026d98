"""Infer the kind of a column from the noisy number of rows with each shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from weft.marginals.marginal import Array
from weft.values.text_shapes import SHAPES, TRUTHS, Shape, Sort

Need = Literal["range", "values", "text", ""]
"""What remains to be found: a range, a list of values, whether text repeats, or nothing."""

MIN_COUNT_DEVIATIONS = 4.0  # Threshold, in standard deviations of the noise, above which a count is treated as nonzero
MIN_KIND_SHARE = 0.85  # minimum share of non-missing rows that must be valid for a kind; others count as missing

LITTLE = 0.02  # share below which a notation is treated as a typing error
EXACT = 2**53  # floats represent all whole numbers up to this one exactly
_STEPS = ("", "1min", "1s", "1us")


@dataclass(frozen=True)
class Decision:
    """Current knowledge about a column."""

    entry: dict[str, Any] = field(default_factory=dict)
    need: Need = ""
    rows: float = 0.0  # estimated number of rows with a value
    why: str = ""  # short description of the finding


_FILLED: tuple[Sort, ...] = ("truth", "number", "moment", "clock", "words", "prose")


class Shaped:
    """Noisy number of rows by shape; counts below the threshold are set to zero."""

    def __init__(self, noisy: Array, sigma: float) -> None:
        counts = np.asarray(noisy, np.float64)
        self._counts = np.where(counts > MIN_COUNT_DEVIATIONS * sigma, counts, 0.0)

    def rows(self, sorts: Iterable[Sort], **fields: Any) -> float:
        """Estimate the number of rows whose shape has one of these sorts and these field values."""
        return float(sum(count for shape, count in self.seen(sorts, **fields)))

    def seen(self, sorts: Iterable[Sort], **fields: Any) -> list[tuple[Shape, float]]:
        """Return the observed shapes of these sorts with their noisy counts, most frequent first."""
        found = [
            (shape, float(count))
            for shape, count in zip(SHAPES, self._counts, strict=True)
            if count and shape.sort in set(sorts) and all(getattr(shape, k) == v for k, v in fields.items())
        ]
        return sorted(found, key=lambda pair: -pair[1])


def decide_kind(noisy: Array, sigma: float) -> Decision:
    """Infer the kind of a column from its noisy counts of shapes."""
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
        return of({"kind": "category"}, "text", "no count exceeds the noise")
    if shaped.rows(("truth",)) >= MIN_KIND_SHARE * filled:
        spelling = shaped.seen(("truth",))[0][0].spelling
        # Only the spelling true/false is boolean; other spellings are kept as categories.
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
    # In a column of words, a marker is an ordinary value and is released as written.
    told: dict[str, Any] = {"missing": True} if shaped.rows(("blank",)) else {}
    return Decision({"kind": "category"} | told, "text", filled + shaped.rows(("marker",)), "words")


def decide_time(noisy: Array, sigma: float) -> Decision:
    """Infer the kind of a column that orders rows in time: numbers or dates, of the most frequent shape if unclear."""
    found = decide_kind(noisy, sigma)
    if found.need == "range":
        return found
    fits = [
        (shape.sort == "number" and not (shape.padded or shape.day or shape.signs))
        or (shape.sort == "moment" and shape.iso and not shape.offset)
        for shape in SHAPES
    ]
    most = int(np.argmax(np.where(fits, noisy, -np.inf)))
    found = decide_kind(np.eye(1, len(SHAPES), most)[0] * max(float(noisy[most]), 1.0), 0.0)
    return replace(found, entry=found.entry | {"missing": True}, why=f"{found.why}: the most frequent ones")


def without_inexact_type(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Remove type = "float64" from an integer entry if floats do not represent its range exactly."""
    largest = max(abs(value) for value in (*entry.get("range", ()), *entry.get("special", ()), 0))
    return {key: value for key, value in entry.items() if key != "type" or value != "float64" or largest <= EXACT}


def _infer_number(shaped: Shaped) -> dict[str, Any] | None:
    """Return the entry of a numeric column; None if the numbers are codes with leading zeros."""
    every = shaped.rows(("number",))
    if shaped.rows(("number",), padded=True) > LITTLE * every:
        return None
    if shaped.rows(("number",), day=True) >= MIN_KIND_SHARE * every:
        return {"kind": "datetime", "format": "%Y%m%d", "type": "int64"}
    seen = [shape for shape, rows in shaped.seen(("number",)) if rows > LITTLE * every]
    signs = {key: sign for shape in reversed(seen) for key, sign in shape.signs}
    decimals = [shape.decimals for shape in seen]
    if all(number == 0 for number in decimals):
        pointed = shaped.rows(("number",), zeros=True) > every / 2 and not signs  # such as 12.0, which was a float
        return {"kind": "integer"} | ({"type": "float64"} if pointed else {}) | signs
    known = [number for number in decimals if number is not None]
    return {"kind": "real"} | ({"decimals": max(known)} if len(known) == len(decimals) else {}) | signs


def _infer_moment(shaped: Shaped) -> tuple[dict[str, Any], float]:
    """Return the entry of a column of dates or timestamps, and the estimated number of rows that it can read.

    Dates in ISO notation need no format, with or without time and offset. Every other notation with more than a few
    rows gets its own format. The most detailed format comes first: released values are written in it.
    """
    every = shaped.rows(("moment",))
    seen = [(shape, rows) for shape, rows in shaped.seen(("moment",)) if rows > LITTLE * every]
    seen = seen or shaped.seen(("moment",))[:1]
    zoned = seen[0][0].offset
    iso = all(shape.iso for shape, _ in seen)
    spelled = any("T" in shape.form or shape.clock == 1 for shape, _ in seen)
    plain = zoned or (iso and (not spelled or any(shape.clock == 3 or shape.offset for shape, _ in seen)))
    # Formats support neither fractions of a second nor offsets: such values cannot be combined with other formats.
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
    """Return the formats of these shapes, most detailed first; unambiguous dates decide the order of day and month."""
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
