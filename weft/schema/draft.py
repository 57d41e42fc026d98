"""A first schema, guessed from a file, for a person to review.

What it holds was read from private rows. Each such fact is marked in `from_data`, and a schema that still
carries a mark is refused where it matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.schema.carriers import Decimals
from weft.schema.columns import EACH_LIMIT, MAX_CODES
from weft.schema.moments import DAY, UNIT, name_step, parse_step, write_moment
from weft.schema.text import is_text, read_moments
from weft.schema.toml import write_column, write_entry

FEW = 30
"""A wide whole-number column with at most this many different values is drafted as a category."""
SPIKE = 0.2
"""Share of the rows at one value of a wide numeric column from which it is suggested as special."""
_ID_SHARE = 0.9
_MANY = 1000
_FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y")
_NATURAL_STEPS = ("7d", "1d", "1h", "30min", "15min", "1min", "1s", "1ms", "1us", "1ns")
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_HEADER = """\
# Schema of {name}, drafted from the file itself. Review it before use.
#
# A schema states what is publicly known about each column. What stands here was read from private rows, so
# releasing anything made with it could reveal, say, that someone has the highest age. Those facts are listed in
# each column's from_data. For each one: replace it by what you know without looking at the rows (a code book, a
# law, common sense: range = [0, 120]), then take its name out of from_data. Once no from_data is left, the schema
# is public and so is everything that depends on it alone.
#
# If one person can have several rows, name the id column that tells them apart (rows without an id are left out):
# unit = "person_id"
# rows_per_unit = 5
"""


@dataclass(frozen=True)
class Guess:
    """A column's entry in the draft, and why."""

    entry: dict[str, Any]
    reason: str


def draft(data: pa.Table, name: str) -> str:
    """Return a commented TOML schema that loads, and into which this table encodes; `name` is for the heading."""
    guesses = {field: _guess(data.column(field), field) for field in data.column_names}
    parts = [_HEADER.format(name=name)]
    if any(guess is None for guess in guesses.values()):
        parts.append(write_entry("extra_columns", "ignore"))
    for field, guess in guesses.items():
        if guess is None:
            parts.append(f"# Left out: {_one_line(field)}, for its type {data.schema.field(field).type} has no kind.\n")
        else:
            parts.append(f"# {guess.reason}\n" + write_column(field, guess.entry))
    return "\n".join(parts)


def _guess(column: pa.ChunkedArray, name: str) -> Guess | None:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    kind = column.type
    if pa.types.is_floating(kind) and not pa.types.is_float16(kind):
        column = pc.if_else(pc.is_nan(column), None, column)
    missing = column.null_count > 0 or pa.types.is_null(kind)
    values = column.drop_null().combine_chunks()
    values = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_null(kind):
        guess: Guess | None = Guess({"kind": "category", "values": ["unknown"]}, "Nothing but missing values.")
    elif pa.types.is_boolean(kind):
        guess = Guess({"kind": "boolean"}, "True or false.")
    elif is_text(kind):
        guess = _text(values)
    elif pa.types.is_integer(kind):
        guess = _whole(values.cast(pa.uint64() if pa.types.is_uint64(kind) else pa.int64()).to_numpy(), name)
    elif pa.types.is_float32(kind) or pa.types.is_float64(kind):
        guess = _float(values.cast(pa.float64()).to_numpy(), np.float32 if pa.types.is_float32(kind) else np.float64)
    elif pa.types.is_decimal128(kind):
        guess = _decimal(values, kind)
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        guess = _moment(values)
    else:
        guess = None
    return None if guess is None else _marked(guess, missing)


def _marked(guess: Guess, missing: bool) -> Guess:
    entry = dict(guess.entry)
    facts = [key for key in entry if key not in ("kind", "outside")]
    if entry["kind"] != "id":
        if missing:
            entry["missing"] = True
        # Finding no missing value is as much read from the rows as finding one.
        facts += [] if "missing" in facts else ["missing"]
    return Guess(entry | ({"from_data": facts} if facts else {}), guess.reason)


def _text(values: pa.Array) -> Guess:
    if not len(values):
        return Guess({"kind": "category", "values": ["unknown"]}, "No value was seen: list the possible ones.")
    different = pc.unique(values)
    if len(different) > FEW and (form := _date_format(different)) is not None:
        moments = read_moments(values, form)
        guess = _moment(moments)
        return Guess({**guess.entry, "format": form}, f"Text that reads as dates in the format {form}.")
    if _looks_unique(len(different), len(values)):
        return Guess({"kind": "id", "pattern": _pattern(different)}, "Nearly every value differs: an id, made anew.")
    listed = sorted(different.to_pylist())
    reason = "Text with a limited number of different values."
    if len(listed) > _MANY:
        reason = "Text with very many different values: keep the common ones and declare other, or make it an id."
    return Guess({"kind": "category", "values": listed}, reason)


def _looks_unique(different: int, rows: int) -> bool:
    return different > MAX_CODES or (rows >= 20 and different > _ID_SHARE * rows)


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


def _one_line(text: str) -> str:
    return " ".join(text.split())
