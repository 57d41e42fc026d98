"""Classification of texts into a public list of shapes: blank, marker, number, date, time, words.

Privacy: the list is fixed before any row is read, and each text is classified independently. So the histogram of shapes
is a marginal like any other: a row adds one to one of its cells.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.kernels import kernel
from weft.values.storage import floats_of, missing_of
from weft.values.text_numbers import is_text, repair_text
from weft.values.timestamps import UNIT

BLANK, WORDS, PROSE, NUMBER, MOMENT, CLOCK = range(6)
"""Class of a text: the lowest three bits of its shape."""

_MAX_WORDS_BYTES = 48
"""Length in bytes above which words are prose; so are words with at least `_SPACES` spaces."""
_SPACES = 5


@kernel(cache=True, nogil=True)
def _scan_digits(data, at, end):  # type: ignore[no-untyped-def]
    """Return the end of a run of digits, and its value (of the first nine)."""
    value = 0
    start = at
    while at < end and 48 <= data[at] <= 57:
        if at - start < 9:
            value = value * 10 + data[at] - 48
        at += 1
    return at, value


@kernel(cache=True, nogil=True)
def _scan_currency(data, at, end):  # type: ignore[no-untyped-def]
    """Return a currency sign ($ 1, euro 2, pound 3, none 0), and the position after it."""
    if at < end and data[at] == 36:
        return 1, at + 1
    if at + 2 < end and data[at] == 0xE2 and data[at + 1] == 0x82 and data[at + 2] == 0xAC:
        return 2, at + 3
    if at + 1 < end and data[at] == 0xC2 and data[at + 1] == 0xA3:
        return 3, at + 2
    return 0, at


@kernel(cache=True, nogil=True)
def _classify_number(data, at, end):  # type: ignore[no-untyped-def]
    """Return the shape of a number, or -1.

    Fields: currency sign (2 bits), percent (1), thousands (1), notation of the fraction (3: none, 1 to 4 digits, 5 for
    more or an exponent, 6 for zeros only), leading zeros (1), a possible yyyymmdd (1), a decimal comma (1).
    """
    signed = at < end and (data[at] == 45 or data[at] == 43)
    if signed:
        at += 1
    sign, at = _scan_currency(data, at, end)
    if sign and not signed and at < end and data[at] == 45:
        signed = True
        at += 1
    first = at
    at, value = _scan_digits(data, at, end)
    whole = at - first
    if whole > 18:
        return -1
    padded = whole > 1 and data[first] == 48
    groups, comma, fraction, noughts = 0, 0, 0, True
    while at < end and data[at] == 44:
        after, _ = _scan_digits(data, at + 1, end)
        length = after - at - 1
        if length == 3 and 1 <= whole <= 3 and data[first] != 48 and not comma:  # 0,123 may be less than one
            groups += 1
        elif whole and groups == 0 and not comma and 1 <= length <= 2 and after == end:
            comma = 1
            fraction = length
        else:
            return -1
        at = after
    point = False
    if at < end and data[at] == 46 and not comma:
        point = True
        start = at + 1
        at, _ = _scan_digits(data, start, end)
        fraction = at - start
        for i in range(start, at):
            noughts = noughts and data[i] == 48
    if whole == 0 and fraction == 0:
        return -1
    exponent = False
    if at < end and (data[at] == 101 or data[at] == 69) and not comma and not groups:
        at += 1
        if at < end and (data[at] == 45 or data[at] == 43):
            at += 1
        start = at
        at, _ = _scan_digits(data, start, end)
        exponent = start < at <= start + 3
        if not exponent:
            return -1
    percent = 0
    if at < end and data[at] == 37:
        percent = 1
        at += 1
    if at != end:
        return -1
    written = min(fraction, 5)
    if point and noughts:
        written = 6
    if exponent:
        written = 5
    plain = not (signed or sign or percent or groups or comma or point or exponent)
    year, month, date = value // 10_000, value // 100 % 100, value % 100
    day = 1 if plain and whole == 8 and 1800 <= year <= 2199 and 1 <= month <= 12 and 1 <= date <= 31 else 0
    thousands = 1 if groups else 0
    zeros = 1 if padded else 0
    shape = sign | percent << 2 | thousands << 3 | written << 4 | zeros << 7 | day << 8 | comma << 9
    return NUMBER | shape << 3


@kernel(cache=True, nogil=True)
def _scan_clock(data, at, end):  # type: ignore[no-untyped-def]
    """Return a time's precision (1 minutes, 2 seconds, 3 finer, -1 none), the position after it, and its sum."""
    after, hour = _scan_digits(data, at, end)
    if not 1 <= after - at <= 2 or hour > 23 or after >= end or data[after] != 58:
        return -1, at, 0
    at = after + 1
    after, minute = _scan_digits(data, at, end)
    if after - at != 2 or minute > 59:
        return -1, at, 0
    if after >= end or data[after] != 58:
        return 1, after, hour + minute
    at = after + 1
    after, second = _scan_digits(data, at, end)
    if after - at != 2 or second > 59:
        return -1, at, 0
    if after < end and data[after] == 46:
        at = after + 1
        after, fraction = _scan_digits(data, at, end)
        return (3 if 1 <= after - at <= 9 else -1), after, hour + minute + second + fraction
    return 2, after, hour + minute + second


