"""Parsing of numbers and dates in text columns; unreadable texts are marked, never raised."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.values.digit_kernels import whole_numbers

Mask = NDArray[np.bool_]

_INTEGER = r"^[+-]?[0-9]{1,18}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?$"
_INFINITY = r"^[+-]?([iI][nN][fF]([iI][nN][iI][tT][yY])?)$"
_NAN = r"^[+-]?[nN][aA][nN]$"
_HUGE = 10**18
_UTF8 = (  # by bytes: no overlong form, no surrogate, nothing beyond the last code point
    r"^(?:[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}"
    r"|\xED[\x80-\x9F][\x80-\xBF]|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2})*$"
)


def is_text(arrow_type: pa.DataType) -> bool:
    """Return whether an Arrow type holds text."""
    return bool(
        pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type)
    )


def is_utf8(array: pa.Array) -> bool:
    """Return whether every text is valid UTF-8, which Arrow neither requires of an array nor checks by default."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def repair_text(array: pa.Array) -> pa.Array:
    """Return a text column as `large_string`, with a question mark for each text that is not valid UTF-8.

    Arrow's text functions raise on invalid bytes; a question mark is unreadable, so that the column's policy applies.
    """
    array = array.cast(pa.large_string())
    if is_utf8(array):
        return array
    return pc.if_else(pc.match_substring_regex(array.cast(pa.large_binary()), _UTF8), array, "?")


def digits_of(words: pa.Array) -> NDArray[np.int64]:
    """Return the numbers of texts that consist of digits, 0 for empty or missing texts."""
    numbers: NDArray[np.int64] = (
        pc.if_else(pc.not_equal(words, ""), words, None).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    )
    return numbers


def read_floats(array: pa.Array) -> tuple[NDArray[np.float64], Mask]:
    """Return the numbers of a text column (NaN for null and "nan"), and a mask of texts that are not numbers."""
    words = pc.utf8_trim_whitespace(repair_text(array))
    number, nan = matches_regex(words, _NUMBER), matches_regex(words, _NAN)
    infinite = matches_regex(words, _INFINITY)
    digits = pc.if_else(pa.array(number), pc.replace_substring_regex(words, r"^\+", ""), None)
    values: NDArray[np.float64] = digits.cast(pa.float64()).fill_null(float("nan")).to_numpy(zero_copy_only=False)
    negative = matches_regex(words, "^-")
    values = np.where(infinite, np.where(negative, -np.inf, np.inf), values)
    present: Mask = pc.is_valid(words).to_numpy(zero_copy_only=False)
    return values, present & ~number & ~nan & ~infinite


def plain_integers(array: pa.Array) -> tuple[NDArray[np.int64], Mask]:
    """Return plainly written whole numbers of a text column, and a mask of them and nulls: a fast `read_integers`."""
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
    """Return whole numbers (beyond 18 digits: +-10^18), a mask of fractions (floored), and one of invalid texts."""
    words = pc.utf8_trim_whitespace(repair_text(array))
    # pandas writes whole numbers as 3.0 in columns with missing values.
    words = pc.replace_substring_regex(words, r"^([+-]?[0-9]+)\.0*$", r"\1")
    whole = matches_regex(words, _INTEGER)
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


def read_moments(array: pa.Array, *forms: str) -> pa.Array:
    """Parse a text column to timestamps in seconds by the first strptime format that fits; null if none does."""
    coded = repair_text(array).dictionary_encode()  # dates repeat, and the check by strftime is slow
    return pc.coalesce(*(_different_moments(coded.dictionary, form) for form in forms)).take(coded.indices)


def _different_moments(words: pa.Array, form: str) -> pa.Array:
    moments = pc.strptime(words, format=form, unit="s", error_is_null=True)
    # strptime reads 30 February as 2 March. A valid date is written back with the same numbers; the rest of the text
    # may differ (3/2/2013 for 03/02/2013, Feb for February).
    back = pc.strftime(moments, format=form).cast(pa.large_string())
    if pc.all(pc.equal(words, back), min_count=0).as_py():
        return moments
    return pc.if_else(pc.equal(_extract_numbers(words, form), _extract_numbers(back, form)), moments, None)


