"""Shapes of texts: the kernel against plain patterns, one text at a time."""

import datetime as dt
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weft.values.text_shapes import MARKERS, SHAPES, TRUTHS, shapes_of

SIGN = {"$": "$", "€": "€", "£": "£"}


def shape(text):
    return SHAPES[int(shapes_of(pa.array([text], pa.string()))[0])]


def slow(text):
    """The sort of a text, by patterns alone."""
    words = text.strip(" \t\n\v\f\r") if text is not None else ""
    if not words:
        return "blank"
    if words in MARKERS:
        return "marker"
    if any(words in pair for pair in TRUTHS):
        return "truth"
    if is_number(words):
        return "number"
    if is_moment(words):
        return "moment"
    if re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?", words, re.ASCII):
        return "clock"
    return "prose" if len(words.encode()) > 48 or words.count(" ") >= 5 else "words"


def is_number(words):
    whole = r"(?:\d{1,3}(?:,\d{3})+|\d*)"
    found = re.fullmatch(rf"([+-]?)([$€£]?)(-?)({whole})(?:\.(\d*))?([eE][+-]?\d{{1,3}})?(%?)", words, re.ASCII)
    if found is not None:
        sign, money, inner, digits, fraction, power, percent = found.groups()
        plain = digits.replace(",", "")
        sound = (plain or fraction) and len(plain) <= 18 and not (inner and (sign or not money))
        if not sound or (power and "," in digits):
            return False
        return described(money, digits, fraction, power, percent, plain)
    return bool(re.fullmatch(r"[+-]?(0|[1-9]\d{0,17}),\d{1,2}", words, re.ASCII))


def described(money, digits, fraction, power, percent, plain):
    """Whether the list has a shape for it: not every combination is one."""
    groups, padded = "," in digits, len(plain.split(",")[0]) > 1 and plain[0] == "0"
    decimals = "more" if power else written(fraction)
    if padded:
        return not (money or percent or groups) and decimals == 0
    if percent:
        return not (money or groups) and decimals in (0, 1, 2, "noughts")
    if money or groups:
        return decimals in (0, 2, "noughts")
    return True


def written(fraction):
    if fraction is None:
        return 0
    return "noughts" if not fraction.strip("0") else min(len(fraction), 5)


def is_moment(words):
    day = r"(\d+)([-/.])(\d{1,2})\2(\d+)"
    clock = r"(?:([ T])((?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(\.\d{1,9})?)?)(Z|[+-]\d\d(?::?\d\d)?)?)?"
    found = re.fullmatch(day + clock, words, re.ASCII)
    if found is None:
        return False
    first, mark, second, third, letter, _time, fraction, offset = found.groups()
    iso = len(first) == 4 and mark == "-"
    if not iso and (letter == "T" or fraction or offset):
        return False
    if len(first) == 4 and len(third) <= 2:
        return mark != "." and 1 <= int(second) <= 12 and 1 <= int(third) <= 31
    if len(third) == 4 and len(first) <= 2:
        day_first = 1 <= int(first) <= 31 and 1 <= int(second) <= 12
        month_first = 1 <= int(first) <= 12 and 1 <= int(second) <= 31
        return day_first or (month_first and mark != ".")
    return False


PIECES = st.sampled_from(
    [
        *("0", "1", "9", "12", "31", "007", "2024", "-", "/", ".", ",", ":", " ", "T", "Z", "+", "$", "€", "%", "e"),
        *("e5", "NA", "true", "x", "é", "10:30", "2024-01-31", "1,234", ".50", "00"),
    ]
)


@settings(max_examples=1500, deadline=None)
@given(st.lists(PIECES, max_size=7).map("".join))
@example("0,000")
@example(",123.5")
def test_the_kernel_agrees_with_plain_patterns(text):
    assert shape(text).sort == slow(text), text


@given(st.lists(st.text(max_size=12) | st.none() | st.lists(PIECES, max_size=4).map("".join), max_size=20))
def test_a_text_is_looked_at_by_itself(texts):
    alone = [int(shapes_of(pa.array([text], pa.string()))[0]) for text in texts]
    assert shapes_of(pa.array(texts, pa.string())).tolist() == alone
    assert shapes_of(pa.array(["9", *texts], pa.large_string()).slice(1)).tolist() == alone


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("3.0", {"decimals": 0, "zeros": True}),
        ("3.10", {"decimals": 2}),
        ("1e-7", {"decimals": None}),
        ("007", {"padded": True}),
        ("20240131", {"day": True}),
        ("20241331", {"day": False}),
        ("-20240131", {"day": False}),
        ("$1,234.56", {"signs": (("prefix", "$"), ("thousands", ",")), "decimals": 2}),
        ("-$5.00", {"signs": (("prefix", "$"),), "decimals": 2}),
        ("57%", {"signs": (("suffix", "%"),)}),
        ("12,5", {"signs": (("decimal", ","),), "decimals": 1}),
        ("25/12/2020", {"order": 1, "form": "%d/%m/%Y"}),
        ("12/25/2020", {"order": 2, "form": "%m/%d/%Y"}),
        ("01/02/2020", {"order": 3}),
        ("2013-01-01 10:00:00+00:00", {"offset": True, "clock": 2}),
        ("2013-01-01T00:00:00", {"midnight": True, "form": "%Y-%m-%dT%H:%M:%S"}),
    ],
)
def test_what_a_shape_tells(text, told):
    assert {key: getattr(shape(text), key) for key in told} == told


def test_floats_are_told_by_their_decimals():
    values = pa.array([1.0, 1.5, 2.25, 0.1 + 0.2, None, float("nan"), -7.125])
    assert [SHAPES[i].decimals for i in shapes_of(values)] == [0, 1, 2, None, 0, 0, 3]
    assert [SHAPES[i].sort for i in shapes_of(values)][4:6] == ["blank", "blank"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_time_stamps_are_told_by_their_clock(unit):
    moments = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 3), dt.datetime(2020, 1, 1, 3, 0, 7), None]
    found = [SHAPES[i] for i in shapes_of(pa.array(moments, pa.timestamp(unit)))]
    assert [(s.sort, s.clock, s.midnight) for s in found[:3]] == [
        ("moment", 2, True),
        ("moment", 1, False),
        ("moment", 2, False),
    ]
    assert found[3].sort == "blank"


def test_every_shape_has_one_code():
    assert len(set(SHAPES)) == len(SHAPES)
    assert shapes_of(pa.array([], pa.string())).dtype == np.int64
