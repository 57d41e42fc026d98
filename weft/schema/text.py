"""Numbers and dates in text, read column by column; what cannot be read is marked, never raised."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

_INTEGER = r"^[+-]?[0-9]{1,18}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?$"
_INFINITY = r"^[+-]?([iI][nN][fF]([iI][nN][iI][tT][yY])?)$"
_NAN = r"^[+-]?[nN][aA][nN]$"
_HUGE = 10**18


def is_text(arrow_type: pa.DataType) -> bool:
    """Whether an Arrow type holds text."""
    return bool(
        pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type)
    )


def read_floats(array: pa.Array) -> tuple[NDArray[np.float64], Mask]:
    """Numbers of a text column (NaN for null and "nan"), and a mask of the texts that are no number."""
    words = pc.utf8_trim_whitespace(array.cast(pa.large_string()))
    number, nan = _matches(words, _NUMBER), _matches(words, _NAN)
    infinite = _matches(words, _INFINITY)
    digits = pc.if_else(pa.array(number), pc.replace_substring_regex(words, r"^\+", ""), None)
    values: NDArray[np.float64] = digits.cast(pa.float64()).fill_null(float("nan")).to_numpy(zero_copy_only=False)
    negative = _matches(words, "^-")
    values = np.where(infinite, np.where(negative, -np.inf, np.inf), values)
    present: Mask = pc.is_valid(words).to_numpy(zero_copy_only=False)
    return values, present & ~number & ~nan & ~infinite


def read_integers(array: pa.Array) -> tuple[NDArray[np.int64], Mask, Mask]:
    """Whole numbers of a text column, a mask of those with a fraction (floored), and one of what is no number.

    Whole numbers of up to 18 digits are exact; larger ones become plus or minus 10^18.
    """
    words = pc.utf8_trim_whitespace(array.cast(pa.large_string()))
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
    return pc.strptime(array.cast(pa.large_string()), format=form, unit="s", error_is_null=True)


def _matches(words: pa.Array, pattern: str) -> Mask:
    mask: Mask = pc.match_substring_regex(words, pattern).fill_null(False).to_numpy(zero_copy_only=False)
    return mask
