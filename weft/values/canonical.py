"""Canonical spelling of values in a data frame, independent of the type that a library guessed for the column.

`read_csv` of pandas, polars and Arrow guesses the type of a column from all of its rows: 007 is the number 7 until one
row holds a word, and the text 007 from then on. A frame does not record how values were written, so each is replaced
by a form independent of the guess: 007, 7.0 and 7 are "7", TRUE and True are "true", NA and NaN are missing.

Privacy: each value is mapped independently of all others. A row that changes the guessed type of a column does not
change the spelling of any other row. Values that a guess may have changed irreversibly are refused
(`has_ambiguous_numbers`, `require_exact_floats`).
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.errors import DataError
from weft.values.storage import floats_of
from weft.values.text_numbers import is_text, repair_text

EXACT = 2**53
"""Largest magnitude up to which floats represent all whole numbers."""

INEXACT = (
    "whole numbers of 2^53 and more stand in a column of floats, which merges neighbours. Read it as text or as Int64"
)

NULL_WORDS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""Words that pandas or Arrow reads as missing, Arrow only in columns that it does not infer as text."""

_NULLS = pa.array(NULL_WORDS, pa.large_string())
_TRUTHS = pa.array(["false", "true"], pa.large_string())
_WHOLE = r"^[+-]?[0-9]+(\.0*)?$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_JAVA_SUFFIX = r"^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]$"
_HEX = r"^0[xX][0-9a-fA-F]{1,16}$"
_INFINITY = r"^([+-]?)inf(?:inity)?$"
_NAN = r"^[+-]?nan(\(.*\))?$"
_NOTATIONS = (
    r"^[+-]?[0-9.]*,[0-9][0-9.,]*$"  # 1,234 and 1,5
    r"|^[+-]?[0-9]{1,3}(['\x{2019} \x{A0}\x{202F}][0-9]{3})+([.,][0-9]+)?$"  # 1 234 and 1'234
    r"|^[+-]?0[bB][01]+$"  # DuckDB
    r"|^[+-]?[0-9]+(_[0-9]+)+(\.[0-9_]*)?$"  # Python
)
_DIGITS = r"^[+-]?[\p{Nd}][\p{Nd}.,_]*$"
_ASCII = r"^[\x00-\x7F]*$"
_FAR_EXPONENT = r"[eE][+-]?0*(1[6-9]|[2-9][0-9]|[1-9][0-9]{2,})$"
_LARGE_EXPONENT = r"[eE][+-]?0*([89]|[1-9][0-9]+)$"
_FLOAT_DIGITS = 15
_MAX_SAFE_DIGITS = 7
"""All readers round alike if the digits are exact in a float and the power of ten is at most 22."""


def canonical_words(array: pa.Array, *, java: bool = False) -> pa.Array:
    """Return the values of an array as text in canonical spelling; null for missing values.

    `java`: whether numbers may end in d or f, as in Java, which Spark accepts when it infers a schema.

    >>> canonical_words(pa.array(["007", " 7.0", "TRUE", "1.50", "0x1F", "NA", "E10"])).to_pylist()
    ['7', '7', 'true', '1.5', '31', None, 'E10']
    >>> canonical_words(pa.array([7.0, 1.5, None])).to_pylist()
    ['7', '1.5', None]
    """
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.large_string())
    if pa.types.is_floating(array.type):
        return _spell_floats(floats_of(array.cast(pa.float64())))
    if pa.types.is_integer(array.type) or pa.types.is_boolean(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.string())
    if not is_text(array.type):
        return _spell_moments(array)
    return _spell_words(array, java)


def _spell_moments(array: pa.Array) -> pa.Array:
    """Return dates and times in ISO form, durations as numbers; discovery refuses undeclared columns of these types."""
    if pa.types.is_duration(array.type):
        return array.cast(pa.int64()).cast(pa.large_string())
    if pa.types.is_date(array.type):  # spelled as midnight, because one row with a time changes the whole column
        array = array.cast(pa.timestamp("s" if pa.types.is_date32(array.type) else "ms"))
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))
    words = pc.replace_substring_regex(array.cast(pa.large_string()), "Z$", "")
    words = pc.replace_substring_regex(words, r"(\.[0-9]*[1-9])0+$", r"\1")
    return pc.replace_substring_regex(words, r"\.0+$", "")


