"""Numbers and dates in text, read column by column; what cannot be read is marked, never raised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.values.kernels import whole_numbers

Mask = NDArray[np.bool_]

_INTEGER = r"^[+-]?[0-9]{1,18}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?$"
_INFINITY = r"^[+-]?([iI][nN][fF]([iI][nN][iI][tT][yY])?)$"
_NAN = r"^[+-]?[nN][aA][nN]$"
_HUGE = 10**18
_UTF8 = (  # byte by byte: no overlong form, no surrogate, nothing beyond the last code point
    r"^(?:[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}"
    r"|\xED[\x80-\x9F][\x80-\xBF]|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2})*$"
)


def is_text(arrow_type: pa.DataType) -> bool:
    """Whether an Arrow type holds text."""
    return bool(
        pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type)
    )


def is_utf8(array: pa.Array) -> bool:
    """Whether every text is sound UTF-8, which Arrow neither demands of an array nor checks by itself."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def readable(array: pa.Array) -> pa.Array:
    """Return a text column as `large_string`, with a question mark for each text that is no sound UTF-8.

    Arrow's text functions raise on unsound bytes; a question mark is no number and no date, so the column's
    policy decides on such a row as on any other that cannot be read.
    """
    array = array.cast(pa.large_string())
    if is_utf8(array):
        return array
    return pc.if_else(pc.match_substring_regex(array.cast(pa.large_binary()), _UTF8), array, "?")


def digits_of(words: pa.Array) -> NDArray[np.int64]:
    """Return the numbers of texts that hold digits alone, 0 where there are none."""
    numbers: NDArray[np.int64] = (
        pc.if_else(pc.not_equal(words, ""), words, None).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    )
    return numbers


def read_floats(array: pa.Array) -> tuple[NDArray[np.float64], Mask]:
    """Numbers of a text column (NaN for null and "nan"), and a mask of the texts that are no number."""
    words = pc.utf8_trim_whitespace(readable(array))
    number, nan = _matches(words, _NUMBER), _matches(words, _NAN)
    infinite = _matches(words, _INFINITY)
    digits = pc.if_else(pa.array(number), pc.replace_substring_regex(words, r"^\+", ""), None)
    values: NDArray[np.float64] = digits.cast(pa.float64()).fill_null(float("nan")).to_numpy(zero_copy_only=False)
    negative = _matches(words, "^-")
    values = np.where(infinite, np.where(negative, -np.inf, np.inf), values)
    present: Mask = pc.is_valid(words).to_numpy(zero_copy_only=False)
    return values, present & ~number & ~nan & ~infinite


def plain_integers(array: pa.Array) -> tuple[NDArray[np.int64], Mask]:
    """Whole numbers of a text column that are written in the usual way, and a mask of them and of the missing ones.

    What they are is what `read_integers` says, many times as fast.
    """
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    _, starts, data = array.buffers()
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    ends: NDArray[Any] = np.zeros(1, width) if starts is None else np.frombuffer(starts, width)
    octets = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    values, plain = np.empty(len(array), np.int64), np.empty(len(array), np.bool_)
    missing: Mask = pc.is_null(array).to_numpy(zero_copy_only=False)
    whole_numbers(octets, ends[array.offset : array.offset + len(array) + 1], missing, values, plain)
    return values, plain


def read_integers(array: pa.Array) -> tuple[NDArray[np.int64], Mask, Mask]:
    """Whole numbers of a text column, a mask of those with a fraction (floored), and one of what is no number.

    Whole numbers of up to 18 digits are exact; larger ones become plus or minus 10^18.
    """
    words = pc.utf8_trim_whitespace(readable(array))
    # pandas writes whole numbers so wherever one of them is missing.
    words = pc.replace_substring_regex(words, r"^([+-]?[0-9]+)\.0*$", r"\1")
    whole = _matches(words, _INTEGER)
    digits = pc.if_else(pa.array(whole), pc.replace_substring_regex(words, r"^\+", ""), None)
    exact: NDArray[np.int64] = digits.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if bool(whole.all()):
        none = np.zeros(len(exact), dtype=bool)
        return exact, none, none
    floats, unreadable = read_floats(array)
    present: Mask = pc.is_valid(words).to_numpy(zero_copy_only=False)
    unreadable |= np.isnan(floats) & present
    floor = np.floor(np.where(np.isnan(floats), 0.0, floats))
    off = ~whole & ~unreadable & present & (floor != floats)
    return np.where(whole, exact, np.clip(floor, -_HUGE, _HUGE).astype(np.int64)), off, unreadable


def read_moments(array: pa.Array, form: str) -> pa.Array:
    """Time stamps in seconds of a text column in strptime's letters; null for null and for what is no date."""
    coded = readable(array).dictionary_encode()  # days repeat, and writing them back is slow
    return _different_moments(coded.dictionary, form).take(coded.indices)


def _different_moments(words: pa.Array, form: str) -> pa.Array:
    moments = pc.strptime(words, format=form, unit="s", error_is_null=True)
    # strptime takes 30 February for 2 March. A date that is one is written back with the same numbers; the rest
    # of the text may differ (3/2/2013 for 03/02/2013, Feb for February).
    back = pc.strftime(moments, format=form).cast(pa.large_string())
    if pc.all(pc.equal(words, back), min_count=0).as_py():
        return moments
    return pc.if_else(pc.equal(_numbers(words, form), _numbers(back, form)), moments, None)


def _numbers(words: pa.Array, form: str) -> pa.Array:
    """Return the numbers of each text, without leading noughts, and without the offset from UTC of a final %z."""
    if form.endswith("%z"):
        words = pc.replace_substring_regex(words, r"(Z|[+-][0-9]{2}:?[0-9]{2})$", "")
    words = pc.replace_substring_regex(words, "[^0-9]+", " ")
    return pc.replace_substring_regex(pc.ascii_trim_whitespace(words), r"\b0+([0-9])", r"\1")


def _matches(words: pa.Array, pattern: str) -> Mask:
    mask: Mask = pc.match_substring_regex(words, pattern).fill_null(False).to_numpy(zero_copy_only=False)
    return mask