@kernel(cache=True, nogil=True)
def _is_utc_offset(data, at, end):  # type: ignore[no-untyped-def]
    """Return whether the rest is an offset from UTC: Z, +02, +0200 or +02:00."""
    if data[at] == 90:
        return at + 1 == end
    if data[at] != 43 and data[at] != 45:
        return False
    after, _ = _scan_digits(data, at + 1, end)
    if after - at - 1 == 2 and after < end and data[after] == 58:
        last, _ = _scan_digits(data, after + 1, end)
        return last == end and last - after == 3
    return after == end and (after - at == 3 or after - at == 5)


@kernel(cache=True, nogil=True)
def _classify_moment(data, at, end):  # type: ignore[no-untyped-def]
    """Return the shape of a date or timestamp, or -1.

    Fields: the order (2 bits: year first, day first, month first, or either), the separator (2: dash, slash, dot), the
    time (2: none, minutes, seconds, finer), T before it (1), an offset from UTC (1), midnight (1).
    """
    first, a = _scan_digits(data, at, end)
    la = first - at
    if la == 0 or first >= end:
        return -1
    mark = data[first]
    if mark != 45 and mark != 47 and mark != 46:
        return -1
    second, b = _scan_digits(data, first + 1, end)
    lb = second - first - 1
    if second >= end or data[second] != mark or not 1 <= lb <= 2:
        return -1
    third, c = _scan_digits(data, second + 1, end)
    lc = third - second - 1
    if la == 4 and 1 <= lc <= 2:
        if not (1 <= b <= 12 and 1 <= c <= 31):
            return -1
        order = 0
    elif lc == 4 and 1 <= la <= 2:
        as_day = 1 <= a <= 31 and 1 <= b <= 12
        as_month = 1 <= a <= 12 and 1 <= b <= 31
        if not (as_day or as_month):
            return -1
        order = 3 if as_day and as_month else (1 if as_day else 2)
    else:
        return -1
    between = 0 if mark == 45 else (1 if mark == 47 else 2)
    clock, letter, offset, midnight = 0, 0, 0, 0
    if third < end:
        if data[third] != 32 and data[third] != 84:
            return -1
        letter = 1 if data[third] == 84 else 0
        clock, third, told = _scan_clock(data, third + 1, end)
        if clock < 0:
            return -1
        midnight = 1 if told == 0 else 0
        if third < end:
            if not _is_utc_offset(data, third, end):
                return -1
            offset = 1
    shape = order | between << 2 | clock << 4 | letter << 6 | offset << 7 | midnight << 8
    return MOMENT | shape << 3


@kernel(cache=True, nogil=True)
def classify_texts(data, offsets, valid):  # type: ignore[no-untyped-def]
    """Return the shape of each text; `valid` is false for missing ones."""
    out = np.empty(len(offsets) - 1, np.int32)
    for i in range(len(out)):
        at, end = offsets[i], offsets[i + 1]
        while at < end and (data[at] == 32 or 9 <= data[at] <= 13):
            at += 1
        while end > at and (data[end - 1] == 32 or 9 <= data[end - 1] <= 13):
            end -= 1
        if at == end or not valid[i]:
            out[i] = BLANK
            continue
        shape = _classify_number(data, at, end)
        if shape < 0:
            shape = _classify_moment(data, at, end)
        if shape < 0:
            clock, after, _ = _scan_clock(data, at, end)
            shape = CLOCK | clock << 3 if clock > 0 and after == end else -1
        if shape < 0:
            spaces = 0
            for j in range(at, end):
                spaces += data[j] == 32
            shape = PROSE if end - at > _MAX_WORDS_BYTES or spaces >= _SPACES else WORDS
        out[i] = shape
    return out


