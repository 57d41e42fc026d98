"""Conditions on one column: a value, a list, a range, excluded values, missing or not missing.

A missing value does not meet a condition on values, unless the condition also has `missing = true`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.errors import ConditionError
from weft.schema.kinds.identifier import Id
from weft.schema.kinds.kind import Scalar, suggest_known_word
from weft.schema.rules.column_values import ColumnReader, Mask, UnfitValueError, Values
from weft.schema.rules.rule import Readers, RuleError, format_toml_value, require_column, validate_point

_KEYS = ("min", "max", "not", "missing")
_TRIES = 64


@dataclass(frozen=True)
class Condition:
    """Condition on the values of one column."""

    values: tuple[Scalar, ...] | None = None
    """Allowed values (default: any)."""
    excluded: tuple[Scalar, ...] = ()
    min: Scalar | None = None
    max: Scalar | None = None
    missing: bool | None = None

    @classmethod
    def read(cls, given: Any, reader: ColumnReader, key: str) -> Condition:
        """Make a condition from its TOML value."""
        name = reader.column.name
        if isinstance(given, Mapping):
            for word in given:
                if word not in _KEYS:
                    near = suggest_known_word(word, _KEYS) or f" Known keys are {', '.join(_KEYS)}."
                    raise RuleError(f'column "{name}": unknown key "{word}" in a condition.{near}', key)
            missing = given.get("missing")
            if not given or not (missing is None or isinstance(missing, bool)):
                raise RuleError(f'column "{name}": invalid condition; expected one such as {{min = 0, max = 14}}', key)
            made = cls(
                None,
                _make_plain_values(given.get("not", ())),
                plain_value(given.get("min")),
                plain_value(given.get("max")),
                missing,
            )
        else:
            made = cls(_make_plain_values(given))
        made.check(reader, key)
        return made

    def entry(self) -> Any:
        """Return the TOML value."""
        if self.values is not None:
            return self.values[0] if len(self.values) == 1 else list(self.values)
        facts = {"not": list(self.excluded) or None, "min": self.min, "max": self.max, "missing": self.missing}
        return {word: value for word, value in facts.items() if value is not None}

    def check(self, reader: ColumnReader, key: str) -> None:
        """Validate that the column can contain the values and can meet the condition."""
        name = reader.column.name
        if self.missing and not reader.column.missing:
            raise RuleError(
                f'column "{name}": it is never missing; set missing = true in [columns.{name}] or change the rule', key
            )
        if self.values == ():
            raise RuleError(f'column "{name}": the list of values is empty; name at least one', key)
        for value in (*(self.values or ()), *self.excluded):
            validate_point(reader, value, key)
        for word in ("min", "max"):
            if getattr(self, word) is not None:
                if not reader.comparable:
                    raise RuleError(f'column "{name}": its values have no order; list them instead of {word}', key)
                validate_point(reader, getattr(self, word), key, inside=False)
        try:
            met = self.holds(self.probes(reader)).any()
        except UnfitValueError as fault:  # the ends of its range
            raise RuleError(f'column "{name}": the range of its values {fault}', key) from None
        if not met:
            raise RuleError(f'column "{name}": no value can meet {self.shown(name)}; change it or the range', key)

    def possible(self, reader: ColumnReader, negate: bool = False) -> bool:
        """Return whether a possible value meets the condition (with `negate`: does not meet it)."""
        return bool((self.holds(self.probes(reader)) != negate).any())

    def probes(self, reader: ColumnReader) -> Values:
        """Return sample values, at least one of which meets the condition if any possible value does."""
        known = reader.codes
        if known is not None:
            return known
        named = [v for v in (*(self.values or ()), *self.excluded, self.min, self.max) if v is not None]
        spans = [end for value in named for end in reader.bound(value)]
        near = [*spans, *reader.ends, *reader.special, *(s + d for s in spans for d in (-1, 1))]
        few = near[:64]  # midpoints are computed for the first values only
        middle = [(a + b) / 2 if isinstance(a + b, float) else (a + b) // 2 for a in few for b in few]
        numbers = np.array([*near, *middle][:4096])
        numbers = numbers[reader.fits(numbers)]
        numbers = np.append(numbers, reader.ends[0])
        missing = np.zeros(len(numbers), bool)
        if reader.column.missing:
            numbers, missing = np.append(numbers, numbers[:1]), np.append(missing, True)
        return Values(numbers, missing, reader)

    def overlaps(self, reader: ColumnReader, low: NDArray[Any], high: NDArray[Any]) -> Mask:
        """Return which intervals from `low` to `high` may contain a number that meets it; never a false negative."""
        if self.values is None and not self.excluded and self.min is None and self.max is None:
            return np.full(len(low), not self.missing)
        met = np.ones(len(low), bool)
        if self.values is not None:
            spans = [reader.span(value) for value in self.values]
            met &= np.logical_or.reduce([(low <= last) & (high >= first) for first, last in spans])
        if self.min is not None:
            met &= high >= reader.bound(self.min)[0]
        if self.max is not None:
            met &= low <= reader.bound(self.max)[1]
        return met

    def holds(self, values: Values) -> Mask:
        """Return which values meet the condition."""
        reader, numbers = values.reader, values.numbers
        if self.values is None and not self.excluded and self.min is None and self.max is None:
            return values.missing.copy() if self.missing else ~values.missing
        met = ~values.missing
        if self.values is not None:
            met &= _match_values(reader, numbers, self.values)
        if self.excluded:
            met &= ~_match_values(reader, numbers, self.excluded)
        if self.min is not None:
            met &= numbers >= reader.bound(self.min)[0]
        if self.max is not None:
            met &= numbers <= reader.bound(self.max)[1]
        return met | values.missing if self.missing else met

    def draw(self, reader: ColumnReader, count: int, rng: np.random.Generator, negate: bool = False) -> NDArray[Any]:
        """Sample numbers that meet the condition (with `negate`: that do not); empty if none was found."""
        known = reader.codes
        if known is not None:
            pool = known.numbers[(self.holds(known) != negate) & ~known.missing]
        elif self.values is not None and not negate:
            spans = [reader.span(value) for value in self.values]
            pool = np.concatenate([reader.uniform(_TRIES, rng, low, high) for low, high in spans])
        else:
            low = None if self.min is None or negate else reader.bound(self.min)[0]
            high = None if self.max is None or negate else reader.bound(self.max)[1]
            pool = np.append(reader.uniform(max(_TRIES, count), rng, low, high), reader.special)
            met = self.holds(Values(pool, np.zeros(len(pool), bool), reader))
            pool = pool[met != negate]
        return np.asarray(pool[rng.integers(0, len(pool), count)] if len(pool) else pool)

    def shown(self, name: str, most: int = 3) -> str:
        """Format the condition for users, with at most `most` values."""
        parts = []
        strict = self.excluded in ((self.min,), (self.max,))
        if self.values is not None:
            listed = [format_toml_value(value) for value in self.values[:most]] + ["..."] * (len(self.values) > most)
            parts.append(f"= {listed[0]}" if len(self.values) == 1 else f"in [{', '.join(listed)}]")
        if self.excluded and not strict:
            parts.append(f"not in [{', '.join(format_toml_value(v) for v in self.excluded[:most])}]")
        if self.min is not None:
            parts.append(f"{'>' if strict and self.excluded == (self.min,) else '>='} {format_toml_value(self.min)}")
        if self.max is not None:
            parts.append(f"{'<' if strict and self.excluded == (self.max,) else '<='} {format_toml_value(self.max)}")
        if not parts:
            return f"{name} {'missing' if self.missing else 'there'}"
        return f"{name} {' and '.join(parts)}" + (" or missing" if self.missing else "")


Conditions = tuple[tuple[str, Condition], ...]
"""Conditions by column; all must hold."""


def read_conditions(given: Any, readers: Readers, key: str, empty: bool = False) -> Conditions:
    """Make conditions from a TOML table."""
    if not isinstance(given, Mapping) or not (given or empty):
        raise RuleError(f"{key} must be a table of conditions, such as {{sex = 1, age = {{max = 14}}}}", key)
    return tuple(
        (name, Condition.read(value, readers[require_column(name, readers, key)], key)) for name, value in given.items()
    )


def all_hold(conditions: Conditions, values: Mapping[str, Values]) -> Mask:
    """Return which rows meet all conditions."""
    return np.asarray(np.logical_and.reduce([condition.holds(values[name]) for name, condition in conditions]))


def entry_of(conditions: Conditions) -> dict[str, Any]:
    """Return the TOML table of conditions."""
    return {name: condition.entry() for name, condition in conditions}


def format_conditions(conditions: Conditions) -> str:
    """Format conditions for users."""
    return " and ".join(condition.shown(name) for name, condition in conditions)


def _match_values(reader: ColumnReader, numbers: NDArray[Any], values: tuple[Scalar, ...]) -> Mask:
    spans = [reader.span(value) for value in values]
    if all(low == high for low, high in spans):
        return np.isin(numbers, [low for low, _ in spans])
    return np.asarray(np.logical_or.reduce([(numbers >= low) & (numbers <= high) for low, high in spans]))


def _make_plain_values(given: Any) -> tuple[Scalar, ...]:
    return tuple(plain_value(value) for value in given) if isinstance(given, list | tuple) else (plain_value(given),)


def plain_value(value: Any) -> Any:
    """Return a value of a TOML file, with dates as text."""
    return value.isoformat(" ") if hasattr(value, "hour") else value.isoformat() if hasattr(value, "year") else value


Where = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
"""Conditions on generated rows, as users write them: strings, mappings as in rules, or a list of both."""

FORM = 'write a condition such as "sex = F", "age >= 65", "ward = surgery|medicine" or "income is missing"'

MAX_CONDITION_LENGTH = 10_000

_SIGN = re.compile(r"\s*(!=|<=|>=|==|=|<|>)\s*(.*)", re.DOTALL)
_WORD = re.compile(r"\s+(not\s+in|in|is\s+not|is)\s+(.*)", re.DOTALL | re.IGNORECASE)


def read_where(given: Where, readers: Readers) -> Conditions:
    """Parse conditions, all of which must hold; raise ConditionError if one is invalid or no row can meet them."""
    if not isinstance(given, str | Mapping | Sequence):
        raise ConditionError(f"conditions must be a string, a mapping or a list of them: {FORM}")
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
            raise ConditionError(f"a condition must be a string or a mapping: {FORM}")
    for name, _ in made:
        _check_together(readers[name], tuple(pair for pair in made if pair[0] == name))
    return tuple(made)


def _read_mapping(given: Mapping[str, Any], readers: Readers) -> Conditions:
    plain = {name: _plain_text(value) for name, value in given.items()}
    for name in plain:
        if name in readers:
            _check_column(readers[name])
    try:
        return read_conditions(plain, readers, "where")
    except RuleError as fault:
        raise ConditionError(fault.text) from None


def _plain_text(value: Any) -> Any:
    """Convert NumPy values to Python values, as in conditions from TOML."""
    if isinstance(value, Mapping):
        return {key: _plain_text(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return [_plain_text(each) for each in (sorted(value, key=str) if isinstance(value, set | frozenset) else value)]
    return value.item() if isinstance(value, np.generic) else value


def _read_text(text: str, readers: Readers) -> tuple[str, Condition]:
    if len(text) > MAX_CONDITION_LENGTH:
        raise ConditionError(f"a condition is longer than {MAX_CONDITION_LENGTH:,} characters: use a Python mapping")
    name, sign, rest = _split_condition(text.strip(), readers)
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


def _split_condition(text: str, readers: Readers) -> tuple[str, str, str]:
    """Return the column, the operator and the argument; of several matching column names, the longest one."""
    for name in sorted(readers, key=len, reverse=True):
        rest = text[len(name) :]
        found = (_SIGN.fullmatch(rest) or _WORD.fullmatch(rest)) if text.startswith(name) else None
        if found is not None and name:
            sign = " ".join(found[1].lower().split())
            return name, "=" if sign == "==" else sign, found[2].strip()
    first = re.split(r"[=!<>\s]", text, maxsplit=1)[0]
    if first in readers:
        raise ConditionError(f'"{text}" is not a valid condition on column "{first}": {FORM}')
    near = suggest_known_word(first, readers) or f" Known columns are {', '.join(list(readers)[:8])}."
    raise ConditionError(f'"{text}" names no column of the schema.{near}')


def _check_column(reader: ColumnReader) -> None:
    if isinstance(reader.column, Id):
        raise ConditionError(f'column "{reader.column.name}" is an id, which is generated: conditions are not possible')


def _check_together(reader: ColumnReader, conditions: Conditions) -> None:
    """Validate that a value can meet all conditions on one column."""
    probed = [condition.probes(reader) for _, condition in conditions]
    if not any(np.logical_and.reduce([c.holds(values) for _, c in conditions]).any() for values in probed):
        raise ConditionError(f"no value meets {format_conditions(conditions)}; relax one of them")


def _parse_open_end(key: Literal["min", "max"], reader: ColumnReader, rest: str) -> Condition:
    end = _parse_end(reader, rest)
    return Condition(**{key: end, "excluded": _exclude_end(reader, end)})


def _parse_missing(negate: bool, _: ColumnReader, rest: str) -> Condition:
    if rest.lower() in ("missing", "null", "empty"):
        return Condition(missing=not negate)
    if rest.lower() in ("not missing", "there") and not negate:
        return Condition(missing=False)
    raise UnfitValueError("must be the word missing" + ("" if negate else ', or "not missing"'))


_CONDITIONS: dict[str, Callable[[ColumnReader, str], Condition]] = {
    "=": lambda reader, rest: Condition(_parse_condition_values(reader, rest)),
    "!=": lambda reader, rest: Condition(excluded=_parse_condition_values(reader, rest)),
    ">=": lambda reader, rest: Condition(min=_parse_end(reader, rest)),
    "<=": lambda reader, rest: Condition(max=_parse_end(reader, rest)),
    ">": partial(_parse_open_end, "min"),
    "<": partial(_parse_open_end, "max"),
    "in": lambda reader, rest: Condition(_parse_condition_values(reader, rest)),
    "not in": lambda reader, rest: Condition(excluded=_parse_condition_values(reader, rest)),
    "is": partial(_parse_missing, False),
    "is not": partial(_parse_missing, True),
}


def _parse_condition_values(reader: ColumnReader, rest: str) -> tuple[Any, ...]:
    """Parse one value, or several separated by bars or commas; a quoted value is not split."""
    whole = _unquote(rest)
    if whole != rest or reader.column.listed is None or not _is_listed_text(reader, rest):
        parts = [rest] if whole != rest else re.split(r"\||,", rest)
        if len(parts) > 1:
            return tuple(_parse_value(reader, _unquote(part.strip())) for part in parts)
    return (_parse_value(reader, whole),)


def _is_listed_text(reader: ColumnReader, text: str) -> bool:
    try:
        return reader.typed(text) is not None
    except UnfitValueError:
        return False


def _unquote(text: str) -> str:
    held = len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'" and text[0] not in text[1:-1]
    return text[1:-1] if held else text


def _parse_value(reader: ColumnReader, text: str) -> Any:
    value = reader.typed(text)
    if value is None:
        raise UnfitValueError('is empty; name one, or write "is missing"')
    return value


def _parse_end(reader: ColumnReader, rest: str) -> Any:
    """Parse an end of a range, which need not be a possible value of the column."""
    text = _unquote(rest)
    if not text:
        raise UnfitValueError("is empty; name one")
    if not reader.comparable:
        raise UnfitValueError("has no order; list values instead, as in ward = a|b")
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


def _exclude_end(reader: ColumnReader, end: Any) -> tuple[Any, ...]:
    """Return the end of a range as an excluded value if it is a possible value of the column."""
    try:
        reader.point(end)
    except UnfitValueError:
        return ()
    return (end,)


def write_conditions(conditions: Conditions) -> list[str]:
    """Format conditions for a card, one line each, with all values."""
    return [condition.shown(name, most=MAX_CONDITION_LENGTH) for name, condition in conditions]
