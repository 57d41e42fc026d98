"""Whether a value fits the type that a recipe declares for an option: asked before anything is spent."""

from __future__ import annotations

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
    NoneType: "null",
    Any: "anything",
}

_LARGEST = 1e300


def plain(value: Any) -> Any:
    """Return numbers and arrays of numpy, also inside lists and mappings, as Python's own: what a file can hold.

    >>> plain({"a": np.arange(2), "b": (np.float64(0.5), None)})
    {'a': [0, 1], 'b': [0.5, None]}
    """
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple | range) else value


def fits(value: Any, kind: Any) -> bool:
    """Whether a plain value is of a declared kind. A truth value is no number, a text no list.

    >>> fits(2, int | None), fits(2.5, int), fits(True, float), fits("ab", Sequence[str])
    (True, False, False, False)
    """
    parts, origin = get_args(kind), get_origin(kind)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin in (Sequence, tuple):
        return isinstance(value, list | tuple) and all(fits(item, parts[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(fits(k, parts[0]) and fits(v, parts[1]) for k, v in value.items())
    if kind in (int, float):
        number = isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
        return number and abs(value) <= _LARGEST
    return kind is Any or isinstance(value, kind)


def describe(kind: Any) -> str:
    """Say what a declared kind takes.

    >>> describe(Sequence[float]), describe(int | None)
    ('a list of: a finite number', 'a whole number, or null')
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
