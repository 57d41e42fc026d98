"""Declaration and validation of method options; everything is validated before anything is charged."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from numbers import Integral, Real
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from weft.bounds import Bounds, bounds_of
from weft.errors import MethodError


@dataclass(frozen=True)
class Needs:
    """Condition on another option: one of `values`; or, without values, set (`given`) or not set."""

    option: str
    values: tuple[Any, ...] = ()
    given: bool = True

    def met(self, value: Any) -> bool:
        """Return whether the other option's value meets the condition; an empty list, 0 and None count as not set."""
        return value in self.values if self.values else bool(value) == self.given

    def __str__(self) -> str:
        if self.values:
            return f"{self.option} is {' or '.join(map(str, self.values))}"
        return f"{self.option} is {'given' if self.given else 'left out'}"


@dataclass(frozen=True)
class Parts:
    """Settings inside a mapping option: their dataclass, and the conditions under which each has an effect."""

    taker: type[Any]
    needs: Mapping[str, tuple[Needs, ...]]

    def refuse_idle(self, option: str, given: Mapping[str, Any], whole: Mapping[str, Any]) -> None:
        """Refuse given settings that differ from their default and would have no effect."""
        usual = {each.name: each.default for each in fields(self.taker)}
        changed = [name for name, value in given.items() if name in usual and value != usual[name]]
        refuse_idle(changed, self.needs, {**usual, **whole}, f"{option}, ")


def only_with(option: str, *values: Any) -> Needs:
    """Return the condition that another option has one of these values, or is set if there are none."""
    return Needs(option, values)


def only_without(option: str) -> Needs:
    """Return the condition that another option is not set."""
    return Needs(option, given=False)


def refuse_idle(
    given: Iterable[str], needs: Mapping[str, Iterable[Needs]], values: Mapping[str, Any], inside: str = ""
) -> None:
    """Refuse given options whose conditions are not met; `values` has the final values of all options."""
    for name in given:
        for need in needs.get(name, ()):
            if not need.met(values[need.option]):
                raise MethodError(
                    f"option {inside}{name} has no effect unless {need}. Leave it out, or change {need.option}."
                )


_T = TypeVar("_T")

_WORDS = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
    NoneType: "none",
    Any: "anything",
}
_PLURAL_KINDS = {int: "whole numbers", float: "finite numbers", str: "texts"}
_SOME: dict[Any, list[Any]] = {int: [1, 2], float: [0.5, 0.25], str: ["age", "ward"]}

_MEANING, _NEEDS, _PARTS = "meaning", "needs", "parts"
_MAX_NUMBER = 1e300
_SHOWN = 80


def convert_to_plain(value: Any) -> Any:
    """Convert numpy numbers and arrays, also inside lists and mappings, to plain Python values for a file.

    >>> convert_to_plain({"a": np.arange(2), "b": (np.float64(0.5), None)})
    {'a': [0, 1], 'b': [0.5, None]}
    """
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: convert_to_plain(each) for key, each in value.items()}
    return [convert_to_plain(each) for each in value] if isinstance(value, list | tuple | range) else value


