"""Convert columns to the types of the schema. A value never causes a failure: unreadable values become null."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.errors import DataError
from weft.schema import Column, ColumnError
from weft.values.storage import decimal_array, floats_of, missing_of, write_floats
from weft.values.text_numbers import (
    NumberFormat,
    blank_marked_values,
    digits_of,
    is_text,
    is_utf8,
    plain_integers,
    read_floats,
    read_integers,
    read_moments,
    repair_text,
)
from weft.values.timestamps import DAY, UNIT, moment_unit, read_lengths


def choose_released_type(column: Column, declared: pa.DataType) -> pa.DataType:
    """Return the Arrow type in which a column is released: the type declared by the source, which is public.

    The schema's type replaces Arrow's null type, which libraries assign to a column whose values all happen to be
    missing. The index type of a dictionary is widened until it fits all values of the schema, whatever the rows hold.
    """
    if pa.types.is_null(declared):
        return column.arrow_type()
    if pa.types.is_dictionary(declared):
        room = int(np.iinfo(declared.index_type.to_pandas_dtype()).max) + 1
        index = declared.index_type if room >= column.places else index_type(column)
        return pa.dictionary(index, choose_released_type(column, declared.value_type), declared.ordered)
    return declared


def index_type(column: Column) -> pa.DataType:
    """Return the smallest signed index type for a dictionary of the column's possible values."""
    return next(size for size in (pa.int8(), pa.int16(), pa.int32()) if column.places <= 2 ** (size.bit_width - 1))


Mask = NDArray[np.bool_]
_CLOCK = r"(?P<whole>[^ ]+ [0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)(?:\.(?P<fraction>[0-9]{1,9}))?"
_PARTS = rf"^{_CLOCK} ?(?P<zone>|Z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)$"
_UTC = ("UTC", "GMT", "Z", "ETC/UTC")
_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d", "%Y-%m-%d %H:%M")


