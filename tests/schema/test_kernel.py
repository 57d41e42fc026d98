"""The compiled loop against plain Python integers."""

import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.values.bins import BinGrid
from weft.values.text_numbers import plain_integers, read_integers


def plain(cuts, step, special, strict, values, clip):
    """One value at a time, in unbounded integers; every bin here holds something to draw."""
    codes = []
    for value in values:
        bins = [i for i, cut in enumerate(cuts[:-1]) if cut <= value]
        if value in special:
            codes.append(len(cuts) - 1 + special.index(value))
        elif clip:
            codes.append(min(bins[-1] if bins else 0, len(cuts) - 2))
        elif not cuts[0] <= value < cuts[-1] or (strict and (value - cuts[0]) % step):
            codes.append(-1)
        else:
            codes.append(bins[-1])
    return codes


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_codes_agree_with_unbounded_integers(data):
    signed = data.draw(st.booleans())
    low, high = (-(2**63), 2**63 - 1) if signed else (0, 2**64 - 1)
    near = data.draw(st.integers(low, high))
    number = st.integers(low, high) | st.integers(max(low, near - 30), min(high, near + 30))
    step = data.draw(st.sampled_from([1, 2, 5]))
    ends = sorted(data.draw(st.lists(number, min_size=2, max_size=6, unique=True)))
    # Bins at least ten wide, so that no step and no special value can empty one.
    cuts = [ends[0]] + [b for _, b in pairwise(ends) if b - ends[0] > 10]
    cuts = [cuts[0]] + [b for a, b in pairwise(cuts) if b - a > 10]
    if len(cuts) < 2:
        cuts = [low, high]
    special = data.draw(st.lists(number, unique=True, max_size=1))
    strict, clip = data.draw(st.booleans()), data.draw(st.booleans())
    values = data.draw(st.lists(number | st.sampled_from([*cuts, *special, low, high]), max_size=20))
    grid = BinGrid(cuts, cuts[0], step, special, strict)
    coded = grid.locate(np.array(values, dtype=np.int64 if signed else np.uint64), None, clip)
    assert coded.tolist() == plain(cuts, step, special, strict, values, clip)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | st.text("0123456789+-. eEx\t\u00a0\u0663", max_size=21), max_size=20), st.booleans())
def test_plain_whole_numbers_are_what_the_slow_way_reads(words, large):
    array = pa.array(words, pa.large_string() if large else pa.string())[len(words) // 3 :]
    values, plain = plain_integers(array)
    exact, off, unreadable = read_integers(array)
    told = plain & ~np.array([word is None for word in array.to_pylist()], bool)
    assert np.array_equal(values[told], exact[told]) and not off[told].any() and not unreadable[told].any()
    assert all(
        plain[i] for i, word in enumerate(array.to_pylist()) if word is None or re.fullmatch(r"\d{1,18}", word, re.A)
    )