def matches_kind(value: Any, kind: Any) -> bool:
    """Return whether a plain value has a declared type. A boolean is not a number, a string is not a list.

    >>> matches_kind(2, int | None), matches_kind(2.5, int)
    (True, False)
    >>> matches_kind(True, float), matches_kind("ab", Sequence[str])
    (False, False)
    """
    parts, origin = get_args(kind), get_origin(kind)
    if origin in (Union, UnionType):
        return any(matches_kind(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin in (Sequence, tuple):
        return isinstance(value, list | tuple) and all(matches_kind(item, parts[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            matches_kind(k, parts[0]) and matches_kind(v, parts[1]) for k, v in value.items()
        )
    if kind in (int, float):
        number = isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
        return number and abs(value) <= _MAX_NUMBER
    return kind is Any or isinstance(value, kind)


def describe_kind(kind: Any) -> str:
    """Describe the values of a declared type, with a JSON example for lists and mappings.

    >>> describe_kind(int | None)
    'a whole number, or none'
    >>> print(describe_kind(Sequence[Sequence[str]]))
    a list of lists of texts, as JSON: '[["age", "ward"]]'
    """
    parts, origin = get_args(kind), get_origin(kind)
    if origin in (Union, UnionType):
        return ", or ".join(describe_kind(part) for part in parts)
    if origin is Literal:
        return " or ".join(repr(part) for part in parts)
    if origin in (Sequence, tuple):
        return f"a list of {_describe_list_items(parts[0])}, as JSON: '{json.dumps(_make_example(kind))}'"
    if origin is Mapping:
        return f"a table from names to values, as JSON: '{json.dumps(_make_example(kind))}'"
    return _WORDS[kind]


def _describe_list_items(kind: Any) -> str:
    return _PLURAL_KINDS[kind] if kind in _PLURAL_KINDS else f"lists of {_describe_list_items(get_args(kind)[0])}"


def _make_example(kind: Any) -> Any:
    parts = get_args(kind)
    if get_origin(kind) is Mapping:
        return {"age" if parts[1] is not Any else "name": 0.5 if parts[1] is float else 10}
    return _SOME[parts[0]] if parts[0] in _SOME else [_make_example(parts[0])]


def format_option_value(value: Any) -> str:
    """Return the repr of a value, truncated if it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a recursive list
        return "what was given"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def suggest_word(word: str, known: Sequence[str]) -> str:
    """Return a hint: the known word closest to `word`, or all known words."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"There are: {', '.join(known)}." if known else "There are none."


def check_fields(option: str, given: Mapping[str, Any], taker: type[Any]) -> None:
    """Validate names, types and ranges of the settings inside a mapping option."""
    kinds = get_type_hints(taker)
    names = [each.name for each in fields(taker)]
    for name, value in given.items():
        if name not in names:
            raise MethodError(f"option {option} has no setting {name!r}. {suggest_word(name, names)}")
        if not (matches_kind(value, kinds[name]) or (kinds[name] is float and value == math.inf)):
            raise MethodError(
                f"option {option}, {name}: expected {describe_kind(kinds[name])}, not {format_option_value(value)}."
            )
    check_bounds(taker, given, f"{option}, ")


def check_bounds(taker: type[Any], given: Mapping[str, Any], inside: str = "") -> None:
    """Refuse numbers outside their declared range; `inside` names the mapping option that holds them."""
    for name, bounds in bounds_of(taker).items():
        if name in given and not bounds.holds(given[name]):
            many = f" and have at most {bounds.members:,} members" if isinstance(given[name], list | tuple) else ""
            raise MethodError(f"option {inside}{name} must lie {bounds}{many}, not {format_option_value(given[name])}.")


def option(default: _T, meaning: str, *needs: Needs, parts: Parts | None = None) -> _T:
    """Declare an option: default, help text, and conditions for an effect; `parts` describes a mapping option.

    >>> @dataclass(frozen=True)
    ... class Recipe:
    ...     rounds: int = option(8, "Rounds of refinement.")
    >>> Recipe().rounds, options_of(Recipe)[0].meaning
    (8, 'Rounds of refinement.')
    """
    metadata = {_MEANING: meaning, _NEEDS: needs, _PARTS: parts}
    if isinstance(default, Mapping):  # each instance gets its own copy
        made: _T = field(default_factory=lambda: deepcopy(default), metadata=metadata)
    else:
        made = field(default=default, metadata=metadata)
    return made


@dataclass(frozen=True)
class Option:
    """Description of a method option, for display and validation."""

    name: str
    default: Any
    meaning: str
    bounds: Bounds | None = None
    """Range of a number."""
    needs: tuple[Needs, ...] = ()
    """Conditions under which it has an effect."""
    parts: Parts | None = None
    """Settings inside a mapping option."""


def options_of(recipe: type[Any]) -> list[Option]:
    """Return the options of a method in declaration order; KeyError if one has no help text."""
    made = recipe()
    bounds = bounds_of(recipe)
    return [
        Option(
            each.name,
            convert_to_plain(getattr(made, each.name)),
            each.metadata[_MEANING],
            bounds.get(each.name),
            each.metadata[_NEEDS],
            each.metadata[_PARTS],
        )
        for each in fields(recipe)
    ]


PAPER = "paper"
"""The only preset: the options that a method's paper used."""

Published = Mapping[str, Any]
"""Published values of a method's options."""


def get_published_settings(**settings: Any) -> Published:
    """Return published settings as a read-only mapping."""
    return MappingProxyType(settings)


def with_preset(name: str, paper: Published | None, preset: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options, completed by the preset; settings inside mapping options are merged by name."""
    if preset is None:
        return dict(options)
    if preset != PAPER:
        raise MethodError(f'preset: expected "{PAPER}" (the published settings), not {format_option_value(preset)}.')
    if paper is None:
        raise MethodError(f'preset: method {name!r} follows no paper. Leave "{PAPER}" out, or choose another method.')
    made = {**paper, **options}
    for key, value in paper.items():
        if isinstance(value, Mapping) and isinstance(made[key], Mapping):
            made[key] = {**value, **made[key]}
    return made
