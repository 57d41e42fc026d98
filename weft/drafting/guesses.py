"""Guess a column's schema entry from its rows, by the first kind that recognises it.

Each guess is validated on the rows first, so that a table always fits its own draft.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.encoding.codec import Codec
from weft.errors import DataError, SchemaError
from weft.io.dialect import Dialect
from weft.io.text_to_types import convert_batch
from weft.schema import KINDS, Schema
from weft.schema.kinds import column_from_dict
from weft.schema.kinds.draft_facts import ColumnEvidence, Guess
from weft.schema.type_conversion import read_instants
from weft.values.bins import MAX_CODES
from weft.values.text_numbers import Marker, NumberFormat, blank_marked_values, matches_regex, read_floats, write_marker

_BESIDE = "weft column beside"  # second column: a schema with only ids is refused


def accepts_rows(name: str, entry: Mapping[str, Any], array: pa.ChunkedArray, dialect: Dialect | None) -> bool:
    """Return whether an entry accepts every row of a column; with a dialect, the column is text as stored in a file."""
    try:
        column = column_from_dict(name, dict(entry))
        beside = KINDS["boolean"](_BESIDE)
        schema = Schema((column, beside))
        table = pa.table({name: array, _BESIDE: pa.array([True]).take(pa.array([0] * len(array), pa.int64()))})
        batches = table.to_batches()
        if dialect is not None:
            batches = [convert_batch(batch, dialect.marking(schema), name, dialect.number_format) for batch in batches]
        codec = Codec(schema, batches[0].schema if batches else table.schema)
        for batch in batches:
            codec.encode(batch)
    except (DataError, SchemaError):
        return False
    return True


Mask = NDArray[np.bool_]

MARKERS = pa.array(
    [
        *("", "?", "??", ".", "..", "-", "--", "---", "*", "na", "n/a", "n.a.", "#n/a", "#n/a n/a", "<na>"),
        *("nan", "-nan"),
        *("nat", "none", "null", "nil", "#null!", "#value!", "#div/0!", "\\n", "unknown", "unk", "missing", "k.a."),
        *("not available", "not applicable", "not asked", "refused", "0000-00-00", "9999-99-99"),
    ]
)
"""Texts, in lower case, that usually represent a missing value."""

_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?\s*$|^\s*[+-]?(?i:inf(inity)?)\s*$"
_WHOLE = r"^\s*[+-]?[0-9]+(\.0*)?\s*$"
_NOUGHTS = r"^\s*[+-]?0[0-9]+\s*$"
_LONG_INTEGER = r"^\s*[+-]?[0-9]{19,}(\.0*)?\s*$"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?$"
_OFFSET = _MOMENT[:-1] + r" ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_MONEY = ("$", "US$", "€", "£", "¥", "₹", "CHF", "EUR", "USD", "GBP", "Fr.", "R$", "kr")
_UNITS = ("%", "‰", "kg", "mg", "cm", "mm", "km", "ml", "mmHg")
_MAX_MARKERS = 3  # maximum number of unknown words accepted as markers of missing values
_NUMBERS_EACH = 10  # distinct values required per unknown marker


@dataclass(frozen=True)
class TextReading:
    """One way to read a column of text."""

    values: pa.Array  # the rows in the resulting type, null where missing
    markers: tuple[Marker, ...] = ()
    told: dict[str, Any] = field(default_factory=dict)
    """Facts about the number format or time zone, for the column's entry."""


def iterate_readings(column: pa.Array, form: NumberFormat | None = None) -> Iterator[TextReading]:
    """Yield the possible readings of a column, most likely first; `form` is the number format of its file."""
    counted = pc.value_counts(column.drop_null())
    words, counts = counted.field("values"), counted.field("counts").to_numpy()
    if not len(words):
        return
    for pattern, read, told in _TYPED:
        yield from _try_reading(column, words, counts, matches_regex(words, pattern), read, told)
    if _has_match(words, _NOUGHTS):
        return  # a number would lose the leading zeros of 01014
    for each in [form or NumberFormat(), *([] if form else _guess_number_formats(words))]:
        plain = words if each == NumberFormat() else each.plain(words).cast(pa.string())
        dressing = {} if form else _describe_number_format(each)
        yield from _try_reading(
            column, words, counts, matches_regex(plain, _NUMBER), partial(_read_numbers, each), dressing
        )


