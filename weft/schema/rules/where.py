"""Conditions that a person writes when asking for rows: "age >= 65", "ward = surgery | medicine", "income is missing".

This is the grammar of conditions in rules (`weft.schema.rules.condition`) in a form that fits a command line. A text
says one thing of one column and becomes one `Condition`; whatever can be said of one may also be given as rules have
it, as a mapping such as {"sex": "F", "age": {"min": 65}}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.errors import ConditionError
from weft.schema.kinds.base import suggestion
from weft.schema.kinds.id import Id
from weft.schema.rules.base import Readers, RuleError
from weft.schema.rules.condition import Condition, Conditions, read_conditions, shown_all
from weft.schema.rules.values import Reader, UnfitValueError

Where = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
"""Conditions as they are given: texts, mappings as in rules, or a list of both."""

FORM = 'write a condition such as "sex = F", "age >= 65", "ward = surgery|medicine" or "income is missing"'

LONGEST = 10_000
"""Characters past which a text is no condition."""

_SIGN = re.compile(r"\s*(!=|<=|>=|==|=|<|>)\s*(.*)", re.DOTALL)
_WORD = re.compile(r"\s+(not\s+in|in|is\s+not|is)\s+(.*)", re.DOTALL | re.IGNORECASE)


def read_where(given: Where, readers: Readers) -> Conditions:
    """Return the conditions, all of which must hold; ConditionError if one is none, or no row could meet them."""
    listed = [given] if isinstance(given, str | Mapping) else list(given)
    if not listed:
        raise ConditionError(f"no condition is given: {FORM}")
    made: list[tuple[str, Condition]] = []
    for each in listed:
        if isinstance(each, str):
            made.append(_read_text(each, readers))
        elif isinstance(each, Mapping):
            made.extend(_read_mapping(each, readers))
        else:
            raise ConditionError(f"a condition must be a text or a mapping: {FORM}")
    for name, _ in made:
        _check_together(readers[name], tuple(pair for pair in made if pair[0] == name))
    return tuple(made)


def _read_mapping(given: Mapping[str, Any], readers: Readers) -> Conditions:
    plain = {name: _plain(value) for name, value in given.items()}
    for name in plain:
        if name in readers:
            _check_column(readers[name])
    try:
        return read_conditions(plain, readers, "where")
    except RuleError as fault:
        raise ConditionError(fault.text) from None


def _plain(value: Any) -> Any:
    """Return numbers of numpy as those of Python; what is read from TOML has no others."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return [_plain(each) for each in (sorted(value, key=str) if isinstance(value, set | frozenset) else value)]
    return value.item() if isinstance(value, np.generic) else value


def _read_text(text: str, readers: Readers) -> tuple[str, Condition]:
    if len(text) > LONGEST:
        raise ConditionError(f"a condition is longer than {LONGEST:,} characters: give a mapping in Python instead")
    name, sign, rest = _taken_apart(text.strip(), readers)
    reader = readers[name]
    _check_column(reader)
    try:
        made = _CONDITIONS[sign](reader, rest)
        made.check(reader, "where")
    except UnfitValueError as fault:
        raise ConditionError(f'"{text}": column "{name}": the value {fault}') from None
    except RuleError as fault:
        raise ConditionError(f'"{text}": {fault.text}') from None
    return name, made


def _taken_apart(text: str, readers: Readers) -> tuple[str, str, str]:
    """Return the column, the sign and what follows it. Of several names that fit, the longest is meant."""
    for name in sorted(readers, key=len, reverse=True):
        rest = text[len(name) :]
        found = (_SIGN.fullmatch(rest) or _WORD.fullmatch(rest)) if text.startswith(name) else None
        if found is not None and name:
            sign = " ".join(found[1].lower().split())
            return name, "=" if sign == "==" else sign, found[2].strip()
    first = re.split(r"[=!<>\s]", text, maxsplit=1)[0]
    if first in readers:
        raise ConditionError(f'"{text}" says nothing of column "{first}" that can be understood: {FORM}')
    near = suggestion(first, readers) or f" Known are {', '.join(list(readers)[:8])}."
    raise ConditionError(f'"{text}" names no column of the schema.{near}')