MARKERS = (
    *("?", "NA", "N/A", "n/a", "na", "NaN", "nan", "null", "NULL", "None", "-", "--", ".", "*"),
    *("missing", "Missing"),
)
"""Words commonly used for missing values."""

TRUTHS = (("false", "true"), ("False", "True"), ("FALSE", "TRUE"))

Sort = Literal["blank", "marker", "truth", "number", "moment", "clock", "words", "prose"]

_SIGNS = ("", "$", "€", "£")
_POINTS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: None, 6: 0}
_SEPARATORS = "-/."
_ORDERS = ("%Y{0}%m{0}%d", "%d{0}%m{0}%Y", "%m{0}%d{0}%Y")
_CLOCKS = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S")


@dataclass(frozen=True)
class Shape:
    """One shape of a text."""

    sort: Sort
    marker: str = ""
    spelling: int = 0
    """Index into `TRUTHS`."""
    decimals: int | None = 0
    """Decimals of a number; None: more than four, or an exponent."""
    zeros: bool = False
    """Whether a whole number is written with a decimal point and zeros, such as 3.0."""
    padded: bool = False
    """Whether a number has leading zeros, which a numeric type would lose."""
    day: bool = False
    """Whether a whole number may be a date yyyymmdd."""
    signs: tuple[tuple[str, str], ...] = ()
    """Further schema options of a number's format: prefix, suffix, thousands, decimal."""
    order: int = 0
    """Order of a date: 0 year first, 1 day first, 2 month first, 3 either of the last two."""
    form: str = ""
    """Format of a date, as for strptime."""
    clock: int = 0
    """Precision of a timestamp or time: 0 no time, 1 minutes, 2 seconds, 3 finer."""
    offset: bool = False
    midnight: bool = False

    @property
    def whole(self) -> bool:
        """Whether it is a plain whole number, as an integer column would write it."""
        return self.sort == "number" and self.decimals == 0 and not (self.padded or self.signs)

    @property
    def iso(self) -> bool:
        """Whether a date or timestamp is in ISO format."""
        return self.form.startswith("%Y-%m-%d")

    @property
    def fits_format(self) -> bool:
        """Whether strptime can parse it: no fraction of a second, no offset."""
        return self.clock < 3 and not self.offset


def _iterate_number_shapes() -> Iterator[tuple[int, Shape]]:
    for written in _POINTS:
        yield written << 4, Shape("number", decimals=_POINTS[written], zeros=written == 6)
    yield 1 << 7, Shape("number", padded=True)
    yield 1 << 8, Shape("number", day=True)
    for sign, thousands, written in product(range(4), range(2), (0, 2, 6)):  # 5.00 has two decimals like 5.25
        if sign or thousands:
            signs = [("prefix", _SIGNS[sign])] * bool(sign) + [("thousands", ",")] * thousands
            yield sign | thousands << 3 | written << 4, Shape("number", decimals=min(written, 2), signs=tuple(signs))
    for written in (0, 1, 2, 6):
        yield 1 << 2 | written << 4, Shape("number", decimals=1 if written == 6 else written, signs=(("suffix", "%"),))
    for written in (1, 2):
        yield written << 4 | 1 << 9, Shape("number", decimals=written, signs=(("decimal", ","),))


def _iterate_moment_shapes() -> Iterator[tuple[int, Shape]]:
    fields = product(range(4), range(3), range(4), range(2), range(2), range(2))
    for order, mark, clock, letter, offset, midnight in fields:
        iso = order == 0 and mark == 0
        if (mark == 2 and order in (0, 2)) or (clock == 0 and (letter or offset or midnight)):
            continue
        if not iso and (clock == 3 or letter or offset):
            continue
        separator = _SEPARATORS[mark]
        known = order if order < 3 else (2 if separator == "/" else 1)  # either: the more common order
        day = _ORDERS[known].format(separator)
        form = f"{day}{'T' if letter else ' '}{_CLOCKS[clock]}" if clock else day
        code = order | mark << 2 | clock << 4 | letter << 6 | offset << 7 | midnight << 8
        yield (code, Shape("moment", order=order, form=form, clock=clock, offset=bool(offset), midnight=bool(midnight)))