def _extract_numbers(words: pa.Array, form: str) -> pa.Array:
    """Return the numbers in each text without leading zeros, and without the UTC offset of a final %z."""
    if form.endswith("%z"):
        words = pc.replace_substring_regex(words, r"(Z|[+-][0-9]{2}:?[0-9]{2})$", "")
    words = pc.replace_substring_regex(words, "[^0-9]+", " ")
    return pc.replace_substring_regex(pc.ascii_trim_whitespace(words), r"\b0+([0-9])", r"\1")


def matches_regex(words: pa.Array, pattern: str) -> Mask:
    """Return a mask of the texts that contain a match of a pattern; null does not."""
    mask: Mask = pc.match_substring_regex(words, pattern).fill_null(False).to_numpy(zero_copy_only=False)
    return mask


_GROUPS = 6  # groups of three digits in the largest number of 64 bits
_NO_NUMBER = "?"


@dataclass(frozen=True)
class NumberFormat:
    """Format of a number in text, such as "$1,234.50", "57%", "1.234,50", or "(12.00)" for minus twelve."""

    prefix: str = ""
    suffix: str = ""
    thousands: str = ""
    """Separator between groups of three digits."""
    decimal: str = "."
    """Separator before the fraction."""
    accounting: bool = False
    """Whether negative numbers are in parentheses."""
    digits: int = 0
    """Number of digits to which a fraction is padded on output: 12.50, not 12.5."""

    @property
    def _pattern(self) -> str:
        prefix, suffix, mark = (re.escape(sign.strip()) for sign in (self.prefix, self.suffix, self.decimal))
        around = r"[\s\x{a0}]*"
        groups = rf"[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})+|" if self.thousands else ""
        number = rf"(?P<whole>{groups}[0-9]*)(?:{mark}(?P<fraction>[0-9]*))?(?P<power>[eE][+-]?[0-9]{{1,9}})?"
        signed = rf"(?P<sign>[+-]?){around}(?:{prefix})?{around}(?P<inner>[+-]?){number}"
        opened, closed = (r"(?P<open>\(?)", r"(?P<close>\)?)") if self.accounting else ("(?P<open>)", "(?P<close>)")
        return rf"^{around}{opened}{around}{signed}{around}(?:{suffix})?{around}{closed}{around}$"

    def plain(self, words: pa.Array) -> pa.Array:
        """Return each number in plain digits; a text in another format becomes an unreadable one.

        >>> NumberFormat("$", thousands=",", accounting=True).plain(pa.array(["$1,234.5", "(12)", "1,23"])).to_pylist()
        ['1234.5', '-12', '?']
        """
        words = repair_text(words)
        found = pc.extract_regex(words, self._pattern)
        part = {name: pc.struct_field(found, name) for name in _PARTS}
        whole = pc.replace_substring(part["whole"], self.thousands, "") if self.thousands else part["whole"]
        point = pc.if_else(pc.equal(part["fraction"], ""), "", ".")
        negative = pc.or_(
            pc.equal(part["open"], "("), pc.is_in(_join_texts(part["sign"], part["inner"]), pa.array(["-"]))
        )
        made = _join_texts(pc.if_else(negative, "-", ""), whole, point, part["fraction"], part["power"])
        paired = pc.equal(pc.equal(part["open"], "("), pc.equal(part["close"], ")"))
        single = pc.less_equal(pc.binary_length(_join_texts(part["open"], part["sign"], part["inner"])), 1)
        digits = pc.not_equal(_join_texts(whole, part["fraction"]), "")
        sound = pc.and_(pc.and_(paired, single), digits).fill_null(False)
        special = pc.match_substring_regex(words, r"(?i)^\s*(nan|[+-]?inf(inity)?|true|false|)\s*$")
        made = pc.if_else(sound, made.cast(pa.large_string()), pc.if_else(special, words, _NO_NUMBER))
        return pc.if_else(pc.is_valid(words), made, None)

    def dressed(self, words: pa.Array) -> pa.Array:
        """Return plain numbers in this format.

        >>> NumberFormat(suffix=" %", thousands=".", decimal=",").dressed(pa.array(["-1234567.5", None])).to_pylist()
        ['-1.234.567,5 %', None]
        """
        words = words.cast(pa.large_string())
        found = pc.extract_regex(words, r"^(?P<sign>-?)(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]*))?$")
        sign, whole, fraction = (pc.struct_field(found, name) for name in ("sign", "whole", "fraction"))
        fraction = pc.utf8_rpad(fraction, width=self.digits, padding="0") if self.digits else fraction
        if self.thousands:
            mark, written = re.escape(self.thousands), self.thousands.replace("\\", "\\\\")
            for _ in range(_GROUPS):
                whole = pc.replace_substring_regex(
                    whole, rf"^([0-9]+)([0-9]{{3}})((?:{mark}[0-9]{{3}})*)$", rf"\1{written}\2\3"
                )
        negative = pc.equal(sign, "-")
        before, after = ("(", ")") if self.accounting else ("-", "")
        point = pc.if_else(pc.equal(fraction, ""), "", self.decimal)
        made = _join_texts(
            pc.if_else(negative, before, ""),
            pa.scalar(self.prefix, pa.large_string()),
            whole,
            point,
            fraction,
            pa.scalar(self.suffix, pa.large_string()),
            pc.if_else(negative, after, ""),
        )
        # A number in scientific notation stays unchanged: no reader would recognise it otherwise.
        return pc.if_else(pc.is_valid(found), made, words)


