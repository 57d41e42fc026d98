"""What a text looks like, as one of a public list of shapes: blank, a marker, a number, a date, a time, words.

The list is fixed before any row is read, and each text is looked at by itself. So the number of rows of each shape is a
table like any other: a row adds one to one of its cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.values.instants import UNIT
from weft.values.shape_kernel import BLANK, CLOCK, MOMENT, NUMBER, PROSE, WORDS, describe
from weft.values.storage import floats_of, missing_of
from weft.values.text import is_text, readable

MARKERS = (
    "?",
    "NA",
    "N/A",
    "n/a",
    "na",
    "NaN",
    "nan",
    "null",
    "NULL",
    "None",
    "-",
    "--",
    ".",
    "*",
    "missing",
    "Missing",
)
"""Words that stand for a missing value in tables all over the world."""

TRUTHS = (("false", "true"), ("False", "True"), ("FALSE", "TRUE"))
"""How truth values are spelled."""

Sort = Literal["blank", "marker", "truth", "number", "moment", "clock", "words", "prose"]

_SIGNS = ("", "$", "€", "£")
_POINTS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: None, 6: 0}
_SEPARATORS = "-/."
_ORDERS = ("%Y{0}%m{0}%d", "%d{0}%m{0}%Y", "%m{0}%d{0}%Y")
_CLOCKS = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S")


@dataclass(frozen=True)
class Shape:
    """One way in which a text can look."""

    sort: Sort
    marker: str = ""
    """The word itself, of a marker."""
    spelling: int = 0
    """Which of `TRUTHS`."""
    decimals: int | None = 0
    """Digits after the point of a number; None: more than a few."""
    zeros: bool = False
    """Whether a whole number is written with a point and noughts, such as 3.0."""
    padded: bool = False
    """Whether a number begins with a nought that it would lose."""
    day: bool = False
    """Whether a whole number may be a day, yyyymmdd."""
    signs: tuple[tuple[str, str], ...] = ()
    """What else a number is written with, as a schema says it: prefix, suffix, thousands, decimal."""
    order: int = 0
    """Of a date: year first, day first, month first, or 3 for either of the last two."""
    form: str = ""
    """How a date is written, in strptime's letters."""
    clock: int = 0
    """Of a moment or a time: 0 no time, 1 minutes, 2 seconds, 3 finer."""
    offset: bool = False
    """Whether a moment is told with its offset from UTC."""
    midnight: bool = False
    """Whether a moment is the start of a day."""

    @property
    def whole(self) -> bool:
        """Whether it is a plain whole number, as a column of integers would write it."""
        return self.sort == "number" and self.decimals == 0 and not (self.padded or self.signs)


def _numbers() -> Iterator[tuple[int, Shape]]:
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


def _moments() -> Iterator[tuple[int, Shape]]:
    fields = product(range(4), range(3), range(4), range(2), range(2), range(2))
    for order, mark, clock, letter, offset, midnight in fields:
        iso = order == 0 and mark == 0
        if (mark == 2 and order in (0, 2)) or (clock == 0 and (letter or offset or midnight)):
            continue
        if not iso and (clock == 3 or letter or offset):
            continue
        separator = _SEPARATORS[mark]
        known = order if order < 3 else (2 if separator == "/" else 1)  # either: the more usual one
        day = _ORDERS[known].format(separator)
        form = f"{day}{'T' if letter else ' '}{_CLOCKS[clock]}" if clock else day
        code = order | mark << 2 | clock << 4 | letter << 6 | offset << 7 | midnight << 8
        yield (
            code,
            Shape("moment", order=order, form=form, clock=clock, offset=bool(offset), midnight=bool(midnight)),
        )


def _all() -> Iterator[tuple[int, Shape]]:
    yield BLANK, Shape("blank")
    yield WORDS, Shape("words")
    yield PROSE, Shape("prose")
    for code, shape in _numbers():
        yield NUMBER | code << 3, shape
    for code, shape in _moments():
        yield MOMENT | code << 3, shape
    for clock in (1, 2, 3):
        yield CLOCK | clock << 3, Shape("clock", clock=clock)


_CODED = dict(_all())
SHAPES: tuple[Shape, ...] = (
    *dict.fromkeys(_CODED.values()),
    *(Shape("marker", marker=word) for word in MARKERS),
    *(Shape("truth", spelling=i) for i in range(len(TRUTHS))),
)
"""Every shape; a text has the code of exactly one of them."""

_KNOWN = np.full(1 << 14, SHAPES.index(Shape("words")), np.int64)  # whatever else a kernel sees is words
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
"""Time stamps by how finely they are told; those that start a day first."""


def shapes_of(array: pa.Array) -> NDArray[np.int64]:
    """Return the shape of each value of a column of text, floats or time stamps, by its place in `SHAPES`."""
    if is_text(array.type):
        return _of_text(array)
    return _of_stamps(array) if pa.types.is_timestamp(array.type) else _of_floats(array)


def _of_text(array: pa.Array) -> NDArray[np.int64]:
    words = pa.concat_arrays([readable(array)])  # from its own first byte
    valid = pc.is_valid(words).to_numpy(zero_copy_only=False)
    _, offsets, data = words.buffers()
    octets = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    places = np.frombuffer(offsets, np.int64)[: len(words) + 1] if len(words) else np.zeros(1, np.int64)
    codes = _KNOWN[describe(octets, places, valid)]
    found = pc.index_in(pc.utf8_trim_whitespace(words), value_set=_WORDS).fill_null(-1).to_numpy(zero_copy_only=False)
    return np.asarray(np.where(found >= 0, _PLACES[found], codes))


def _of_floats(array: pa.Array) -> NDArray[np.int64]:
    """Return the shape of the shortest text that means each float: how many decimals it has."""
    floats = floats_of(array)
    codes = np.full(len(floats), _place(5), np.int64)
    with np.errstate(all="ignore"):
        for digits in (4, 3, 2, 1, 0):
            codes[np.rint(floats * 10.0**digits) / 10.0**digits == floats] = _place(digits)
    codes[~np.isfinite(floats)] = 0
    return codes


def _of_stamps(array: pa.Array) -> NDArray[np.int64]:
    """Return how finely each time stamp is told: the start of a day, a minute, a second, or finer."""
    missing = missing_of(array)
    moments = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    second = UNIT["s"] // UNIT[array.type.unit]
    codes = np.full(len(moments), _STAMPS[3], np.int64)
    for clock, grain in ((2, second), (1, 60 * second), (0, 86_400 * second)):
        codes[moments % grain == 0] = _STAMPS[clock]
    codes[missing] = 0
    return codes


def _place(written: int) -> int:
    return int(_KNOWN[NUMBER | written << 7])
