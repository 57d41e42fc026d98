"""The options of a recipe: what each means, and whether a value fits it, which is asked before anything is spent."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from weft.bounds import Bounds, bounds_of
from weft.errors import MethodError
from weft.methods.steps.effects import Needs, Parts

_T = TypeVar("_T")

_WORDS = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
    NoneType: "none",
    Any: "anything",
}
_MANY = {int: "whole numbers", float: "finite numbers", str: "texts"}
_SOME: dict[Any, list[Any]] = {int: [1, 2], float: [0.5, 0.25], str: ["age", "ward"]}

_MEANING, _NEEDS, _PARTS = "meaning", "needs", "parts"
_LARGEST = 1e300
_SHOWN = 80


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
    """Say what a declared kind takes, with an example of what is not written as it is said.

    >>> describe(int | None)
    'a whole number, or none'
    >>> print(describe(Sequence[Sequence[str]]))
    a list of lists of texts, as JSON: '[["age", "ward"]]'
    """
    parts, origin = get_args(kind), get_origin(kind)
    if origin in (Union, UnionType):
        return ", or ".join(describe(part) for part in parts)
    if origin is Literal:
        return " or ".join(repr(part) for part in parts)
    if origin in (Sequence, tuple):
        return f"a list of {_many(parts[0])}, as JSON: '{json.dumps(_example(kind))}'"
    if origin is Mapping:
        return f"a table from names to values, as JSON: '{json.dumps(_example(kind))}'"
    return _WORDS[kind]


def _many(kind: Any) -> str:
    return _MANY[kind] if kind in _MANY else f"lists of {_many(get_args(kind)[0])}"


def _example(kind: Any) -> Any:
    parts = get_args(kind)
    if get_origin(kind) is Mapping:
        return {"age" if parts[1] is not Any else "name": 0.5 if parts[1] is float else 10}
    return _SOME[parts[0]] if parts[0] in _SOME else [_example(parts[0])]


def shown(value: Any) -> str:
    """Return a value as Python writes it, cut short if it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists without end
        return "what was given"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def suggest(word: str, known: Sequence[str]) -> str:
    """Say which of the known words may have been meant."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"There are: {', '.join(known)}." if known else "It takes none."


def check_fields(option: str, given: Mapping[str, Any], taker: type[Any]) -> None:
    """Refuse what a dataclass behind an option does not take: names that it lacks, values of another kind."""
    kinds = get_type_hints(taker)
    names = [each.name for each in fields(taker)]
    for name, value in given.items():
        if name not in names:
            raise MethodError(f"option {option}: there is no {name!r} in it. {suggest(name, names)}")
        if not (fits(value, kinds[name]) or (kinds[name] is float and value == math.inf)):
            raise MethodError(f"option {option}, {name}: {describe(kinds[name])}; not {shown(value)}.")
    check_bounds(taker, given, f"{option}, ")


def check_bounds(taker: type[Any], given: Mapping[str, Any], inside: str = "") -> None:
    """Refuse numbers out of the range that the fields of a dataclass declare; `inside` is the option that holds it."""
    for name, bounds in bounds_of(taker).items():
        if name in given and not bounds.holds(given[name]):
            many = f", at most {bounds.members:,} of them" if isinstance(given[name], list | tuple) else ""
            raise MethodError(f"option {inside}{name} must lie {bounds}{many}; not {shown(given[name])}.")


def option(default: _T, meaning: str, *needs: Needs, parts: Parts | None = None) -> _T:
    """Declare an option of a recipe: its default, what it means to whoever sets it, and when it has an effect.

    `parts` tells the same of the members of an option that is a mapping.

    >>> @dataclass(frozen=True)
    ... class Recipe:
    ...     rounds: int = option(8, "Rounds of refinement.")
    >>> Recipe().rounds, options_of(Recipe)[0].meaning
    (8, 'Rounds of refinement.')
    """
    metadata = {_MEANING: meaning, _NEEDS: needs, _PARTS: parts}
    if isinstance(default, Mapping):  # a recipe that is made without one has its own
        made: _T = field(default_factory=lambda: deepcopy(default), metadata=metadata)
    else:
        made = field(default=default, metadata=metadata)
    return made


@dataclass(frozen=True)
class Option:
    """An option of a recipe, as a person reads of it."""

    name: str
    default: Any
    meaning: str
    bounds: Bounds | None = None
    """What a number must lie within."""
    needs: tuple[Needs, ...] = ()
    """What other options must be for it to have an effect."""
    parts: Parts | None = None
    """Of a mapping, the same of its members."""


def options_of(recipe: type[Any]) -> list[Option]:
    """Return the options of a recipe, in its order; KeyError if one does not say what it means."""
    made = recipe()
    bounds = bounds_of(recipe)
    return [
        Option(
            each.name,
            plain(getattr(made, each.name)),
            each.metadata[_MEANING],
            bounds.get(each.name),
            each.metadata[_NEEDS],
            each.metadata[_PARTS],
        )
        for each in fields(recipe)
    ]
