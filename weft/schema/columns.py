"""What is publicly known about a column: one frozen type for each kind.

A column says which values are possible and how they are grouped into codes. Nothing here looks at data. Every
fact that was read from private rows carries its field's name in `from_data`, until a person has reviewed it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, ClassVar, Literal

from weft.errors import SchemaError
from weft.values.instants import Moment, known_zone, parse_step
from weft.values.limits import MAX_CODES

Policy = Literal["refuse", "clip", "other"]
Scalar = str | int | float | bool

_ZONE = re.compile(r"tz=([^\]]*)\]")

INTEGER_LIMITS = (-(2**63), 2**64 - 1)


class ColumnError(SchemaError):
    """A fault in the description of one column; `key` is the field to mend."""

    def __init__(self, column: str, text: str, key: str | None = None) -> None:
        super().__init__(f'column "{column}": {text}')
        self.column, self.key = column, key


@dataclass(frozen=True)
class Column:
    """What every kind shares."""

    name: str
    missing: bool = field(default=False, kw_only=True)
    """Whether a value may be missing (null or NaN); missing then has a code of its own."""
    outside: Policy = field(default="refuse", kw_only=True)
    """What happens to a value that the schema does not know."""
    type: str | None = field(default=None, kw_only=True)
    """Arrow type to use where the source declares none of its own (CSV, and the types that pandas guesses)."""
    from_data: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of the fields that were read from private rows and not yet reviewed."""

    kind: ClassVar[str] = ""
    policies: ClassVar[tuple[str, ...]] = ("refuse",)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError("a column needs a name, a non-empty text")
        self._need(isinstance(self.missing, bool), "missing must be true or false", "missing")
        self._need(
            self.outside in self.policies,
            f"outside must be {_either(self.policies)} for kind {self.kind}",
            "outside",
        )
        self._need(
            self.outside != "clip" or self.missing,
            'outside = "clip" never fails on data, so missing values need a place: set missing = true',
            "missing",
        )
        self._need(self.type is None or isinstance(self.type, str), 'type must be text, such as "int32"', "type")
        zone = _ZONE.search(self.type or "")
        self._need(zone is None or known_zone(zone[1]), 'type must name a known zone such as "Europe/Berlin"', "type")
        known = self.fact_names()
        self._need(
            isinstance(self.from_data, tuple) and all(f in known for f in self.from_data),
            f"from_data must list fields of this column, from {_either(known)}",
            "from_data",
        )

    @classmethod
    def fact_names(cls) -> tuple[str, ...]:
        """Names of the facts that can have been read from data: the kind itself, and every field that states one."""
        return ("kind", *(f.name for f in fields(cls) if f.name not in ("name", "from_data")))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without the fields that keep their default."""
        entry: dict[str, Any] = {"kind": self.kind}
        for part in fields(self):
            value = getattr(self, part.name)
            if part.name != "name" and (part.default is MISSING or value != part.default):
                entry[part.name] = list(value) if isinstance(value, tuple) else value
        return entry

    def _need(self, condition: bool, text: str, key: str) -> None:
        if not condition:
            raise ColumnError(self.name, text, key)

    def _set(self, **changes: Any) -> None:
        for key, value in changes.items():
            object.__setattr__(self, key, value)


@dataclass(frozen=True)
class Category(Column):
    """One of a list of values, all texts, all whole numbers, all decimal numbers or all booleans."""

    values: tuple[Scalar, ...] = ()
    """The possible values; their order is the order of the codes."""
    other: Scalar | None = field(default=None, kw_only=True)
    """Value that stands for every unknown one; added to `values` if it is not there."""

    kind: ClassVar[str] = "category"
    policies: ClassVar[tuple[str, ...]] = ("refuse", "other")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need(isinstance(self.values, tuple), "values must be a list", "values")
        if self.other is not None and self.other not in self.values:
            self._set(values=(*self.values, self.other))
        self._need(len(self.values) > 0, 'values must list at least one value, such as ["a", "b"]', "values")
        kinds = {type(value) for value in self.values}
        self._need(
            len(kinds) == 1 and kinds <= {str, int, float, bool},
            "values must all be texts, all whole numbers, all decimal numbers (1.0, 2.5) or all booleans",
            "values",
        )
        self._need(
            all(math.isfinite(v) for v in self.values if isinstance(v, float)),
            "values must be finite; for not-a-number set missing = true",
            "values",
        )
        self._need(len(set(self.values)) == len(self.values), "values must differ from one another", "values")
        self._need(len(self.values) <= MAX_CODES, f"values must be at most {MAX_CODES}", "values")
        self._need(
            (self.outside == "other") == (self.other is not None),
            'outside = "other" and other go together: declare other = "..." (the value that stands for the rest)',
            "other",
        )


@dataclass(frozen=True)
class Boolean(Column):
    """True or false. With `outside = "clip"`, anything else counts as missing."""

    kind: ClassVar[str] = "boolean"
    policies: ClassVar[tuple[str, ...]] = ("refuse", "clip")


@dataclass(frozen=True)
class Binned(Column):
    """What numbers and dates share: a range, or edges, cut into bins."""

    range: tuple[Any, ...] | None = None
    """Smallest and largest possible value, both included."""
    bins: int | Literal["each"] | None = field(default=None, kw_only=True)
    """Number of equal-width bins, or "each" for one code a value."""
    edges: tuple[Any, ...] | None = field(default=None, kw_only=True)
    """Edges of the bins, in place of range and bins; a bin holds its left edge, the last one both."""
    special: tuple[Any, ...] = field(default=(), kw_only=True)
    """Values with a code of their own, inside or outside the range (0, 999999 for not asked)."""

    policies: ClassVar[tuple[str, ...]] = ("refuse", "clip")

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("range", "edges", "special"):
            given = getattr(self, key)
            if given is not None:
                self._need(isinstance(given, tuple), f"{key} must be a list", key)
                self._set(**{key: tuple(self._member(value, key) for value in given)})
        self._need(
            (self.range is None) != (self.edges is None),
            "give either range = [lowest, highest] or edges = [...]",
            "range" if self.edges is None else "edges",
        )
        self._need(self.bins is None or self.edges is None, "give either bins or edges, not both", "bins")
        whole = isinstance(self.bins, int) and not isinstance(self.bins, bool)
        self._need(
            self.bins is None
            or (self.bins == "each" and self.kind != "real")
            or (whole and 1 <= int(self.bins) <= MAX_CODES),
            "bins must be a number of bins" + ("" if self.kind == "real" else ' or "each"'),
            "bins",
        )
        if self.range is not None:
            two = len(self.range) == 2 and self._place(self.range[0]) <= self._place(self.range[1])
            self._need(two, "range must be [lowest, highest]", "range")
        if self.edges is not None:
            places = [self._place(edge) for edge in self.edges]
            rising = len(places) >= 2 and all(a < b for a, b in pairwise(places))
            self._need(rising, "edges must be at least two rising values", "edges")
            self._need(len(places) <= MAX_CODES, f"edges must be at most {MAX_CODES}", "edges")
        places = [self._place(value) for value in self.special]
        self._need(len(set(places)) == len(places), "special must not repeat a value", "special")

    def _member(self, value: Any, key: str) -> Any:
        raise NotImplementedError

    def _place(self, value: Any) -> Any:
        """Position of a value on a line, for comparisons."""
        return value

    @property
    def ends(self) -> tuple[Any, Any]:
        """Lowest and highest possible value."""
        outer = self.range or self.edges or ()
        return outer[0], outer[-1]


@dataclass(frozen=True)
class Integer(Binned):
    """A whole number."""

    step: int = field(default=1, kw_only=True)
    """Distance between possible values, counted from the lowest."""

    kind: ClassVar[str] = "integer"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = isinstance(self.step, int) and not isinstance(self.step, bool)
        self._need(whole and 1 <= self.step < 2**63, "step must be a whole number from 1", "step")
        low, high = self.ends
        count = (high - low) // self.step + 1
        self._need(count <= 2**64, "range must hold at most 2^64 values", "range")
        self._need(
            self.bins != "each" or count <= MAX_CODES,
            f'bins = "each" would make more than {MAX_CODES} codes; give a number of bins',
            "bins",
        )

    def _member(self, value: Any, key: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ColumnError(self.name, f"{key} must hold whole numbers", key)
        low, high = INTEGER_LIMITS
        self._need(low <= value <= high, f"{key} must lie between -2^63 and 2^64 - 1", key)
        return value


@dataclass(frozen=True)
class Real(Binned):
    """A number with a fraction."""

    decimals: int | None = field(default=None, kw_only=True)
    """Digits after the point of the values that are made (None: as many as the type holds)."""

    kind: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = isinstance(self.decimals, int) and not isinstance(self.decimals, bool)
        self._need(
            self.decimals is None or (whole and 0 <= int(self.decimals) <= 18),
            "decimals must be a whole number from 0 to 18",
            "decimals",
        )

    def _member(self, value: Any, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            raise ColumnError(self.name, f"{key} must hold finite numbers", key)
        return float(value) + 0.0  # so that -0.0 becomes 0.0


@dataclass(frozen=True)
class Datetime(Binned):
    """A day or a moment. The highest end, given as a plain date, includes that whole day."""

    step: str | None = field(default=None, kw_only=True)
    """Elapsed time between possible values, such as "1d", "1h", "15min", "1s", "1ms" (None: 1d for dates, else 1s)."""
    timezone: str | None = field(default=None, kw_only=True)
    """Zone in which range, edges and special are read (None: that of the column's type)."""
    format: str | None = field(default=None, kw_only=True)
    """How a text column writes it, in strptime's letters, such as "%d/%m/%Y"."""
    date: bool | None = field(default=None, kw_only=True)
    """Whether text and CSV hold a plain date (None: yes, if the ends are plain dates and steps are whole days)."""

    kind: ClassVar[str] = "datetime"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need(self.date is None or isinstance(self.date, bool), "date must be true or false", "date")
        self._need(
            self.format is None or (isinstance(self.format, str) and "%" in self.format),
            'format must be in strptime letters, such as "%d/%m/%Y"',
            "format",
        )
        if self.step is not None:
            try:
                parse_step(self.step)
            except ValueError:
                raise ColumnError(
                    self.name, 'step must be a time such as "1d", "1h", "15min", "1s" or "1ms"', "step"
                ) from None
        self._need(
            self.timezone is None or (isinstance(self.timezone, str) and known_zone(self.timezone)),
            'timezone must be a known zone such as "Europe/Berlin"',
            "timezone",
        )

    def _member(self, value: Any, key: str) -> str:
        try:
            Moment.parse(value)
        except (ValueError, TypeError):
            raise ColumnError(
                self.name, f'{key} must hold dates such as "2013-01-31" or "2013-01-31 18:30:00"', key
            ) from None
        return str(value)

    def _place(self, value: Any) -> int:
        return Moment.parse(value).nanoseconds

    @property
    def plain_date(self) -> bool:
        """Whether text and CSV hold plain dates."""
        if self.date is not None:
            return self.date
        plain = all(Moment.parse(value).whole_day for value in (*(self.range or ()), *(self.edges or ())))
        return plain and (self.step is None or parse_step(self.step) % parse_step("1d") == 0)


@dataclass(frozen=True)
class Id(Column):
    """A name or number that only identifies a row or unit: never modelled, made anew from a pattern."""

    pattern: str | None = None
    """Text around a running number, such as "P{:06d}" or "{}", or "{uuid}"."""

    kind: ClassVar[str] = "id"

    _PATTERN: ClassVar[re.Pattern[str]] = re.compile(r"(?P<head>[^{}]*)\{(?P<slot>|uuid|:0?\d{1,2}d)\}(?P<tail>[^{}]*)")

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.pattern is None or (
            isinstance(self.pattern, str) and self._PATTERN.fullmatch(self.pattern) is not None
        )
        self._need(fits, 'pattern must hold one place for a number, such as "P{:06d}", "{}" or "{uuid}"', "pattern")

    def parts(self) -> tuple[str, str, str]:
        """Return the text before the number, the slot ("", "uuid" or a width such as ":06d"), the text after."""
        found = self._PATTERN.fullmatch(self.pattern or "{}")
        assert found is not None
        return found["head"], found["slot"], found["tail"]


KINDS: dict[str, type[Column]] = {c.kind: c for c in (Category, Integer, Real, Datetime, Boolean, Id)}


def column_from_dict(name: str, entry: Any) -> Column:
    """Make a column from plain values, refusing keys that its kind does not know."""
    if not isinstance(entry, dict):
        raise ColumnError(name, 'must be a table with a kind, such as kind = "category"')
    kind = entry.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        near = suggestion(kind, KINDS) if isinstance(kind, str) else ""
        raise ColumnError(name, f"kind must be {_either(KINDS)}.{near}", "kind" if "kind" in entry else None)
    known = [f.name for f in fields(KINDS[kind]) if f.name != "name"]
    for key in entry:
        if key != "kind" and key not in known:
            near = suggestion(key, known) or f" Known are {', '.join(known)}."
            raise ColumnError(name, f'unknown key "{key}" for kind {kind}.{near}', key)
    given = {key: _plain(value) for key, value in entry.items() if key != "kind"}
    if given.get("other") is not None:
        given.setdefault("outside", "other")  # declaring the value is declaring the policy
    return KINDS[kind](name, **given)


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ' Did you mean "x"?' for the nearest known word, or nothing."""
    near = get_close_matches(word, list(known), n=1)
    return f' Did you mean "{near[0]}"?' if near else ""


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    # TOML has dates of its own; they are kept as the text a person would write.
    return value.isoformat() if hasattr(value, "isoformat") else value


def _finite(value: int | float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _either(words: Iterable[str]) -> str:
    quoted = [f'"{word}"' for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
