"""What a column of text may hold: numbers as people write them, days, moments, truth values, words for missing ones.

Each reading says of every different text whether it can be read so. A column is taken for what all its texts can be
read as, but for a few words, which then stand for missing values. Whether the column is accepted so is tried
afterwards (`weft.drafting.accepted`), by the same code that reads it for a release.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.codec.moments import read_instants
from weft.values.markers import Marker
from weft.values.number_format import NumberFormat
from weft.values.text import read_floats

Mask = NDArray[np.bool_]

MARKERS = pa.array(
    [
        *(
            "",
            "?",
            "??",
            ".",
            "..",
            "-",
            "--",
            "---",
            "*",
            "na",
            "n/a",
            "n.a.",
            "#n/a",
            "#n/a n/a",
            "<na>",
            "nan",
            "-nan",
        ),
        *("nat", "none", "null", "nil", "#null!", "#value!", "#div/0!", "\\n", "unknown", "unk", "missing", "k.a."),
        *("not available", "not applicable", "not asked", "refused", "0000-00-00", "9999-99-99"),
    ]
)
"""Texts, in small letters, that usually stand for a missing value."""

_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?\s*$|^\s*[+-]?(?i:inf(inity)?)\s*$"
_WHOLE = r"^\s*[+-]?[0-9]+(\.0*)?\s*$"
_NOUGHTS = r"^\s*[+-]?0[0-9]+\s*$"
_LONG = r"^\s*[+-]?[0-9]{19,}(\.0*)?\s*$"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?$"
_OFFSET = _MOMENT[:-1] + r" ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_MONEY = ("$", "US$", "€", "£", "¥", "₹", "CHF", "EUR", "USD", "GBP", "Fr.", "R$", "kr")
_UNITS = ("%", "‰", "kg", "mg", "cm", "mm", "km", "ml", "mmHg")
_FEW_WORDS = 3  # words that nobody knows for markers, and that are taken for such all the same
_NUMBERS_EACH = 10  # different values for each of them


@dataclass(frozen=True)
class Reading:
    """One way to read a column of text."""

    values: pa.Array
    """Its rows in the type that follows, null where missing."""
    markers: tuple[Marker, ...] = ()
    """Words that stand for a missing value."""
    told: dict[str, Any] = field(default_factory=dict)
    """What the column's entry says of how it is written."""


def readings(column: pa.Array, form: NumberFormat | None = None) -> Iterator[Reading]:
    """Yield the ways to read a column, the likeliest first; `form` is how its file writes numbers."""
    counted = pc.value_counts(column.drop_null())
    words, counts = counted.field("values"), counted.field("counts").to_numpy()
    if not len(words):
        return
    for pattern, read, told in _TYPED:
        yield from _read(column, words, counts, _matches(words, pattern), read, told)
    if bool(_matches(words, _NOUGHTS).any()):
        return  # 01014 is no number that could be written back
    for each in [form or NumberFormat(), *([] if form else _formats(words))]:
        plain = words if each == NumberFormat() else each.plain(words).cast(pa.string())
        dressing = {} if form else _spelled(each)
        yield from _read(column, words, counts, _matches(plain, _NUMBER), _Numbers(each), dressing)


def without_markers(column: pa.Array) -> Reading | None:
    """Return a column without the words that usually stand for missing values, if it has some beside others."""
    words = pc.unique(column.drop_null())
    usual = _usual(words)
    if not usual.any() or usual.all():
        return None
    found = words.filter(pa.array(usual))
    return Reading(_blanked(column, found), _markers(found))


def _read(
    column: pa.Array,
    words: pa.Array,
    counts: NDArray[np.int64],
    fits: Mask,
    read: Callable[[pa.Array], pa.Array | None],
    told: dict[str, Any],
) -> Iterator[Reading]:
    """Yield the column so read, if all its words can be, or all but a few."""
    odd = words.filter(pa.array(~fits))
    if not fits.any() or (len(odd) and not _may_be_markers(odd, counts, fits)):
        return
    made = read(_blanked(column, odd))
    if made is not None:
        yield Reading(made, _markers(odd), told)


def _may_be_markers(odd: pa.Array, counts: NDArray[np.int64], fits: Mask) -> bool:
    if _usual(odd).all():
        return True
    few = len(odd) <= _FEW_WORDS and int(fits.sum()) >= _NUMBERS_EACH * len(odd)
    return bool(few and 2 * counts[fits].sum() > counts.sum())