_PARTS = ("open", "sign", "inner", "whole", "fraction", "power", "close")


def _join_texts(*parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(
        *(part.cast(pa.large_string()) for part in parts), pa.scalar("", pa.large_string())
    )


Marker = str | int | float
"""A value that represents a missing value, such as "?", "NA", -9 or 999."""


def blank_marked_values(array: pa.Array, markers: Sequence[Marker]) -> pa.Array:
    """Return an array with null for each value that equals a marker.

    >>> blank_marked_values(pa.array(["3", " ?", "-9"]), ("?", -9)).to_pylist()
    ['3', None, None]
    >>> blank_marked_values(pa.array([3.5, -9.0]), ("?", "-9")).to_pylist()
    [3.5, None]
    """
    if not markers or pa.types.is_null(array.type) or pa.types.is_dictionary(array.type):
        return array
    if is_text(array.type):
        target = pa.large_string() if pa.types.is_string_view(array.type) else array.type
        values = pa.array(list(dict.fromkeys(map(write_marker, markers))), target)
    else:
        found: list[pa.Array] = []
        for marker in markers:
            with suppress(pa.ArrowException, ValueError, ArithmeticError, TypeError):
                found.append(_convert_marker(array.type, marker))
        values = pc.unique(pa.concat_arrays(found)) if found else pa.array([], array.type)
    if not len(values):
        return array
    # ASCII functions work on bytes, which need not be valid UTF-8.
    looked = pc.ascii_trim_whitespace(array.cast(values.type)) if is_text(array.type) else array
    return pc.if_else(pc.is_in(looked, value_set=values), pa.scalar(None, array.type), array)


def write_marker(marker: Marker) -> str:
    """Return a marker as text."""
    return marker.strip() if isinstance(marker, str) else repr(marker)


def _convert_marker(arrow_type: pa.DataType, marker: Marker) -> pa.Array:
    if pa.types.is_integer(arrow_type):
        number = Decimal(marker)
        if number != int(number):
            raise ValueError(marker)
        return pa.array([int(number)], arrow_type)
    if pa.types.is_floating(arrow_type):
        return pa.array([float(marker)]).cast(arrow_type)
    if pa.types.is_temporal(arrow_type) and not isinstance(marker, str):
        raise ValueError(marker)  # a number is not a date
    return pa.array([write_marker(marker)]).cast(arrow_type)
