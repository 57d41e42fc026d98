"""What every kind of column shares, and what a kind has to say for itself.

A column is a frozen statement of what is publicly known: which values are possible and how they are grouped into
codes. A kind is one file. It says which Arrow type the column has where its source declares none, how its values
become codes and codes values, what its codes are called, what to do about values that do not fit, and how a draft
recognises it. Each acts on one row at a time and on public facts alone. Nothing here looks at data but a draft's
`recognise`, for a person's review; every fact that was read from private rows carries its name in `from_data` until
then.
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


# What a code is called: a value, the range of a bin, a special value, missing.

Sort = Literal["value", "bin", "special", "missing", "rest"]
"""What a code stands for."""


@dataclass(frozen=True)
class Label:
    """The name of a code, as the lowest and highest value that it stands for."""

    low: str
    high: str
    sort: Sort

    def __str__(self) -> str:
        return self.low if self.low == self.high else f"{self.low} to {self.high}"

    def joined(self, last: Label) -> Label:
        """Return the label of everything from this bin to a later one."""
        return Label(self.low, last.high, self.sort)


def make_single_label(text: str, sort: Sort) -> Label:
    """Return the label of a single value."""
    return Label(text, text, sort)


Policy = Literal["refuse", "clip", "other"]
Scalar = str | int | float | bool

MAX_DICTIONARY_PLACES = 2**31
"""Places of a dictionary whose values are drawn, or are ids: as many as a block has rows."""

_ZONE = re.compile(r"tz=([^\]]*)\]")
_DECIMAL = re.compile(r"decimal(?:128)?\((\d{1,2}), ?(\d{1,2})\)")
_STAMP = re.compile(r"timestamp\[(s|ms|us|ns), ?tz=([^\]]+)\]")


class ColumnError(SchemaError):
    """A fault in the description of one column; `key` is the field to mend."""

    def __init__(self, column: str, text: str, key: str | None = None) -> None:
        super().__init__(f'column "{column}": {text}')
        self.column, self.key = column, key


class Coder(Protocol):
    """Codes of one column in one Arrow type."""

    size: int

    def encode(self, array: pa.Array) -> NDArray[np.int64]:
        """Return the code of each value; DataError under the refuse policy only."""
        ...

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """Return a value for each code."""
        ...


@runtime_checkable
class CheckingCoder(Protocol):
    """A coder that can tell which values the schema knows."""

    def fits(self, array: pa.Array) -> NDArray[np.bool_]:
        """Return which values the schema knows, whatever its policy makes of others."""
        ...


@dataclass(frozen=True)
class Column:
    """What every kind shares."""

    name: str
    missing: bool = field(default=False, kw_only=True)
    """Whether a value may be missing (null or NaN); missing then has a code of its own. A schema file may list markers
    in place of true: missing = ["?", -9]."""
    markers: tuple[Marker, ...] = field(default=(), kw_only=True)
    """Values that stand for a missing one, as a text file writes them or as a type holds them."""
    outside: Policy = field(default="refuse", kw_only=True)
    """What happens to a value that the schema does not know."""
    type: str | None = field(default=None, kw_only=True)
    """Arrow type to use where the source declares none of its own (CSV, and the types that pandas guesses)."""
    lost_share: float = field(default=0.0, kw_only=True)
    """Noisy share of the filled rows whose value is not kept: unreadable ones count as missing, unlisted ones as
    `other`. Found privately, and stated wherever the result is shown."""
    from_data: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of the fields that were read from private rows and not yet reviewed."""
    paid: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of the fields that were found privately, and paid for from a budget."""

    kind: ClassVar[str] = ""
    policies: ClassVar[tuple[str, ...]] = ("refuse",)
    as_written: ClassVar[bool] = False
    """Whether values are looked at as a text file would have them, whatever type a library keeps them in."""

    modelled: ClassVar[bool] = True
    """Whether a model learns the column; ids are made anew."""
    read: ClassVar[bool] = True
    """Whether its values are looked at when rows are read; those of a derived column are not."""
    unspelled: ClassVar[tuple[str, ...]] = ("name", "markers")
    """Fields that have no key of their own in a schema file."""
    spelling: ClassVar[Mapping[str, str]] = {}
    """Fields that a schema file spells otherwise, for the sake of a word that Python keeps for itself."""
    flipped: ClassVar[tuple[str, ...]] = ("missing",)
    """Facts of a draft that a single row can flip, beside the kind: their absence was read from the rows too."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError("a column needs a name, a non-empty text")
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
        self._need(
            zone is None or is_known_zone(zone[1]), 'type must name a known zone such as "Europe/Berlin"', "type"
        )
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
            self._need(known, 'missing must list texts and numbers, such as ["?", "NA", -9]', "missing")
        self._need(self.missing or not self.markers, "markers of missing values need missing = true", "missing")

    def _need_unlisted(self, values: Iterable[Any], key: str) -> None:
        """Refuse a value that is listed both as one and as a marker of missing ones."""
        marked = {write_marker(marker) for marker in self.markers}
        self._need(
            marked.isdisjoint(write_marker(value) for value in values if not isinstance(value, bool)),
            f"missing lists a value that {key} lists too; leave it in one of them",
            "missing",
        )

    @classmethod
    def fact_names(cls) -> tuple[str, ...]:
        """Names of the facts that can have been read from data: the kind itself, and every field that states one."""
        return ("kind", *(f.name for f in fields(cls) if f.name not in (*cls.unspelled, "from_data", "paid")))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without the fields that keep their default."""
        entry: dict[str, Any] = {"kind": self.kind}
        for part in fields(self):
            value = getattr(self, part.name)
            if part.name not in self.unspelled and (part.default is MISSING or value != part.default):
                entry[self.spelling.get(part.name, part.name)] = list(value) if isinstance(value, tuple) else value
        return entry | ({"missing": list(self.markers)} if self.markers else {})

    @property
    def in_table(self) -> bool:
        """Whether a table has a column of this name."""
        return True

    # What a kind says for itself.

    def plain_type(self) -> pa.DataType:
        """Return the Arrow type of the column where neither its source nor its `type` declares one."""
        raise NotImplementedError

    def coder(self, arrow_type: pa.DataType, nan: bool) -> Coder:
        """Return the codes of the column in an Arrow type, or ColumnError; with `nan`, missing is said by NaN."""
        raise NotImplementedError

    def part(self, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]) -> AttributePart:
        """Return what turns the column into attributes and back, given the Arrow fields and columns of the table."""
        from weft.schema.kinds.attributes import Single

        return Single(self, fields[self.name])

    def order(self, coder: Coder) -> Order:
        """Say of the codes whether they are ordered and which stand apart: missing, the last one."""
        return Order(apart=frozenset([coder.size - 1] if self.missing else []))

    def labels(self, arrow_type: pa.DataType, size: int) -> list[Label]:
        """Name every code but that of missing, in order; `size` is the number of all codes."""
        raise NotImplementedError

    @classmethod
    def recognise(cls, evidence: ColumnEvidence) -> Guess | None:
        """Return a draft's entry for a column that looks like this kind; None if it does not."""
        return None

    @property
    def outside_remedy(self) -> str:
        """What is wrong with a value that the schema does not know, and what to do about it."""
        return "a value lies outside the schema"

    @property
    def listed(self) -> tuple[Scalar, ...] | None:
        """The possible values, where the schema lists them one by one."""
        return None

    @property
    def text_format(self) -> str | None:
        """How text spells the values, in strptime's letters, if the schema says so."""
        return None

    @property
    def text_formats(self) -> tuple[str, ...]:
        """The formats in which text may spell the values; the first is how they are written."""
        return () if self.text_format is None else (self.text_format,)

    @property
    def number_format(self) -> NumberFormat | None:
        """How text writes the numbers, if the schema says so."""
        return None

    @property
    def made_from(self) -> tuple[str, ...]:
        """Columns that must be made before this one."""
        return ()

    @property
    def places(self) -> int:
        """How many values a dictionary of the column must tell apart."""
        return MAX_DICTIONARY_PLACES if self.listed is None else len(self.listed)

    @property
    def largest(self) -> int:
        """Largest whole number, by size, that must be told from its neighbours."""
        return max((abs(value) for value in self.listed or () if type(value) is int), default=0)

    # What follows for all of them.

    def arrow_type(self) -> pa.DataType:
        """Return the column's type where its source declares none: its own `type`, or the plain one of its kind."""
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
                f'unknown type "{name}"; write one such as "int32", "float64", "string", "date32", "timestamp[us]" '
                'or "decimal128(10, 2)"',
                "type",
            ) from None

    def unfit(self, arrow_type: pa.DataType) -> ColumnError:
        """Return the error for an Arrow type that the kind cannot be stored in."""
        return ColumnError(self.name, f"kind {self.kind} does not fit its type {arrow_type}", "kind")

    def _need(self, condition: bool, text: str, key: str) -> None:
        if not condition:
            raise ColumnError(self.name, text, key)

    def _set(self, **changes: Any) -> None:
        for key, value in changes.items():
            object.__setattr__(self, key, value)