def _spell_words(array: pa.Array, java: bool) -> pa.Array:
    words = repair_text(array)
    trimmed = pc.utf8_trim_whitespace(words)
    if java:
        trimmed = pc.replace_substring_regex(trimmed, _JAVA_SUFFIX, r"\1")
    lower = pc.ascii_lower(trimmed)
    words = pc.if_else(pc.is_in(lower, value_set=_TRUTHS), lower, words)
    missing = pc.or_kleene(pc.is_in(trimmed, value_set=_NULLS), pc.match_substring_regex(lower, _NAN))
    words = pc.if_else(missing.fill_null(True), None, words)
    infinite, whole = pc.match_substring_regex(lower, _INFINITY), pc.match_substring_regex(trimmed, _WHOLE)
    words = _replace_masked(words, infinite, lower, lambda texts: _unsign(texts, _INFINITY, r"\1inf"))
    words = _replace_masked(words, pc.match_substring_regex(trimmed, _HEX), trimmed, _spell_hexadecimals)
    words = _replace_masked(words, whole, trimmed, _spell_whole_numbers)
    fraction = pc.and_not(pc.match_substring_regex(trimmed, _NUMBER), whole)
    return _replace_masked(words, fraction, trimmed, lambda texts: _spell_floats(floats_of(_unsign(texts))))


def _replace_masked(words: pa.Array, mask: pa.Array, source: pa.Array, spell: object) -> pa.Array:
    """Return `words` with the spelling of `source` where the mask is true."""
    mask = mask.fill_null(False)
    chosen = source.filter(mask)
    return pc.replace_with_mask(words, mask, spell(chosen)) if len(chosen) else words  # type: ignore[operator]


def _unsign(texts: pa.Array, pattern: str = "^", written: str = "") -> pa.Array:
    """Return texts without a plus sign, after a replacement."""
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, pattern, written), r"^\+", "")


def _spell_hexadecimals(texts: pa.Array) -> pa.Array:
    return pc.ascii_lower(texts).cast(pa.int64()).cast(pa.large_string())  # as Arrow reads them, in two's complement


def _spell_whole_numbers(texts: pa.Array) -> pa.Array:
    digits = _unsign(texts, r"^([+-]?)0*([0-9]+?)(?:\.0*)?$", r"\1\2")
    return pc.replace_substring_regex(digits, "^-0$", "0")


def _spell_floats(values: NDArray[np.float64]) -> pa.Array:
    """Return floats as text, whole ones as whole numbers; null for NaN."""
    missing = np.isnan(values)
    with np.errstate(invalid="ignore"):
        whole = (np.abs(values) < EXACT) & (values == np.floor(values))
    integers = pa.array(np.where(whole, values, 0.0).astype(np.int64)).cast(pa.large_string())
    others = pa.array(values).cast(pa.large_string())
    return pc.if_else(pa.array(missing), None, pc.if_else(pa.array(whole), integers, others))


def has_ambiguous_numbers(array: pa.Array) -> bool:
    """Return whether a text could be a number that readers interpret differently.

    1,234 is a thousand or a little more than one, depending on the reader's options; 0b101, 1_000 and non-ASCII digits
    are numbers to some readers; more digits than a float holds, or a large exponent, are rounded differently. If all
    other rows are numbers, a reader returns a float for such a text, and the original text if one row is a word.

    >>> [has_ambiguous_numbers(pa.array([word])) for word in ("1,234", "0.3000000000000000004", "12.5", "a, b")]
    [True, True, False, False]
    """
    if not is_text(array.type):
        return False
    words = pc.utf8_trim_whitespace(repair_text(array))
    number = pc.and_not(pc.match_substring_regex(words, _NUMBER), pc.match_substring_regex(words, _WHOLE))
    number = pc.if_else(number.fill_null(False), words, None)
    mantissa = pc.replace_substring_regex(pc.replace_substring_regex(number, "[eE].*$", ""), "[.+-]", "")
    digits = pc.utf8_length(pc.replace_substring_regex(mantissa, "^0+", ""))
    large = pc.and_(pc.greater(digits, _MAX_SAFE_DIGITS), pc.match_substring_regex(number, _LARGE_EXPONENT))
    far = pc.or_(large, pc.match_substring_regex(number, _FAR_EXPONENT))
    ambiguous = pc.or_(pc.greater(digits, _FLOAT_DIGITS), far)
    notation = pc.match_substring_regex(words, _NOTATIONS)
    foreign = pc.and_not(pc.match_substring_regex(words, _DIGITS), pc.match_substring_regex(words, _ASCII))
    return any(bool(pc.any(found, min_count=0).as_py()) for found in (ambiguous, notation, foreign))


def require_exact_floats(array: pa.Array, name: str) -> None:
    """Refuse whole numbers that a guessed float type has already merged with their neighbours."""
    if not pa.types.is_float64(array.type):
        return
    floats = array.fill_null(0.0).to_numpy(zero_copy_only=False)
    if (np.isfinite(floats) & (np.abs(floats) >= EXACT)).any():
        raise DataError(f'column "{name}": {INEXACT}')