def _usual(words: pa.Array) -> Mask:
    small = pc.ascii_lower(pc.ascii_trim_whitespace(words))
    found: Mask = pc.is_in(small, value_set=MARKERS).to_numpy(zero_copy_only=False)
    return found


def _markers(odd: pa.Array) -> tuple[Marker, ...]:
    return tuple(sorted({word.strip() for word in odd.to_pylist()}))


def _blanked(column: pa.Array, odd: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_in(column, value_set=odd), pa.scalar(None, column.type), column) if len(odd) else column


def _matches(words: pa.Array, pattern: str) -> Mask:
    found: Mask = pc.match_substring_regex(words, pattern).fill_null(False).to_numpy(zero_copy_only=False)
    return found


class _Numbers:
    """Reads numbers that a file writes in one format: whole ones as such, others as floats."""

    def __init__(self, form: NumberFormat) -> None:
        self._form = form

    def __call__(self, column: pa.Array) -> pa.Array | None:
        plain = column if self._form == NumberFormat() else self._form.plain(column)
        present = plain.drop_null()
        if _matches(present, _LONG).any():
            return None  # digits beyond what a number keeps
        if _matches(present, _WHOLE).all():
            digits = pc.replace_substring_regex(pc.utf8_trim_whitespace(plain), r"^\+?(-?[0-9]+)(\.0*)?$", r"\1")
            return digits.cast(pa.int64())
        values, unreadable = read_floats(plain)
        missing = np.isnan(values)
        return None if unreadable.any() else pa.array(values, mask=missing)


def _instants(wanted: pa.DataType) -> Callable[[pa.Array], pa.Array | None]:
    def read(column: pa.Array) -> pa.Array | None:
        made, unreadable = read_instants(column.cast(pa.large_string()), wanted, None, clip=False)
        return None if unreadable.any() else made

    return read


def _truths(column: pa.Array) -> pa.Array:
    return pc.equal(pc.ascii_lower(pc.ascii_trim_whitespace(column)), "true")


_TYPED: list[tuple[str, Callable[[pa.Array], pa.Array | None], dict[str, Any]]] = [
    (r"^\s*(?i:true|false)\s*$", _truths, {}),
    (_DAY, _instants(pa.date32()), {}),
    (_MOMENT, _instants(pa.timestamp("us")), {}),
    (_OFFSET, _instants(pa.timestamp("us", "UTC")), {"timezone": "UTC"}),
]
"""What is written in one way only, how it is read, and what the entry says of it."""


def _formats(words: pa.Array) -> list[NumberFormat]:
    """Return the formats of numbers, beside the plain one, whose signs are found among the words."""
    joined = set("".join(words.slice(0, 1000).to_pylist()))
    prefixes = [
        "",
        *(sign for sign in _MONEY if set(sign) <= joined and _stands(words, rf"^[\s(+-]*{re.escape(sign)}")),
    ]
    suffixes = [""]
    for sign in (*_UNITS, *_MONEY):
        if set(sign) <= joined and _stands(words, rf"[0-9.,]\s*{re.escape(sign)}[\s)]*$"):
            blank = " " if _stands(words, rf"[0-9.,] {re.escape(sign)}[\s)]*$") else ""
            suffixes.append(blank + sign)
    marks = [(thousands, decimal) for thousands, decimal in _MARKS if not thousands or thousands in joined]
    accounting = [False, True] if "(" in joined else [False]
    found = [
        NumberFormat(prefix, suffix, thousands, decimal, negative)
        for prefix, suffix, (thousands, decimal), negative in product(prefixes, suffixes, marks, accounting)
    ]
    return [form for form in found if form != NumberFormat()]


_MARKS = (
    ("", "."),
    (",", "."),
    ("'", "."),
    (" ", "."),
    ("\u00a0", "."),
    ("", ","),
    (".", ","),
    (" ", ","),
    ("\u00a0", ","),
)


def _stands(words: pa.Array, pattern: str) -> bool:
    return bool(_matches(words, pattern).any())


def _spelled(form: NumberFormat) -> dict[str, Any]:
    plain = NumberFormat()
    keys = ("prefix", "suffix", "thousands", "decimal", "accounting")
    return {key: getattr(form, key) for key in keys if getattr(form, key) != getattr(plain, key)}