def suggest_known_word(word: str, known: Iterable[str]) -> str:
    """Return ' Did you mean "x"?' for the nearest known word, or nothing."""
    near = get_close_matches(word, list(known), n=1)
    return f' Did you mean "{near[0]}"?' if near else ""


def format_alternatives(words: Iterable[str]) -> str:
    """Write alternatives, quoted."""
    quoted = [f'"{word}"' for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


# What becomes of missing values and of values that the schema does not know: the policies, in one place.


Mask = NDArray[np.bool_]


class Policies:
    """The codes of a column: `known` ones for values, then one for missing if the schema allows it."""

    def __init__(self, column: Column, known: int, other: int | None = None) -> None:
        self._column, self._other = column, other
        self._missing = known if column.missing else None
        self._middle = known // 2
        """Where values go that cannot be read, under a policy that never fails, if they may not be missing."""
        self.size = known + (1 if column.missing else 0)

    def settle(self, codes: NDArray[np.int64], missing: Mask) -> NDArray[np.int64]:
        """Give every row exactly one code: `codes` holds -1 where a value is unknown, anything where missing.

        A DataError tells the curator which column to mend. It holds no value and no count, and it is raised
        under the refuse policy only: what a row holds cannot make a run under clip or other fail.
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
            # Only a category (to its other) and a boolean (to missing) come here: bins clip by themselves.
            fallback = place if self._other is None else self._other
            assert fallback is not None
            codes[unknown] = fallback
        return codes

    def fits(self, codes: NDArray[np.int64], missing: Mask) -> Mask:
        """Return which rows have a value that the schema knows, or a missing one that it allows."""
        return np.asarray(np.where(missing, self._missing is not None, codes >= 0), dtype=bool)

    def is_missing(self, codes: NDArray[Any]) -> Mask:
        """Mask of the codes that stand for missing."""
        if self._missing is None:
            return np.zeros(len(codes), dtype=bool)
        mask: Mask = codes == self._missing
        return mask