def without_markers(column: pa.Array) -> TextReading | None:
    """Return a column without the usual markers of missing values, if it has both markers and other values."""
    words = pc.unique(column.drop_null())
    usual = _find_usual_markers(words)
    if not usual.any() or usual.all():
        return None
    found = words.filter(pa.array(usual))
    return TextReading(_blank_markers(column, found), _list_markers(found))


def _try_reading(
    column: pa.Array,
    words: pa.Array,
    counts: NDArray[np.int64],
    fits: Mask,
    read: Callable[[pa.Array], pa.Array | None],
    told: dict[str, Any],
) -> Iterator[TextReading]:
    """Yield the column as read by `read`, if all words fit or the others can be markers of missing values."""
    odd = words.filter(pa.array(~fits))
    few = len(odd) <= _MAX_MARKERS and int(fits.sum()) >= _NUMBERS_EACH * len(odd)
    likely = _find_usual_markers(odd).all() or (few and 2 * counts[fits].sum() > counts.sum())
    if not fits.any() or not likely:
        return
    made = read(_blank_markers(column, odd))
    if made is not None:
        yield TextReading(made, _list_markers(odd), told)


def _find_usual_markers(words: pa.Array) -> Mask:
    small = pc.ascii_lower(pc.ascii_trim_whitespace(words))
    found: Mask = pc.is_in(small, value_set=MARKERS).to_numpy(zero_copy_only=False)
    return found


def _list_markers(odd: pa.Array) -> tuple[Marker, ...]:
    return tuple(sorted({word.strip() for word in odd.to_pylist()}))


def _blank_markers(column: pa.Array, odd: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_in(column, value_set=odd), pa.scalar(None, column.type), column) if len(odd) else column


def _read_numbers(form: NumberFormat, column: pa.Array) -> pa.Array | None:
    """Read numbers written in one format, as integers if all are whole, otherwise as floats."""
    plain = column if form == NumberFormat() else form.plain(column)
    present = plain.drop_null()
    if matches_regex(present, _LONG_INTEGER).any():
        return None  # 19 or more digits may exceed 64 bits
    if matches_regex(present, _WHOLE).all():
        digits = pc.replace_substring_regex(pc.utf8_trim_whitespace(plain), r"^\+?(-?[0-9]+)(\.0*)?$", r"\1")
        return digits.cast(pa.int64())
    values, unreadable = read_floats(plain)
    return None if unreadable.any() else pa.array(values, mask=np.isnan(values))


def _read_instants(wanted: pa.DataType, column: pa.Array) -> pa.Array | None:
    made, unreadable = read_instants(column.cast(pa.large_string()), wanted, (), clip=False)
    return None if unreadable.any() else made


_TYPED: list[tuple[str, Callable[[pa.Array], pa.Array | None], dict[str, Any]]] = [
    (r"^\s*(?i:true|false)\s*$", lambda column: pc.equal(pc.ascii_lower(pc.ascii_trim_whitespace(column)), "true"), {}),
    (_DAY, partial(_read_instants, pa.date32()), {}),
    (_MOMENT, partial(_read_instants, pa.timestamp("us")), {}),
    (_OFFSET, partial(_read_instants, pa.timestamp("us", "UTC")), {"timezone": "UTC"}),
]
"""Types with one notation: pattern, reader, and facts for the entry."""


def _guess_number_formats(words: pa.Array) -> list[NumberFormat]:
    """Return the number formats, other than the plain one, whose symbols occur in the words."""
    joined = set("".join(words.slice(0, 1000).to_pylist()))
    prefixes = [
        "",
        *(sign for sign in _MONEY if set(sign) <= joined and _has_match(words, rf"^[\s(+-]*{re.escape(sign)}")),
    ]
    suffixes = [""]
    for sign in (*_UNITS, *_MONEY):
        if set(sign) <= joined and _has_match(words, rf"[0-9.,]\s*{re.escape(sign)}[\s)]*$"):
            blank = " " if _has_match(words, rf"[0-9.,] {re.escape(sign)}[\s)]*$") else ""
            suffixes.append(blank + sign)
    marks = [(thousands, decimal) for thousands, decimal in _MARKS if not thousands or thousands in joined]
    accounting = [False, True] if "(" in joined else [False]
    found = [
        NumberFormat(prefix, suffix, thousands, decimal, negative)
        for prefix, suffix, (thousands, decimal), negative in product(prefixes, suffixes, marks, accounting)
    ]
    return [form for form in found if form != NumberFormat()]


