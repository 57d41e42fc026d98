"""A name or number that only identifies: never modelled, made anew."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.errors import DataError
from weft.schema.kinds.base import Column, ColumnError
from weft.schema.kinds.evidence import VERY_MANY, Evidence, Guess
from weft.schema.naming import names_code, names_id, names_person
from weft.values.limits import MAX_CODES
from weft.values.text import is_text

_UUID_ROWS = 1 << 48
_SCRAMBLE = 0x5DEECE66D  # odd, so that multiplying modulo 2^48 maps row numbers one to one
_SOMEBODY = "Many values with a few rows each: the id of somebody who has several, made anew for each row."
_NUMBERED = r"^[A-Za-z0-9_/.-]*[0-9]{4}[A-Za-z0-9_/.-]*$"
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


@dataclass(frozen=True)
class Id(Column):
    """A name or number that only identifies a row or unit: never modelled, made anew from a pattern."""

    pattern: str | None = None
    """Text around a running number, such as "P{:06d}" or "{}", or "{uuid}"."""

    kind: ClassVar[str] = "id"
    modelled: ClassVar[bool] = False
    flipped: ClassVar[tuple[str, ...]] = ("pattern",)

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

    def plain_type(self) -> pa.DataType:
        """Return text."""
        return pa.string()

    def maker(self, arrow_type: pa.DataType) -> IdMaker:
        """Return what makes ids in an Arrow type."""
        return IdMaker(self, arrow_type)

    @classmethod
    def recognise(cls, evidence: Evidence) -> Guess | None:
        """Take values that differ in nearly every row, or that repeat as persons do."""
        if is_text(evidence.type) and len(evidence.values):
            return _text(evidence)
        if pa.types.is_integer(evidence.type) and len(evidence.values):
            return _numbers(evidence)
        return None


def _text(evidence: Evidence) -> Guess | None:
    different, rows, name = evidence.different, len(evidence.values), evidence.name
    pattern = _pattern(different)
    named = pattern != "{}" or names_id(name)
    if len(different) > MAX_CODES or evidence.looks_unique:
        reason = "Nearly every value differs: an id, made anew."
        return Guess({"kind": "id", "pattern": pattern}, reason, repeats=named and len(different) < rows)
    person = names_person(name)
    if (named or person) and not names_code(name) and evidence.looks_like_somebody(names_id(name) or person, person):
        return Guess({"kind": "id", "pattern": pattern}, _SOMEBODY, repeats=True)
    # The numbers of households and the like: long, and all of them with digits.
    many = len(different) > VERY_MANY and not names_code(name) and evidence.looks_like_somebody(named=False)
    if many and pc.all(pc.match_substring_regex(different, _NUMBERED)).as_py():
        return Guess({"kind": "id", "pattern": pattern}, _SOMEBODY, repeats=True)
    return None


def _numbers(evidence: Evidence) -> Guess | None:
    different, rows, name = len(evidence.different), len(evidence.values), evidence.name
    if different == rows and rows >= 20:
        ends = pc.min_max(evidence.values)
        running = int(ends["max"].as_py()) - int(ends["min"].as_py()) + 1 == rows
        if running or name.lower().endswith(("id", "_no", "number", "key")):
            return Guess({"kind": "id", "pattern": "{}"}, "Every value differs: an id, made anew.")
    if names_id(name) and evidence.looks_like_somebody(named=True, person=names_person(name)):
        return Guess({"kind": "id", "pattern": "{}"}, _SOMEBODY, repeats=True)
    return None


def _pattern(words: pa.Array) -> str:
    if pc.all(pc.match_substring_regex(words, _UUID)).as_py():
        return "{uuid}"
    parts = pc.extract_regex(words, r"^(?P<head>[^0-9{}]*)(?P<digits>[0-9]+)$")
    heads = pc.unique(pc.struct_field(parts, "head"))
    if parts.null_count or len(heads) != 1:
        return "{}"
    widths = pc.unique(pc.utf8_length(pc.struct_field(parts, "digits"))).to_pylist()
    return f"{heads[0].as_py()}{{:0{widths[0]}d}}" if len(widths) == 1 and widths[0] < 19 else f"{heads[0].as_py()}{{}}"


class IdMaker:
    """Makes the ids of rows start, start + 1, ... in a column's type."""

    def __init__(self, column: Id, arrow_type: pa.DataType) -> None:
        self._column, self._type = column, arrow_type
        head, slot, tail = self._parts = column.parts()
        self._limit = _UUID_ROWS if slot == "uuid" else 2**63
        if pa.types.is_integer(arrow_type):
            if head or slot == "uuid" or tail:
                raise ColumnError(
                    column.name, f'its type {arrow_type} holds numbers only; set pattern = "{{}}"', "pattern"
                )
            self._limit = int(np.iinfo(arrow_type.to_pandas_dtype()).max)
        elif not is_text(arrow_type):
            raise ColumnError(column.name, f"an id must be text or a whole number, not {arrow_type}", "kind")

    def of(self, numbers: NDArray[np.int64], rng: np.random.Generator) -> pa.Array:
        """Make the ids of these numbers, which start from 0: equal ones for equal numbers."""
        if len(numbers) and int(numbers.max()) + 1 >= self._limit:
            raise DataError(f'column "{self._column.name}": its type {self._type} cannot number so many rows')
        head, slot, tail = self._parts
        if pa.types.is_integer(self._type):
            return pa.array(numbers + 1).cast(self._type)
        if slot == "uuid":
            different, place = np.unique(numbers, return_inverse=True)
            words = _uuids(different, rng).take(pa.array(place))
        else:
            words = pa.array(numbers + 1).cast(pa.string())
            if slot:
                words = pc.utf8_lpad(words, width=int(slot[1:-1]), padding="0" if slot[1] == "0" else " ")
        return pc.binary_join_element_wise(head, words, tail, "").cast(self._type)


def _uuids(numbers: np.ndarray[tuple[int], np.dtype[np.int64]], rng: np.random.Generator) -> pa.Array:
    """Version 4 in form: random bits in front, the scrambled row number in the last 48."""
    scrambled = numbers.astype(np.uint64) * np.uint64(_SCRAMBLE) & np.uint64(_UUID_ROWS - 1)
    octets = np.frombuffer(rng.bytes(16 * len(numbers)), dtype=np.uint8).reshape(-1, 16).copy()
    octets[:, 10:] = scrambled.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 2:]
    octets[:, 6] = octets[:, 6] & 0x0F | 0x40
    octets[:, 8] = octets[:, 8] & 0x3F | 0x80
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
    text = np.full((len(numbers), 36), ord("-"), dtype=np.uint8)
    places = [i for i in range(36) if i not in (8, 13, 18, 23)]
    text[:, places[::2]], text[:, places[1::2]] = digits[octets >> 4], digits[octets & 15]
    ends = np.arange(len(numbers) + 1, dtype=np.int64) * 36
    return pa.LargeStringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(text)).cast(pa.string())
