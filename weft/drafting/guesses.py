"""What a column looks like from its rows: the entry that a draft proposes for it, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.schema.naming import names_code, names_id
from weft.values.instants import DAY, UNIT, name_step, parse_step, write_moment
from weft.values.limits import EACH_LIMIT, MAX_CODES
from weft.values.storage import Decimals
from weft.values.text import is_text, read_moments

FEW = 30
"""A wide whole-number column with at most this many different values is drafted as a category."""
MANY = 100
"""More texts than this are not listed without a word about it."""
SPIKE = 0.2
"""Share of the rows at one value of a wide numeric column from which it is suggested as special."""
_ID_SHARE = 0.9
_SOMEBODY = "Many values with a few rows each: the id of somebody who has several, made anew for each row."
_ROWS_EACH = 20  # rows of one person, on average: with more, a text is a place or a device rather than somebody
_FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y")
_NATURAL_STEPS = ("7d", "1d", "1h", "30min", "15min", "1min", "1s", "1ms", "1us", "1ns")
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


@dataclass(frozen=True)
class Guess:
    """A column's entry in the draft, and why."""

    entry: dict[str, Any]
    reason: str
    repeats: bool = False
    """Whether it looks like the id of somebody who has several rows."""


def guess(
    column: pa.ChunkedArray, name: str, written: pa.ChunkedArray | None = None, *, declared: bool = True
) -> Guess | None:
    """Guess what a column is (None: no kind fits its type), with every fact marked as read from the rows.

    `written` is the column as text, where words in it such as NA were taken for missing values. `declared` says whether
    its type is the source's own, and not itself a guess.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    kind = column.type
    if pa.types.is_floating(kind) and not pa.types.is_float16(kind):
        column = pc.if_else(pc.is_nan(column), None, column)
    missing = column.null_count > 0 or pa.types.is_null(kind)
    values = _flat(column)
    if pa.types.is_null(kind):
        found: Guess | None = Guess({"kind": "category", "values": ["unknown"]}, "Nothing but missing values.")
    elif pa.types.is_boolean(kind):
        found = Guess({"kind": "boolean"}, "True or false.")
    elif is_text(kind):
        found = _text(values, name)
    elif pa.types.is_integer(kind):
        found = _whole(values.cast(pa.uint64() if pa.types.is_uint64(kind) else pa.int64()).to_numpy(), name)
    elif pa.types.is_float32(kind) or pa.types.is_float64(kind):
        found = _float(values.cast(pa.float64()).to_numpy(), np.float32 if pa.types.is_float32(kind) else np.float64)
    elif pa.types.is_decimal128(kind):
        found = _decimal(values, kind)
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        found = _moment(values)
    else:
        found = None
    if found is None:
        return None
    if written is not None and found.entry["kind"] == "category":
        return guess(written, name, declared=declared)  # its values must all be of one type
    if written is not None and found.entry["kind"] != "id":
        reason = f"{found.reason} Words in it, such as NA, count as missing."
        found = Guess(found.entry | {"outside": "clip"}, reason)
    return _marked(found, missing, decided=declared and _decides(kind))


def _decides(kind: pa.DataType) -> bool:
    """Whether a declared type alone says which kind a column is, so that no row can flip it."""
    return bool(
        pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    )


def _flat(column: pa.ChunkedArray) -> pa.Array:
    values = column.drop_null().combine_chunks()
    return pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values


FLIPPED = {
    "category": ("values", "missing"),
    "boolean": ("missing", "outside"),
    "integer": ("range", "step", "special", "missing", "outside"),
    "real": ("range", "decimals", "special", "missing", "outside"),
    "datetime": ("range", "step", "format", "missing", "outside"),
    "id": ("pattern",),
}
"""The facts of each kind that a single row can flip: that one is absent from a draft was read from the rows too."""


def _marked(guess: Guess, missing: bool, decided: bool) -> Guess:
    entry = dict(guess.entry)
    kind = entry["kind"]
    if missing and kind != "id":
        entry["missing"] = True
    facts = [*([] if decided else ["kind"]), *FLIPPED[kind]]
    return replace(guess, entry=entry | {"from_data": facts})


def _text(values: pa.Array, name: str) -> Guess:
    if not len(values):
        return Guess({"kind": "category", "values": ["unknown"]}, "No value was seen: list the possible ones.")
    different, counts = (pc.value_counts(values).field(part) for part in ("values", "counts"))
    if len(different) > FEW and (form := _date_format(different)) is not None:
        moments = read_moments(values, form)
        guess = _moment(moments)
        return Guess({**guess.entry, "format": form}, f"Text that reads as dates in the format {form}.")
    pattern = _pattern(different)
    named = pattern != "{}" or names_id(name)
    if _looks_unique(len(different), len(values)):
        reason = "Nearly every value differs: an id, made anew."
        return Guess({"kind": "id", "pattern": pattern}, reason, repeats=named and len(different) < len(values))
    if named and not names_code(name) and _looks_like_somebody(counts.to_numpy(), name):
        return Guess({"kind": "id", "pattern": pattern}, _SOMEBODY, repeats=True)
    reason = "Text with a limited number of different values."
    if len(different) > MANY:
        reason = "Text with very many different values: keep the common ones and declare other, or make it an id."
    return Guess({"kind": "category", "values": sorted(different.to_pylist())}, reason)


def _looks_unique(different: int, rows: int) -> bool:
    return different > MAX_CODES or (rows >= 20 and different > _ID_SHARE * rows)


def _looks_like_somebody(counts: NDArray[Any], name: str) -> bool:
    """Whether values repeat as persons do: many of them, with a few rows each, and none with very many."""
    mean = counts.mean()
    return bool(
        len(counts) > (FEW if names_id(name) else MANY) and 1 < mean <= _ROWS_EACH and counts.max() <= 10 * mean
    )


def _date_format(words: pa.Array) -> str | None:
    for form in _FORMATS:
        moments = read_moments(words, form)
        if (
            moments.null_count == 0
            and pc.all(pc.equal(pc.strftime(moments, format=form), words.cast("string"))).as_py()
        ):
            return form
    return None


def _pattern(words: pa.Array) -> str:
    if pc.all(pc.match_substring_regex(words, _UUID)).as_py():
        return "{uuid}"
    parts = pc.extract_regex(words, r"^(?P<head>[^0-9{}]*)(?P<digits>[0-9]+)$")
    heads = pc.unique(pc.struct_field(parts, "head"))
    if parts.null_count or len(heads) != 1:
        return "{}"
    widths = pc.unique(pc.utf8_length(pc.struct_field(parts, "digits"))).to_pylist()
    return f"{heads[0].as_py()}{{:0{widths[0]}d}}" if len(widths) == 1 and widths[0] < 19 else f"{heads[0].as_py()}{{}}"


def _whole(values: NDArray[Any], name: str) -> Guess:
    if not len(values):
        return Guess({"kind": "integer", "range": [0, 1]}, "No value was seen: give the possible range.")
    low, high = int(values.min()), int(values.max())
    different, counts = np.unique(values, return_counts=True)
    if (
        len(different) == len(values)
        and len(values) >= 20
        and (high - low + 1 == len(values) or name.lower().endswith(("id", "_no", "number", "key")))
    ):
        return Guess({"kind": "id", "pattern": "{}"}, "Every value differs: an id, made anew.")
    if names_id(name) and _looks_like_somebody(counts, name):
        return Guess({"kind": "id", "pattern": "{}"}, _SOMEBODY, repeats=True)
    step = _common_step(different)
    if (high - low) // step + 1 <= EACH_LIMIT:
        entry = {"kind": "integer", "range": [low, high]} | ({"step": step} if step > 1 else {})
        return Guess(entry, "Whole numbers, few enough for one code each.")
    if len(different) <= FEW:
        return Guess({"kind": "category", "values": different.tolist()}, "Whole numbers that look like codes.")
    entry = {"kind": "integer", "range": [low, high]} | ({"step": step} if step > 1 else {})
    return _with_spikes(Guess(entry, "Whole numbers over a wide range, in equal-width bins."), different, counts)


def _common_step(different: NDArray[Any]) -> int:
    gaps = np.unique(np.diff(different).view(np.uint64))  # modular, so exact even across the whole 64-bit range
    step = reduce(math.gcd, (int(gap) for gap in gaps[:10_000]), 0)
    # With very many different gaps the rest must agree too, or the step is 1.
    return step if step and step < 2**63 and bool((gaps % np.uint64(step) == 0).all()) else 1


def _with_spikes(guess: Guess, different: NDArray[Any], counts: NDArray[Any]) -> Guess:
    spikes = different[counts > SPIKE * counts.sum()].tolist()
    if not spikes or len(different) <= len(spikes):
        return guess
    return Guess(guess.entry | {"special": spikes}, f"{guess.reason} Values that very many rows share are special.")


def _float(values: NDArray[np.float64], dtype: type[np.floating[Any]]) -> Guess:
    finite = values[np.isfinite(values)] + 0.0
    if not len(finite):
        guess = Guess({"kind": "real", "range": [0.0, 1.0]}, "No finite value was seen: give the possible range.")
    else:
        different, counts = np.unique(finite, return_counts=True)
        exact = 2.0**24 if dtype is np.float32 else 2.0**53
        if len(finite) == len(values) and (finite == np.floor(finite)).all() and np.abs(finite).max() <= exact:
            return _whole(finite.astype(np.int64), "")
        entry: dict[str, Any] = {"kind": "real", "range": [float(different[0]), float(different[-1])]}
        places = _decimals(different, dtype)
        if places is not None:
            entry["decimals"] = places
        guess = _with_spikes(Guess(entry, "Numbers with a fraction, in equal-width bins."), different, counts)
    if len(finite) < len(values):
        # Infinities fit no range: only the clip policy takes them, and it needs a place for missing values.
        return Guess(guess.entry | {"outside": "clip", "missing": True}, f"{guess.reason} Infinite values are clipped.")
    return guess


def _decimals(different: NDArray[np.float64], dtype: type[np.floating[Any]]) -> int | None:
    top = float(np.abs(different).max())
    for places in range(7):
        if top * 10.0**places > 2.0**50:
            return None
        back = (np.rint(different * 10.0**places) / 10.0**places).astype(dtype).astype(np.float64)
        if np.array_equal(back, different):
            return places
    return None


def _decimal(values: pa.Array, kind: pa.DataType) -> Guess:
    if not len(values):
        return Guess({"kind": "real", "range": [0.0, 1.0]}, "No value was seen: give the possible range.")
    different, counts = np.unique(Decimals(kind).read(values).values, return_counts=True)
    ends = pc.min_max(values)
    low, high = float(ends["min"].as_py()), float(ends["max"].as_py())
    # A float nearest to a long decimal may lie inside the range; step outwards where it does.
    low = math.nextafter(low, -math.inf) if low > ends["min"].as_py() else low
    high = math.nextafter(high, math.inf) if high < ends["max"].as_py() else high
    entry = {"kind": "real", "range": [low, high], "decimals": min(kind.scale, 18)}
    guess = Guess(entry, "Decimal numbers, in equal-width bins.")
    return _with_spikes(guess, different / 10.0**kind.scale, counts) if abs(high) < 1e9 > abs(low) else guess


def _moment(values: pa.Array) -> Guess:
    date32, stamp = pa.types.is_date32(values.type), pa.types.is_timestamp(values.type)
    unit = DAY if date32 else UNIT[values.type.unit] if stamp else UNIT["ms"]
    zoned = stamp and values.type.tz is not None
    if not len(values):
        return Guess({"kind": "datetime", "range": ["2000-01-01", "2029-12-31"]}, "No value was seen: give the range.")
    different = np.unique(values.cast(pa.int32() if date32 else pa.int64()).to_numpy())
    low, high = int(different[0]) * unit, int(different[-1]) * unit
    common = _common_step(different.astype(np.int64)) * unit if len(different) > 1 else math.gcd(low, DAY)
    step = next(size for size in map(parse_step, _NATURAL_STEPS) if common % size == 0)
    days = not zoned and low % DAY == 0 and step % DAY == 0
    entry = {
        "kind": "datetime",
        "range": [write_moment(low, days, zoned), write_moment(high, days, zoned)],
        "step": name_step(step),
    }
    return Guess(entry, "Dates." if days else "Moments, in equal-width bins.")