def read_instants(words: pa.Array, wanted: pa.DataType, forms: Sequence[str], *, clip: bool) -> tuple[pa.Array, Mask]:
    """Parse text as dates or timestamps, each value independently; return them and a mask of unreadable values.

    Without `forms`, ISO text is expected, with optional seconds, fraction and offset from UTC. In a column with a time
    zone, offsets are applied, and text without an offset is local time of that zone; in other columns a nonzero offset
    is unreadable. In a column of plain dates, a time of day is dropped under clip and unreadable otherwise.
    """
    missing = missing_of(words)
    zone = wanted.tz if pa.types.is_timestamp(wanted) else None
    nanoseconds = np.zeros(len(words), np.int64)
    shifted = np.zeros(len(words), bool)
    if forms:
        moments = read_moments(words, *forms)
        seconds = _extract_seconds(moments)
    else:
        parts = pc.extract_regex(pc.replace_substring_regex(words, r"^(.{10})T", r"\1 "), _PARTS)
        fraction, offset = (pc.struct_field(parts, name) for name in ("fraction", "zone"))
        nanoseconds = digits_of(pc.utf8_rpad(fraction, width=9, padding="0"))
        plain = pc.coalesce(pc.struct_field(parts, "whole"), words)
        moments = read_moments(plain, *_FORMS)
        seconds = _extract_seconds(moments)
        away, shifted = _parse_offsets(offset)
        if zone is not None:
            naive = pc.equal(offset, "").fill_null(True).to_numpy(zero_copy_only=False)
            if zone.upper() not in _UTC:  # an ambiguous or nonexistent time gives the earliest one
                local = pc.assume_timezone(moments, zone, ambiguous="earliest", nonexistent="earliest")
                seconds = np.where(naive, _extract_seconds(local), seconds)
            seconds = np.where(naive, seconds, seconds - away)
    unreadable = missing_of(moments) & ~missing
    if zone is None:
        unreadable |= shifted & ~missing
    stored = pa.int32() if pa.types.is_date32(wanted) else pa.int64()
    if pa.types.is_date(wanted):
        days = seconds // 86_400
        if not clip:
            unreadable |= (seconds % 86_400 != 0) & ~missing
        values = days if pa.types.is_date32(wanted) else days * (DAY // UNIT["ms"])
    else:
        unit = UNIT[wanted.unit]
        bound = (2**63 - 1) // (UNIT["s"] // unit) - 1
        values = np.clip(seconds, -bound, bound) * (UNIT["s"] // unit) + nanoseconds // unit
    return pa.array(values, mask=missing | unreadable).cast(stored).cast(wanted), unreadable


def _extract_seconds(moments: pa.Array) -> NDArray[np.int64]:
    found: NDArray[np.int64] = moments.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return found


def _parse_offsets(zones: pa.Array) -> tuple[NDArray[np.int64], Mask]:
    """Return each offset from UTC in seconds, and whether it is nonzero."""
    parts = pc.extract_regex(zones, r"^(?P<sign>[+-])(?P<hours>[0-9]{2}):?(?P<minutes>[0-9]{0,2})$")
    hours, minutes = (digits_of(pc.struct_field(parts, name)) for name in ("hours", "minutes"))
    negative = pc.equal(pc.struct_field(parts, "sign"), "-").fill_null(False).to_numpy(zero_copy_only=False)
    seconds = (hours * 60 + minutes) * 60
    return np.where(negative, -seconds, seconds), seconds != 0


_TRUE = pa.array(["true", "t", "yes", "y", "on", "1"], pa.large_string())
_FALSE = pa.array(["false", "f", "no", "n", "off", "0"], pa.large_string())
_TRUTHS = pa.array(["false", "true"], pa.large_string())
_SECONDS = r"(?::(?P<second>[0-5][0-9])(?:\.(?P<fraction>[0-9]{1,9}))?)?"
_TIME = r"^(?P<hour>[01]?[0-9]|2[0-3]):(?P<minute>[0-5][0-9])" + _SECONDS + "$"
_TEXT_LIMIT = 10**18  # larger numbers in text are not distinguished


def interpret_values(array: pa.Array, column: Column, form: NumberFormat | None = None) -> pa.Array:
    """Replace markers by missing values and convert formatted numbers in text to plain digits.

    `form` is the number format of the file, the default for columns that declare none.
    """
    array = blank_marked_values(array, column.markers)
    form = column.number_format or form
    return array if form is None or not is_text(array.type) else form.plain(array).cast(array.type)


def adopt_type(array: pa.Array, wanted: pa.DataType, column: Column) -> pa.Array:
    """Convert an array to a type; unreadable values become null, or a DataError under the refuse policy.

    Privacy: values are converted one by one, so that a row never changes how another is interpreted, and the
    sensitivity of later queries is that of a single row.
    """
    made, unreadable = convert_type(array, wanted, column)
    if column.outside == "refuse":
        if is_text(wanted) and not is_utf8(made):
            raise DataError(f'column "{column.name}": a value is not UTF-8 text. Convert the table to UTF-8')
        if unreadable.any():
            raise DataError(f'column "{column.name}": {describe_remedy(column, wanted)}')
    return made


def describe_remedy(column: Column, wanted: pa.DataType) -> str:
    """Return the error text and the remedies for an unreadable value."""
    if pa.types.is_integer(wanted):
        hint = ' If it has a fraction, set type = "float64".'
    elif pa.types.is_time(wanted):
        hint = ' Declare its format, such as format = "%H:%M", or a finer step.'
    elif pa.types.is_date(wanted) or pa.types.is_timestamp(wanted) or column.text_format is not None:
        hint = ' Declare its format, such as format = "%d/%m/%Y", or a finer step.'
    else:
        hint = ""
    policy = ' Set outside = "clip" to count unreadable values as missing.' if "clip" in column.policies else ""
    marker = ' If it marks a missing value, list it: missing = ["?"].' if column.read else ""
    return f"a value cannot be read as {wanted}.{hint}{marker}{policy}"


def convert_type(array: pa.Array, wanted: pa.DataType, column: Column) -> tuple[pa.Array, Mask]:
    """Convert text, numbers, booleans or dates to a type; return them and a mask of unreadable values."""
    if array.type == wanted:
        return array, np.zeros(len(array), dtype=bool)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted), np.zeros(len(array), dtype=bool)
    if pa.types.is_time(wanted):
        return _convert_to_times(array, wanted, column)
    if pa.types.is_duration(wanted) and pa.types.is_duration(array.type):
        return _convert_to_instants(array, wanted, column)
    if pa.types.is_duration(wanted) and is_text(array.type):
        return _convert_to_spans(array, wanted, column)
    if pa.types.is_temporal(array.type) and not is_text(wanted):
        return _convert_to_instants(array, wanted, column)
    if is_text(wanted):
        return _write_as_csv_text(array, column).cast(wanted), np.zeros(len(array), dtype=bool)
    if is_text(array.type):
        if pa.types.is_integer(wanted):
            return _integers_in_text(array, wanted, column)
        array = _truths_as_numbers(repair_text(array), wanted)
    elif pa.types.is_boolean(array.type):
        array = array.cast(pa.int64())
    missing = missing_of(array)
    if pa.types.is_integer(wanted):
        return _finish_integers(_convert_to_integers(array, wanted), missing, wanted, column)
    if pa.types.is_boolean(wanted):
        return _convert_to_booleans(array, missing)
    if pa.types.is_date(wanted) or pa.types.is_timestamp(wanted):
        if not is_text(array.type):
            return pa.nulls(len(array), wanted), ~missing  # a number is not a date
        return read_instants(array, wanted, column.text_formats, clip=column.outside == "clip")
    if pa.types.is_floating(wanted) or pa.types.is_decimal(wanted):
        floats, unreadable = (
            read_floats(array) if is_text(array.type) else (_cast_to_floats(array), np.zeros_like(missing))
        )
        null = np.isnan(floats)
        if pa.types.is_floating(wanted):
            return write_floats(floats, null, wanted, nan=False), unreadable
        return _convert_to_decimals(floats, null, wanted), unreadable
    raise ColumnError(column.name, f"values cannot be read as {wanted}; choose another type", "type")


def _truths_as_numbers(words: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Replace "true" and "false" by 1 and 0 if the expected type is numeric, as for Boolean arrays."""
    if pa.types.is_boolean(wanted) or pa.types.is_temporal(wanted):
        return words
    truth = pc.index_in(pc.ascii_lower(words), value_set=_TRUTHS)
    return pc.if_else(pc.is_valid(truth), truth.cast(pa.large_string()), words)


Whole = tuple[NDArray[Any], Mask, Mask]
"""Integers, floored and clipped to their type; mask of values that this changed; mask of invalid numbers."""


def _finish_integers(read: Whole, missing: Mask, wanted: pa.DataType, column: Column) -> tuple[pa.Array, Mask]:
    values, lost, unreadable = read
    if column.outside != "clip":
        unreadable |= lost & ~missing
    return pa.array(values, type=wanted, mask=missing | unreadable), unreadable


def _integers_in_text(array: pa.Array, wanted: pa.DataType, column: Column) -> tuple[pa.Array, Mask]:
    """Parse plain digits in one fast pass, and only the other values with the slower parsers."""
    exact, plain = plain_integers(array)
    values, off = _clip_to_type(exact, wanted)
    unreadable = np.zeros(len(array), bool)
    rest = np.flatnonzero(~plain)
    if len(rest):
        words = _truths_as_numbers(repair_text(array).take(pa.array(rest)), wanted)
        values[rest], off[rest], unreadable[rest] = _convert_to_integers(words, wanted)
    return _finish_integers((values, off, unreadable), missing_of(array), wanted, column)


def _clip_to_type(whole: NDArray[Any], wanted: pa.DataType) -> tuple[NDArray[Any], Mask]:
    """Clip integers to the range of a type; return them and a mask of those that changed."""
    info, own = np.iinfo(wanted.to_pandas_dtype()), np.iinfo(whole.dtype)
    held = np.clip(whole, max(int(info.min), int(own.min)), min(int(info.max), int(own.max)))
    return held.astype(wanted.to_pandas_dtype()), held != whole


def _convert_to_integers(array: pa.Array, wanted: pa.DataType) -> Whole:
    dtype = np.dtype(wanted.to_pandas_dtype())
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    unreadable = np.zeros(len(array), dtype=bool)
    if pa.types.is_floating(array.type):
        floats = np.nan_to_num(floats_of(array), nan=0.0, posinf=np.inf, neginf=-np.inf)
        floor = np.floor(floats)
        over, under = floor >= float(high + 1), floor < float(low)  # both bounds are exact floats
        values = np.where(over | under, 0.0, floor).astype(dtype)
        values[over], values[under] = high, low
        return values, (floor != floats) | over | under, unreadable
    if is_text(array.type):
        whole, off, unreadable = read_integers(array)
        off = off | (whole >= _TEXT_LIMIT) | (whole <= -_TEXT_LIMIT)
    else:
        whole = array.fill_null(0).to_numpy(zero_copy_only=False)
        off = np.zeros(len(array), dtype=bool)
    held, changed = _clip_to_type(whole, wanted)
    return held, off | changed, unreadable


def _cast_to_floats(array: pa.Array) -> NDArray[np.float64]:
    return floats_of(array.cast(pa.float64(), safe=False))  # integers beyond 2^53 are rounded


def _convert_to_decimals(floats: NDArray[np.float64], null: Mask, wanted: pa.DataType) -> pa.Array:
    # The type's bound is not a float in general (10^16 - 1 would become 10^16), so the last clip is on integers.
    bound = 2.0**62 / 10.0**wanted.scale  # clip before the product, which may overflow
    unscaled = np.rint(np.clip(np.where(null, 0.0, floats), -bound, bound) * 10.0**wanted.scale).astype(np.int64)
    top = min(10**wanted.precision - 1, 2**62)
    return decimal_array(np.clip(unscaled, -top, top), wanted.scale, null).cast(wanted)


def _convert_to_booleans(array: pa.Array, missing: Mask) -> tuple[pa.Array, Mask]:
    # 1.0 equals 1 in text too: whether a library parsed the column as numbers depends on other rows.
    floats = read_floats(array)[0] if is_text(array.type) else _cast_to_floats(array)
    words = pc.ascii_trim_whitespace(pc.ascii_lower(array.cast(pa.large_string())))
    yes: Mask = pc.is_in(words, value_set=_TRUE).to_numpy(zero_copy_only=False) | (floats == 1)
    no: Mask = pc.is_in(words, value_set=_FALSE).to_numpy(zero_copy_only=False) | (floats == 0)
    return pa.array(yes, mask=~(yes | no)), ~(yes | no | missing)


def _convert_to_instants(array: pa.Array, wanted: pa.DataType, column: Column) -> tuple[pa.Array, Mask]:
    """Floor dates and timestamps to another unit; values that this changes are unreadable except under clip."""
    missing = missing_of(array)
    both, before, after = (array.type, wanted), moment_unit(array.type), moment_unit(wanted)
    if all(map(pa.types.is_duration, both)):
        before, after = (UNIT[kind.unit] for kind in both)
    if before is None or after is None:
        return pa.nulls(len(array), wanted), ~missing
    stored = array.cast(pa.int32() if pa.types.is_date32(array.type) else pa.int64()).cast(pa.int64())
    values = stored.fill_null(0).to_numpy(zero_copy_only=False)
    if before >= after:
        factor = before // after
        bound = (2**63 - 1) // factor
        made = np.clip(values, -bound, bound) * factor
        lost = np.abs(values) > bound
    else:
        made = values // (after // before)
        lost = values % (after // before) != 0
    if pa.types.is_date64(wanted):
        made, lost = made - made % (DAY // UNIT["ms"]), lost | (made % (DAY // UNIT["ms"]) != 0)
    if pa.types.is_date32(wanted):
        made, lost = _clip_to_32_bits(made, lost)
    unreadable = np.zeros_like(missing) if column.outside == "clip" else lost & ~missing
    whole = pa.array(made, mask=missing | unreadable)
    return (whole.cast(pa.int32()) if pa.types.is_date32(wanted) else whole).cast(wanted), unreadable


def _convert_to_spans(array: pa.Array, wanted: pa.DataType, column: Column) -> tuple[pa.Array, Mask]:
    """Parse durations from text and floor them; values that this changes are unreadable except under clip."""
    read, missing = read_lengths(array), missing_of(array)
    made, lost = read.held(UNIT[wanted.unit])
    unreadable = read.unreadable if column.outside == "clip" else read.unreadable | (lost & ~missing)
    return pa.array(made, mask=missing | unreadable).cast(wanted), unreadable


def _clip_to_32_bits(values: NDArray[np.int64], lost: Mask) -> tuple[NDArray[np.int64], Mask]:
    """Clip integers to 32 bits, and add those that changed to the mask."""
    info = np.iinfo(np.int32)
    held = np.clip(values, info.min, info.max)
    return held, lost | (held != values)


def _convert_to_times(array: pa.Array, wanted: pa.DataType, column: Column) -> tuple[pa.Array, Mask]:
    """Floor times of day from text or another unit; values that this changes are unreadable except under clip."""
    missing = missing_of(array)
    if is_text(array.type):
        parts = pc.extract_regex(repair_text(array), _TIME)
        digits = pc.utf8_rpad(pc.struct_field(parts, "fraction"), width=9, padding="0")
        pieces = [*(pc.struct_field(parts, part) for part in ("hour", "minute", "second")), digits]
        hour, minute, second, fraction = map(digits_of, pieces)
        nanoseconds = ((hour * 60 + minute) * 60 + second) * UNIT["s"] + fraction
        unreadable = missing_of(parts) & ~missing
    elif pa.types.is_time(array.type):
        stored = array.cast(pa.int32() if pa.types.is_time32(array.type) else pa.int64())
        nanoseconds = stored.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) * UNIT[array.type.unit]
        unreadable = np.zeros_like(missing)
    else:
        return pa.nulls(len(array), wanted), ~missing
    unit = UNIT[wanted.unit]
    units, lost = _clip_to_32_bits(nanoseconds // unit, nanoseconds % unit != 0)
    units = units if pa.types.is_time32(wanted) else nanoseconds // unit
    if column.outside != "clip":
        unreadable = unreadable | (lost & ~missing)
    whole = pa.array(units, mask=missing | unreadable)
    return (whole.cast(pa.int32()) if pa.types.is_time32(wanted) else whole).cast(wanted), unreadable


def _write_as_csv_text(array: pa.Array, column: Column) -> pa.Array:
    """Format values as in a CSV file: dates in the column's format, by default ISO."""
    if moment_unit(array.type) is None:
        return array
    form = column.text_format or ("%Y-%m-%d" if pa.types.is_date(array.type) else "%Y-%m-%d %H:%M:%S")
    moments = array.cast(pa.timestamp("s"), safe=False) if pa.types.is_date(array.type) else array
    if pa.types.is_timestamp(moments.type):
        moments = moments.cast(pa.int64()).cast(pa.timestamp(moments.type.unit)).cast(pa.timestamp("s"), safe=False)
    written = pc.strftime(moments, format=form)
    zoned = pa.types.is_timestamp(array.type) and array.type.tz is not None and column.text_format is None
    return pc.binary_join_element_wise(written, "+00:00", "") if zoned else written
