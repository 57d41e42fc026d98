"""Base class of all kinds of column.

A column is a frozen set of public facts: the possible values and how they are grouped into codes. Each kind has its own
file and implements the default Arrow type, encoding and decoding, code labels, the remedy for invalid values, and how a
draft recognises the kind.

Privacy: encoding uses one row at a time and public facts only, so that a row counts in one cell of every marginal
(sensitivity 1 to adding or removing a row). Only `recognise` reads data, for a draft that a person reviews; until then,
facts from private rows are listed in `from_data`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.errors import DataError, SchemaError
from weft.marginals.domain import Order
from weft.schema.kinds.draft_facts import ColumnEvidence, Guess
from weft.values.text_numbers import Marker, NumberFormat, write_marker
from weft.values.timestamps import is_known_zone

if TYPE_CHECKING:
    from weft.schema.kinds.attributes import AttributePart
Sort = Literal["value", "bin", "special", "missing", "rest"]


@dataclass(frozen=True)
class Label:
    """Name of a code: the lowest and highest value that it represents."""

    low: str
    high: str
    sort: Sort

    def __str__(self) -> str:
        return self.low if self.low == self.high else f"{self.low} to {self.high}"

    def joined(self, last: Label) -> Label:
        """Return the label of the bins from this one to `last`."""
        return Label(self.low, last.high, self.sort)


def make_single_label(text: str, sort: Sort) -> Label:
    """Return the label of a single value."""
    return Label(text, text, sort)


Policy = Literal["refuse", "clip", "other"]
Scalar = str | int | float | bool

MAX_DICTIONARY_PLACES = 2**31
"""Dictionary size for columns whose values are sampled or are ids: maximum number of rows in a block."""

_ZONE = re.compile(r"tz=([^\]]*)\]")
_DECIMAL = re.compile(r"decimal(?:128)?\((\d{1,2}), ?(\d{1,2})\)")
_STAMP = re.compile(r"timestamp\[(s|ms|us|ns), ?tz=([^\]]+)\]")


class ColumnError(SchemaError):
    """Error for an invalid column description; `key` is the field to correct."""

    def __init__(self, column: str, text: str, key: str | None = None) -> None:
        super().__init__(f'column "{column}": {text}')
        self.column, self.key = column, key


class Coder(Protocol):
    """Encoder and decoder of one column in one Arrow type."""

    size: int

    def encode(self, array: pa.Array) -> NDArray[np.int64]:
        """Return the code of each value; raise DataError under the refuse policy only."""
        ...

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """Return a value for each code."""
        ...


@runtime_checkable
class CheckingCoder(Protocol):
    """A coder that can validate values."""

    def fits(self, array: pa.Array) -> NDArray[np.bool_]:
        """Return which values are valid, independently of the policy for invalid ones."""
        ...


@dataclass(frozen=True)
class Column:
    """Public facts about one column, common to all kinds."""

    name: str
    missing: bool = field(default=False, kw_only=True)
    """Whether values may be missing (null or NaN), which then has its own code. A schema file may list markers instead
    of true: missing = ["?", -9]."""
    markers: tuple[Marker, ...] = field(default=(), kw_only=True)
    """Values that represent a missing value, as written in a text file or as stored in the Arrow type."""
    outside: Policy = field(default="refuse", kw_only=True)
    """Policy for values that are not possible according to the schema."""
    type: str | None = field(default=None, kw_only=True)
    """Arrow type for sources that declare none (CSV, and types that pandas infers); default: that of the kind."""
    lost_share: float = field(default=0.0, kw_only=True)
    """Noisy share of non-missing values that are not kept: unreadable ones count as missing, unlisted ones as `other`.
    Estimated privately during discovery and reported with every result."""
    from_data: tuple[str, ...] = field(default=(), kw_only=True)
    """Fields that were read from private rows and not yet reviewed."""
    paid: tuple[str, ...] = field(default=(), kw_only=True)
    """Fields that private discovery found, charged to a budget."""

    kind: ClassVar[str] = ""
    policies: ClassVar[tuple[str, ...]] = ("refuse",)
    outside_remedy: ClassVar[str] = "a value lies outside the schema"
    """Error text and remedy for an invalid value."""
    as_written: ClassVar[bool] = False
    """Whether values are read as a text file would write them, independently of their type in memory."""
    modelled: ClassVar[bool] = True
    """Whether the column is modelled; ids are generated instead."""
    read: ClassVar[bool] = True
    """Whether values are read from the rows; those of a derived column are computed."""
    unspelled: ClassVar[tuple[str, ...]] = ("name", "markers")
    """Fields without a key in a schema file."""
    spelling: ClassVar[Mapping[str, str]] = {}
    """Key in a schema file of fields that cannot have that name in Python, such as `else`."""
    flipped: ClassVar[tuple[str, ...]] = ("missing",)
    """Facts of a draft, in addition to the kind, that one row can change: their absence is also read from the rows."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError("invalid column name: expected a non-empty string")
        self._need(isinstance(self.missing, bool), "missing must be true, false, or a list of markers", "missing")
        self._check_markers()
        self._need(
            self.outside in self.policies,
            f"outside must be {format_alternatives(self.policies)} for kind {self.kind}",
            "outside",
        )
        self._need(self.type is None or isinstance(self.type, str), 'type must be text, such as "int32"', "type")
        share = self.lost_share
        known_share = isinstance(share, int | float) and not isinstance(share, bool) and 0 <= share <= 1
        self._need(known_share, "lost_share must be a share between 0 and 1", "lost_share")
        zone = _ZONE.search(self.type or "")
        self._need(zone is None or is_known_zone(zone[1]), 'type needs a known zone such as "Europe/Berlin"', "type")
        known = self.fact_names()
        for key, listed in (("from_data", self.from_data), ("paid", self.paid)):
            self._need(
                isinstance(listed, tuple) and all(f in known for f in listed),
                f"{key} must list fields of this column, from {format_alternatives(known)}",
                key,
            )

    def _check_markers(self) -> None:
        self._set(markers=tuple(self.markers))
        for marker in self.markers:
            known = isinstance(marker, str | int | float) and not isinstance(marker, bool) and marker == marker
            self._need(known, 'missing must list strings and numbers, such as ["?", "NA", -9]', "missing")
        self._need(self.missing or not self.markers, "markers of missing values need missing = true", "missing")

    def _need_unlisted(self, values: Iterable[Any], key: str) -> None:
        """Validate that no value is also a marker of missing values."""
        marked = {write_marker(marker) for marker in self.markers}
        self._need(
            marked.isdisjoint(write_marker(value) for value in values if not isinstance(value, bool)),
            f"missing and {key} list the same value; remove it from one of them",
            "missing",
        )

    @classmethod
    def fact_names(cls) -> tuple[str, ...]:
        """Return the facts that can be read from data: the kind, and every field that states a fact."""
        return ("kind", *(f.name for f in fields(cls) if f.name not in (*cls.unspelled, "from_data", "paid")))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, without those that equal their default."""
        entry: dict[str, Any] = {"kind": self.kind}
        for part in fields(self):
            value = getattr(self, part.name)
            if part.name not in self.unspelled and (part.default is MISSING or value != part.default):
                entry[self.spelling.get(part.name, part.name)] = list(value) if isinstance(value, tuple) else value
        return entry | ({"missing": list(self.markers)} if self.markers else {})

    @property
    def in_table(self) -> bool:
        """Whether the table contains a column with this name."""
        return True

    def plain_type(self) -> pa.DataType:
        """Return the default Arrow type, for columns whose source and `type` declare none."""
        raise NotImplementedError

    def coder(self, arrow_type: pa.DataType, nan: bool) -> Coder:
        """Return the coder for an Arrow type, or raise ColumnError; with `nan`, NaN represents missing values."""
        raise NotImplementedError

    def part(self, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]) -> AttributePart:
        """Return the part that encodes the column as attributes, given the Arrow fields and columns of the table."""
        from weft.schema.kinds.attributes import Single

        return Single(self, fields[self.name])

    def order(self, coder: Coder) -> Order:
        """Return whether the codes are ordered and which are special; by default only missing, the last code."""
        return Order(apart=frozenset([coder.size - 1] if self.missing else []))

    def labels(self, arrow_type: pa.DataType, size: int) -> list[Label]:
        """Return the label of every code except missing, in order; `size` is the number of all codes."""
        raise NotImplementedError

    @classmethod
    def recognise(cls, evidence: ColumnEvidence) -> Guess | None:
        """Return the draft entry of a column that looks like this kind, otherwise None."""
        return None

    @property
    def listed(self) -> tuple[Scalar, ...] | None:
        """Possible values, if the schema lists them individually."""
        return None

    @property
    def text_format(self) -> str | None:
        """Declared strptime format of the values in text."""
        return None

    @property
    def text_formats(self) -> tuple[str, ...]:
        """Declared strptime formats in which text is read; the first one is used for writing."""
        return () if self.text_format is None else (self.text_format,)

    @property
    def number_format(self) -> NumberFormat | None:
        """Declared format of numbers in text."""
        return None

    @property
    def made_from(self) -> tuple[str, ...]:
        """Columns that must be decoded before this one."""
        return ()

    @property
    def places(self) -> int:
        """Number of different values that a dictionary of the column must hold."""
        return MAX_DICTIONARY_PLACES if self.listed is None else len(self.listed)

    @property
    def largest(self) -> int:
        """Largest absolute value of an integer that must be stored exactly."""
        return max((abs(value) for value in self.listed or () if type(value) is int), default=0)

    def arrow_type(self) -> pa.DataType:
        """Return the type for sources that declare none: `type`, by default that of the kind."""
        return self.plain_type() if self.type is None else self._named_type(self.type)

    def _named_type(self, name: str) -> pa.DataType:
        if found := _DECIMAL.fullmatch(name):
            try:
                return pa.decimal128(int(found[1]), int(found[2]))
            except ValueError:
                pass
        if found := _STAMP.fullmatch(name):
            return pa.timestamp(found[1], found[2])
        try:
            return pa.type_for_alias(name)
        except ValueError:
            raise ColumnError(
                self.name,
                f'unknown type "{name}"; use one such as "int32", "float64", "string", "date32", "timestamp[us]" '
                'or "decimal128(10, 2)"',
                "type",
            ) from None

    def unfit(self, arrow_type: pa.DataType) -> ColumnError:
        """Return the error for an Arrow type that cannot store the kind."""
        return ColumnError(self.name, f"kind {self.kind} does not fit its type {arrow_type}", "kind")

    def _need(self, condition: bool, text: str, key: str) -> None:
        if not condition:
            raise ColumnError(self.name, text, key)

    def _set(self, **changes: Any) -> None:
        for key, value in changes.items():
            object.__setattr__(self, key, value)


def suggest_known_word(word: str, known: Iterable[str]) -> str:
    """Return ' Did you mean "x"?' for the nearest known word, or an empty string."""
    near = get_close_matches(word, list(known), n=1)
    return f' Did you mean "{near[0]}"?' if near else ""


def format_alternatives(words: Iterable[str]) -> str:
    """Return quoted words, joined by commas and "or"."""
    quoted = [f'"{word}"' for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


Mask = NDArray[np.bool_]


class Policies:
    """Policies for missing and invalid values. Codes are the `known` values, then missing if the schema allows it."""

    def __init__(self, column: Column, known: int, other: int | None = None) -> None:
        self._column, self._other = column, other
        self._missing = known if column.missing else None
        self._middle = known // 2
        """Code of unreadable values under the clip policy, in a column that cannot be missing."""
        self.size = known + (1 if column.missing else 0)

    def settle(self, codes: NDArray[np.int64], missing: Mask) -> NDArray[np.int64]:
        """Give every row exactly one code: `codes` is -1 where a value is invalid, arbitrary where it is missing.

        Privacy: a DataError names the column, but no value and no count. It is raised under the refuse policy only, so
        that under clip and other no row can make a run fail.
        """
        place = self._other if self._missing is None else self._missing
        if place is None and self._column.outside == "clip":
            place = self._middle
        if missing.any():
            if place is None:
                raise DataError(f'column "{self._column.name}": a value is missing. Set missing = true')
            codes[missing] = place
        unknown = codes < 0
        if unknown.any():
            if self._column.outside == "refuse":
                raise DataError(f'column "{self._column.name}": {self._column.outside_remedy}')
            # Only a category (other) and a Boolean (missing) reach this point: bins clip before.
            fallback = place if self._other is None else self._other
            assert fallback is not None
            codes[unknown] = fallback
        return codes

    def fits(self, codes: NDArray[np.int64], missing: Mask) -> Mask:
        """Return which rows have a valid value, or a missing one where that is allowed."""
        return np.asarray(np.where(missing, self._missing is not None, codes >= 0), dtype=bool)

    def is_missing(self, codes: NDArray[Any]) -> Mask:
        """Return a mask of the codes that represent missing values."""
        if self._missing is None:
            return np.zeros(len(codes), dtype=bool)
        mask: Mask = codes == self._missing
        return mask
