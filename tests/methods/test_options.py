from collections.abc import Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any, Literal, get_type_hints

import numpy as np
import pytest

from weft.errors import MethodError
from weft.methods import METHODS, method
from weft.methods.options import describe, fits, plain

EVERY = [(name, field.name) for name in METHODS for field in fields(method(name))]


@pytest.mark.parametrize(("name", "option"), EVERY)
def test_every_option_is_of_its_own_kind_and_can_be_described(name, option):
    made = method(name)
    assert method(name, **{option: getattr(made, option)}) == made
    with pytest.raises(MethodError) as refused:
        method(name, **{option: object()})
    assert str(refused.value).startswith(f"option {option}: {describe(get_type_hints(type(made))[option])}; not ")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.int64(3), int),
        (np.uint8(3), int | None),
        (3, float),
        (np.float32(3), float),
        (np.int16(3), float),
        (Fraction(1, 3), float),
        (None, int | None),
        ([1, 2.5], tuple[float, ...]),
        ((), tuple[float, ...]),
        (np.array([1.0, 2.0]), Sequence[float]),
        (np.array([["a", "b"]]), Sequence[Sequence[str]]),
        ([["a"], ("b", "c")], Sequence[Sequence[str]]),
        (range(3), Sequence[int]),
        ({"a": 2, "b": [0, 1]}, Mapping[str, int | Sequence[int]]),
        ({"a": object()}, Mapping[str, Any]),
        ("x", Literal["x", "y"]),
    ],
)
def test_what_fits(value, kind):
    assert fits(plain(value), kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, int),
        (True, float),
        (1, bool),
        (3.0, int),
        (np.float64(3), int),
        ("3", int),
        (1j, float),
        (float("nan"), float),
        (np.float64("inf"), float),
        (None, int),
        ("ab", Sequence[str]),
        (["ab"], Sequence[Sequence[str]]),
        ([1.0, float("nan")], Sequence[float]),
        ([1.0, None], Sequence[float]),
        ({1.0, 2.0}, Sequence[float]),
        (np.ones((2, 2)), Sequence[float]),
        ({1: 2}, Mapping[str, int]),
        ({"a": "b"}, Mapping[str, int | Sequence[int]]),
        ([("a", 1)], Mapping[str, int]),
        ("z", Literal["x", "y"]),
        (["x"], Literal["x", "y"]),
    ],
)
def test_what_does_not_fit(value, kind):
    assert not fits(value, kind)