def _iterate_shapes() -> Iterator[tuple[int, Shape]]:
    yield BLANK, Shape("blank")
    yield WORDS, Shape("words")
    yield PROSE, Shape("prose")
    for code, shape in _iterate_number_shapes():
        yield NUMBER | code << 3, shape
    for code, shape in _iterate_moment_shapes():
        yield MOMENT | code << 3, shape
    for clock in (1, 2, 3):
        yield CLOCK | clock << 3, Shape("clock", clock=clock)


_CODED = dict(_iterate_shapes())
SHAPES: tuple[Shape, ...] = (
    *dict.fromkeys(_CODED.values()),
    *(Shape("marker", marker=word) for word in MARKERS),
    *(Shape("truth", spelling=i) for i in range(len(TRUTHS))),
)
"""All shapes; a text has the code of exactly one of them."""

_KNOWN = np.full(1 << 14, SHAPES.index(Shape("words")), np.int64)  # any other shape counts as words
_KNOWN[list(_CODED)] = [SHAPES.index(shape) for shape in _CODED.values()]
_WORDS = pa.array([*MARKERS, *(word for pair in TRUTHS for word in pair)], pa.large_string())
_PLACES = np.array(
    [SHAPES.index(Shape("marker", marker=word)) for word in MARKERS]
    + [SHAPES.index(Shape("truth", spelling=i)) for i, pair in enumerate(TRUTHS) for _ in pair]
)


_STAMPS = [
    SHAPES.index(Shape("moment", form=f"%Y-%m-%d {_CLOCKS[clock or 2]}", clock=clock or 2, midnight=not clock))
    for clock in range(4)
]
"""Shapes of timestamps by precision; midnight first."""


def shapes_of(array: pa.Array) -> NDArray[np.int64]:
    """Return the shape of each value of a column of text, floats or timestamps, as index into `SHAPES`."""
    if is_text(array.type):
        return _of_text(array)
    return _of_stamps(array) if pa.types.is_timestamp(array.type) else _of_floats(array)


def _of_text(array: pa.Array) -> NDArray[np.int64]:
    words = pa.concat_arrays([repair_text(array)])  # copies slices, so that offsets start at 0
    valid = pc.is_valid(words).to_numpy(zero_copy_only=False)
    _, offsets, data = words.buffers()
    octets = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    places = np.frombuffer(offsets, np.int64)[: len(words) + 1] if len(words) else np.zeros(1, np.int64)
    codes = _KNOWN[classify_texts(octets, places, valid)]
    found = pc.index_in(pc.utf8_trim_whitespace(words), value_set=_WORDS).fill_null(-1).to_numpy(zero_copy_only=False)
    return np.asarray(np.where(found >= 0, _PLACES[found], codes))


def _of_floats(array: pa.Array) -> NDArray[np.int64]:
    """Return the shape of the shortest text of each float, which gives its number of decimals."""
    floats = floats_of(array)
    codes = np.full(len(floats), _get_shape_index(5), np.int64)
    with np.errstate(all="ignore"):
        for digits in (4, 3, 2, 1, 0):
            codes[np.rint(floats * 10.0**digits) / 10.0**digits == floats] = _get_shape_index(digits)
    codes[~np.isfinite(floats)] = 0
    return codes


def _of_stamps(array: pa.Array) -> NDArray[np.int64]:
    """Return the precision of each timestamp: midnight, minutes, seconds, or finer."""
    missing = missing_of(array)
    moments = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    second = UNIT["s"] // UNIT[array.type.unit]
    codes = np.full(len(moments), _STAMPS[3], np.int64)
    for clock, grain in ((2, second), (1, 60 * second), (0, 86_400 * second)):
        codes[moments % grain == 0] = _STAMPS[clock]
    codes[missing] = 0
    return codes


def _get_shape_index(written: int) -> int:
    return int(_KNOWN[NUMBER | written << 7])
