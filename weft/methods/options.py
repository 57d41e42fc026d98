"""Whether a value fits the type that a recipe declares for an option: asked before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

_WORDS = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
    NoneType: "none",
    Any: "anything",
}


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a declared kind. A truth value is no number, a text no sequence.

    >>> fits(2, int | None), fits(2.5, int), fits(True, float), fits("ab", Sequence[str])
    (True, False, False, False)
    """
    parts, origin = get_args(kind), get_origin(kind)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin in (Sequence, tuple):
        plain = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
        return plain and all(fits(item, parts[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(fits(k, parts[0]) and fits(v, parts[1]) for k, v in value.items())
    if kind in (int, float):
        number = isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
        return number and math.isfinite(value)
    return kind is Any or isinstance(value, kind)


def describe(kind: Any) -> str:
    """Say what a declared kind takes.

    >>> describe(Sequence[float]), describe(int | None)
    ('a list of: a finite number', 'a whole number, or none')
    """
    parts, origin = get_args(kind), get_origin(kind)
    if origin in (Union, UnionType):
        return ", or ".join(describe(part) for part in parts)
    if origin is Literal:
        return " or ".join(repr(part) for part in parts)
    if origin in (Sequence, tuple):
        return f"a list of: {describe(parts[0])}"
    if origin is Mapping:
        return f"a table with, for each name, {describe(parts[1])}"
    return _WORDS[kind]