def _check_column(reader: Reader) -> None:
    if isinstance(reader.column, Id):
        raise ConditionError(f'column "{reader.column.name}" is an id, which is made anew: nothing can be asked of it')


def _check_together(reader: Reader, conditions: Conditions) -> None:
    """Refuse conditions on one column that no value meets."""
    probed = [condition.probes(reader) for _, condition in conditions]
    if not any(np.logical_and.reduce([c.holds(values) for _, c in conditions]).any() for values in probed):
        raise ConditionError(f"no value meets {shown_all(conditions)}; relax one of them")


# What stands behind each sign.


def _equal(reader: Reader, rest: str) -> Condition:
    return Condition(_values(reader, rest))


def _unequal(reader: Reader, rest: str) -> Condition:
    return Condition(excluded=_values(reader, rest))


def _at_least(reader: Reader, rest: str) -> Condition:
    return Condition(min=_bound(reader, rest))


def _at_most(reader: Reader, rest: str) -> Condition:
    return Condition(max=_bound(reader, rest))


def _above(reader: Reader, rest: str) -> Condition:
    end = _bound(reader, rest)
    return Condition(min=end, excluded=_itself(reader, end))


def _below(reader: Reader, rest: str) -> Condition:
    end = _bound(reader, rest)
    return Condition(max=end, excluded=_itself(reader, end))


def _is(_: Reader, rest: str) -> Condition:
    if rest.lower() in ("missing", "null", "empty"):
        return Condition(missing=True)
    if rest.lower() in ("not missing", "there"):
        return Condition(missing=False)
    raise UnfitValueError('must be the word missing, or "not missing"')


def _is_not(_: Reader, rest: str) -> Condition:
    if rest.lower() in ("missing", "null", "empty"):
        return Condition(missing=False)
    raise UnfitValueError("must be the word missing")


_CONDITIONS: dict[str, Callable[[Reader, str], Condition]] = {
    "=": _equal,
    "!=": _unequal,
    ">=": _at_least,
    "<=": _at_most,
    ">": _above,
    "<": _below,
    "in": _equal,
    "not in": _unequal,
    "is": _is,
    "is not": _is_not,
}


def _values(reader: Reader, rest: str) -> tuple[Any, ...]:
    """Return one value, or several between bars or commas; quotes keep a value together."""
    whole = _unquoted(rest)
    if whole != rest or reader.column.listed is None or not _spelled(reader, rest):
        parts = [rest] if whole != rest else re.split(r"\||,", rest)
        if len(parts) > 1:
            return tuple(_typed(reader, _unquoted(part.strip())) for part in parts)
    return (_typed(reader, whole),)


def _spelled(reader: Reader, text: str) -> bool:
    """Whether a text is one of the column's values as it stands."""
    try:
        return reader.typed(text) is not None
    except UnfitValueError:
        return False


def _unquoted(text: str) -> str:
    held = len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'" and text[0] not in text[1:-1]
    return text[1:-1] if held else text


def _typed(reader: Reader, text: str) -> Any:
    value = reader.typed(text)
    if value is None:
        raise UnfitValueError('is empty; name one, or say "is missing"')
    return value


def _bound(reader: Reader, rest: str) -> Any:
    """Return an end of a range; it need not be a value that the column can hold."""
    text = _unquoted(rest)
    if not text:
        raise UnfitValueError("is empty; name one")
    if not reader.comparable:
        raise UnfitValueError("has no order with others; list values instead, as in ward = a|b")
    if reader.moments:
        return text
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise UnfitValueError("must be a number") from None


def _itself(reader: Reader, end: Any) -> tuple[Any, ...]:
    """Return the end of a range that is left out itself, where the column can hold it."""
    try:
        reader.point(end)
    except UnfitValueError:
        return ()
    return (end,)


def written(conditions: Conditions) -> list[str]:
    """Write conditions for a card, a line each, every value named."""
    return [condition.shown(name, most=LONGEST) for name, condition in conditions]
