"""Conditions on one column: a value, a list, a range, anything but some values, missing or not.

A condition on values holds for values that are there; `missing = true` beside it lets missing ones pass as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.schema.kinds.base import Scalar, suggestion
from weft.schema.rules.base import Readers, RuleError, known_column, shown
from weft.schema.rules.values import Mask, Reader, UnfitValueError, Values

_KEYS = ("min", "max", "not", "missing")
_TRIES = 64


@dataclass(frozen=True)
class Condition:
    """What one column must hold."""

    values: tuple[Scalar, ...] | None = None
    """Allowed values (None: any)."""
    excluded: tuple[Scalar, ...] = ()
    min: Scalar | None = None
    max: Scalar | None = None
    missing: bool | None = None

    @classmethod
    def read(cls, given: Any, reader: Reader, key: str) -> Condition:
        """Make a condition from what stands in the TOML file."""
        name = reader.column.name
        if isinstance(given, Mapping):
            for word in given:
                if word not in _KEYS:
                    near = suggestion(word, _KEYS) or f" Known are {', '.join(_KEYS)}."
                    raise RuleError(f'column "{name}": unknown key "{word}" in a condition.{near}', key)
            missing = given.get("missing")
            if not given or not (missing is None or isinstance(missing, bool)):
                raise RuleError(f'column "{name}": write a condition such as {{min = 0, max = 14}}', key)
            made = cls(
                None,
                _plain(given.get("not", ())),
                plain_value(given.get("min")),
                plain_value(given.get("max")),
                missing,
            )
        else:
            made = cls(_plain(given))
        made.check(reader, key)
        return made

    def entry(self) -> Any:
        """Return what stands in the TOML file."""
        if self.values is not None:
            return self.values[0] if len(self.values) == 1 else list(self.values)
        facts = {"not": list(self.excluded) or None, "min": self.min, "max": self.max, "missing": self.missing}
        return {word: value for word, value in facts.items() if value is not None}

    def check(self, reader: Reader, key: str) -> None:
        """Refuse values that the column can never hold, and conditions that it can never meet."""
        name = reader.column.name
        if self.missing and not reader.column.missing:
            raise RuleError(
                f'column "{name}": it is never missing; set missing = true in [columns.{name}], or mend the condition',
                key,
            )
        if self.values == ():
            raise RuleError(f'column "{name}": the list of values is empty; name at least one', key)
        for value in (*(self.values or ()), *self.excluded):
            _span(reader, value, key, inside=True)
        for word in ("min", "max"):
            if getattr(self, word) is not None:
                if not reader.comparable:
                    raise RuleError(f'column "{name}": its values have no order; list them instead of {word}', key)
                _span(reader, getattr(self, word), key, inside=False)
        if not self.holds(self.probes(reader)).any():
            raise RuleError(
                f'column "{name}": no value that it can hold meets {self.shown(name)}; mend the condition or its range',
                key,
            )

    def possible(self, reader: Reader, negate: bool = False) -> bool:
        """Whether the column has a value that meets the condition (or breaks it)."""
        return bool((self.holds(self.probes(reader)) != negate).any())

    def probes(self, reader: Reader) -> Values:
        """Return values of which one meets the condition, if any value does."""
        known = reader.codes
        if known is not None:
            return known
        named = [v for v in (*(self.values or ()), *self.excluded, self.min, self.max) if v is not None]
        spans = [end for value in named for end in reader.bound(value)]
        near = [*spans, *reader.ends, *reader.special, *(s + d for s in spans for d in (-1, 1))]
        few = near[:64]  # of a long list its own values are enough
        middle = [(a + b) / 2 if isinstance(a + b, float) else (a + b) // 2 for a in few for b in few]
        numbers = np.array([*near, *middle][:4096])
        numbers = numbers[reader.fits(numbers)]
        numbers = np.append(numbers, reader.ends[0])
        missing = np.zeros(len(numbers), bool)
        if reader.column.missing:
            numbers, missing = np.append(numbers, numbers[:1]), np.append(missing, True)
        return Values(numbers, missing, reader)

    def overlaps(self, reader: Reader, low: NDArray[Any], high: NDArray[Any]) -> Mask:
        """Say which stretches of numbers, from `low` to `high`, may hold one that meets it: all that do, at least."""
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
        """Say which values meet it."""
        reader, numbers = values.reader, values.numbers
        if self.values is None and not self.excluded and self.min is None and self.max is None:
            return values.missing.copy() if self.missing else ~values.missing
        met = ~values.missing
        if self.values is not None:
            met &= _among(reader, numbers, self.values)
        if self.excluded:
            met &= ~_among(reader, numbers, self.excluded)
        if self.min is not None:
            met &= numbers >= reader.bound(self.min)[0]
        if self.max is not None:
            met &= numbers <= reader.bound(self.max)[1]
        return met | values.missing if self.missing else met

    def draw(self, reader: Reader, count: int, rng: np.random.Generator, negate: bool = False) -> NDArray[Any]:
        """Draw numbers that meet the condition (or break it); none if none was found, or only missing does."""
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
        """Write the condition for a person, with at most so many values."""
        parts = []
        strict = self.excluded in ((self.min,), (self.max,))
        if self.values is not None:
            listed = [shown(value) for value in self.values[:most]] + ["..."] * (len(self.values) > most)
            parts.append(f"= {listed[0]}" if len(self.values) == 1 else f"in [{', '.join(listed)}]")
        if self.excluded and not strict:
            parts.append(f"not in [{', '.join(shown(v) for v in self.excluded[:most])}]")
        if self.min is not None:
            parts.append(f"{'>' if strict and self.excluded == (self.min,) else '>='} {shown(self.min)}")
        if self.max is not None:
            parts.append(f"{'<' if strict and self.excluded == (self.max,) else '<='} {shown(self.max)}")
        if not parts:
            return f"{name} {'missing' if self.missing else 'there'}"
        return f"{name} {' and '.join(parts)}" + (" or missing" if self.missing else "")


Conditions = tuple[tuple[str, Condition], ...]
"""Conditions by column, all of which must hold."""


def read_conditions(given: Any, readers: Readers, key: str, empty: bool = False) -> Conditions:
    """Make conditions from a TOML table of them."""
    if not isinstance(given, Mapping) or not (given or empty):
        raise RuleError(f"{key} must be a table of conditions, such as {{sex = 1, age = {{max = 14}}}}", key)
    return tuple(
        (name, Condition.read(value, readers[known_column(name, readers, key)], key)) for name, value in given.items()
    )


def all_hold(conditions: Conditions, values: Mapping[str, Values]) -> Mask:
    """Say which rows meet all conditions."""
    return np.asarray(np.logical_and.reduce([condition.holds(values[name]) for name, condition in conditions]))


def entry_of(conditions: Conditions) -> dict[str, Any]:
    """Return the TOML table of conditions."""
    return {name: condition.entry() for name, condition in conditions}


def shown_all(conditions: Conditions) -> str:
    """Write conditions for a person."""
    return " and ".join(condition.shown(name) for name, condition in conditions)


def _span(reader: Reader, value: Any, key: str, inside: bool) -> None:
    try:
        reader.point(value) if inside else reader.bound(value)
    except UnfitValueError as fault:
        raise RuleError(f'column "{reader.column.name}": {shown(value)} {fault}', key) from None


def _among(reader: Reader, numbers: NDArray[Any], values: tuple[Scalar, ...]) -> Mask:
    spans = [reader.span(value) for value in values]
    if all(low == high for low, high in spans):
        return np.isin(numbers, [low for low, _ in spans])
    return np.asarray(np.logical_or.reduce([(numbers >= low) & (numbers <= high) for low, high in spans]))


def _plain(given: Any) -> tuple[Scalar, ...]:
    return tuple(plain_value(value) for value in given) if isinstance(given, list | tuple) else (plain_value(given),)


def plain_value(value: Any) -> Any:
    """Return a value of a TOML file; its dates are kept as the text that a person would write."""
    return value.isoformat(" ") if hasattr(value, "hour") else value.isoformat() if hasattr(value, "year") else value