_MARKS = (*product(("", ",", "'", " ", "\u00a0"), "."), *product(("", ".", " ", "\u00a0"), ","))


def _has_match(words: pa.Array, pattern: str) -> bool:
    return bool(matches_regex(words, pattern).any())


def _describe_number_format(form: NumberFormat) -> dict[str, Any]:
    plain = NumberFormat()
    keys = ("prefix", "suffix", "thousands", "decimal", "accounting")
    return {key: getattr(form, key) for key in keys if getattr(form, key) != getattr(plain, key)}


_NUMBERS = ("integer", "real")
_POINTED = r"^[+-]?[0-9]+\.0+$"
_ISO = (
    (r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}$", "%Y-%m-%dT%H:%M:%S"),
    (r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}$", "%Y-%m-%dT%H:%M"),
)
_FORMATTED = ("datetime", "time", "duration")


def guess_column(column: pa.ChunkedArray, name: str, *, declared: bool = True) -> Guess | None:
    """Guess the entry of a column, with every fact marked as read from the rows; None if no kind fits its type.

    `declared` is true if the source declares the type, and false if the type is a guess itself.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    kind = column.type
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        column = pc.if_else(pc.is_nan(column), None, column)
    missing = column.null_count > 0 or pa.types.is_null(kind)
    evidence = ColumnEvidence(name, _convert_whole_floats(_flatten_column(column)))
    found = next((guess for each in KINDS.values() if (guess := each.recognise(evidence)) is not None), None)
    return None if found is None else _mark_from_data(found, missing, decided=declared and _type_decides_kind(kind))


def guess_written(column: pa.ChunkedArray, name: str, dialect: Dialect) -> Guess | None:
    """Guess the entry of a text column of a file, including its markers of missing values."""
    text = _flatten_column(column, keep_nulls=True)
    given = _find_present_markers(text, dialect.missing)
    kept = blank_marked_values(text, ["", *given])
    if pc.any(pc.match_substring_regex(text, r"^\s+$")).as_py():
        given = [*given, ""]  # values of whitespace only are missing: the empty marker matches them
    for reading, kinds in _iterate_ways(kept, dialect):
        found = guess_column(pa.chunked_array([reading.values]), name, declared=False)
        if found is None or (kinds and found.entry["kind"] not in kinds):
            continue
        made = _add_reading_facts(_guess_formatted_number(found, reading), reading, given)
        for each in (_add_spelling_facts(made, reading, kept), made):
            if accepts_rows(name, each.entry, column, dialect):
                return each
    listed = _list_texts(kept, given)
    return listed if listed is not None and accepts_rows(name, listed.entry, column, dialect) else None


def _add_spelling_facts(found: Guess, reading: TextReading, kept: pa.Array) -> Guess:
    """Add facts that preserve the spelling of values: 12.0 for whole numbers, the T in ISO timestamps."""
    if reading.told or found.entry["kind"] not in ("integer", "datetime"):
        return found
    words = pc.utf8_trim_whitespace(kept.filter(pc.is_valid(reading.values)))
    if found.entry["kind"] == "integer":
        return _with_facts(found, {"type": "float64"} if _compute_match_share(words, _POINTED) > 1 / 2 else {})
    form = next((form for pattern, form in _ISO if _compute_match_share(words, pattern) == 1), None)
    return _with_facts(found, {} if form is None or "format" in found.entry else {"format": form})


def _compute_match_share(words: pa.Array, pattern: str) -> float:
    return float(pc.mean(pc.match_substring_regex(words, pattern)).as_py() or 0)


def _with_facts(found: Guess, facts: dict[str, str]) -> Guess:
    """Add facts that were read from the rows to a guess."""
    entry = dict(found.entry)
    marks = entry.pop("from_data")
    marks = [*marks, *(key for key in facts if key not in marks)]
    return replace(found, entry=entry | facts | {"from_data": marks})


def guess_frame(column: pa.ChunkedArray, name: str) -> Guess | None:
    """Guess the entry of a data frame column, including the type of its synthetic values.

    The types of a frame may be guesses of its library. No release relies on them: they are facts to be reviewed.
    """
    found, kind = guess_column(column, name), column.type
    if found is None:
        return None
    facts: dict[str, str] = {}
    if found.entry["kind"] == "integer" and pa.types.is_float64(kind):
        facts = {"type": "float64"}
    elif found.entry["kind"] == "datetime" and pa.types.is_timestamp(kind):
        zone = f", tz={kind.tz}" if kind.tz else ""
        plain = all(len(end) == len("2013-01-31") for end in found.entry["range"])
        facts = {"timezone": kind.tz} if kind.tz else {}
        facts |= {"type": f"timestamp[{kind.unit}{zone}]"} if kind.unit != "us" or plain else {}
    for each in (_with_facts(found, facts), found):
        if accepts_rows(name, each.entry, column, None):
            return each
    return None


def _iterate_ways(kept: pa.Array, dialect: Dialect) -> Iterator[tuple[TextReading, Sequence[str]]]:
    """Yield readings of a column, each with the kinds that it may be used for (empty: all)."""
    for reading in iterate_readings(kept, dialect.number_format):
        yield reading, ()
    if (reduced := without_markers(kept)) is not None:
        yield reduced, _FORMATTED
    yield TextReading(kept), ()


def _guess_formatted_number(found: Guess, reading: TextReading) -> Guess:
    """Change the guess to a number if values have a number format: codes and ids have none."""
    if not reading.told or "timezone" in reading.told or found.entry["kind"] in _NUMBERS:
        return found
    ends = pc.min_max(reading.values)
    kind = "integer" if pa.types.is_integer(reading.values.type) else "real"
    kept = {key: value for key, value in found.entry.items() if key == "missing"}
    entry = {"kind": kind, "range": [ends["min"].as_py(), ends["max"].as_py()], **kept}
    return Guess(entry | {"from_data": ["kind", *KINDS[kind].flipped]}, "Numbers.")


def _add_reading_facts(found: Guess, reading: TextReading, given: Sequence[Marker]) -> Guess:
    """Add the number format or time zone and the markers of missing values to a guess."""
    entry, reason = dict(found.entry), found.reason
    marks = entry.pop("from_data")
    if reading.told and KINDS[entry["kind"]].modelled:
        entry |= reading.told
    markers = list(dict.fromkeys([*given, *reading.markers]))
    if markers and KINDS[entry["kind"]].modelled:
        entry["missing"] = markers
    if reading.markers and KINDS[entry["kind"]].modelled:
        reason = f"{reason} Some words are read as missing values."
    return replace(found, entry=entry | {"from_data": marks}, reason=reason)


def _list_texts(kept: pa.Array, given: Sequence[Marker]) -> Guess | None:
    """Guess a category of all texts, if no other guess fits."""
    values = sorted(pc.unique(kept.drop_null()).to_pylist()) or ["unknown"]
    if len(values) > MAX_CODES:
        return None
    missing = {"missing": list(given) or True} if kept.null_count else {}
    marks = ["kind", *KINDS["category"].flipped]
    return Guess({"kind": "category", "values": values, **missing, "from_data": marks}, "Text with various values.")


def _find_present_markers(text: pa.Array, markers: Sequence[Marker]) -> list[Marker]:
    if not markers:
        return []
    held = set(pc.unique(pc.ascii_trim_whitespace(text)).to_pylist())
    return [marker for marker in markers if write_marker(marker) in held]


def _flatten_column(column: pa.ChunkedArray, keep_nulls: bool = False) -> pa.Array:
    values = (column if keep_nulls else column.drop_null()).combine_chunks()
    return pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values


def _convert_whole_floats(values: pa.Array) -> pa.Array:
    """Convert floats to integers if all are whole and exact; return any other array unchanged."""
    if not (pa.types.is_float32(values.type) or pa.types.is_float64(values.type)) or not len(values):
        return values
    floats = values.cast(pa.float64()).to_numpy()
    exact = 2.0**24 if pa.types.is_float32(values.type) else 2.0**53
    whole = np.isfinite(floats).all() and (floats == np.floor(floats)).all() and np.abs(floats).max() <= exact
    return pa.array(floats.astype(np.int64)) if whole else values


def _type_decides_kind(kind: pa.DataType) -> bool:
    """Return whether a declared type alone determines the kind, so that no row can change it."""
    return bool(
        pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    )


def _mark_from_data(guess: Guess, missing: bool, decided: bool) -> Guess:
    entry = dict(guess.entry)
    kind = KINDS[entry["kind"]]
    if missing and kind.modelled:
        entry["missing"] = True
    return replace(guess, entry=entry | {"from_data": [*([] if decided else ["kind"]), *kind.flipped]})
