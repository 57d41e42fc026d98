"""Id columns: names or numbers that only identify. They are never modelled; synthetic ids are generated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.errors import DataError
from weft.schema.column_names import names_code, names_id, names_person
from weft.schema.kinds.draft_facts import MAX_LISTED_TEXTS, ColumnEvidence, Guess
from weft.schema.kinds.kind import Column, ColumnError
from weft.values.bins import MAX_CODES
from weft.values.text_numbers import is_text

MAX_DIGITS = 18
"""Maximum total number of digits in the placeholders after the first one."""

_PATTERN = re.compile(r"[^{}]*\{(|uuid|:0?\d{1,2}d)\}[^{}]*|[^{}]*\{(|:0?\d{1,2}d)\}([^{}]*\{:0\d{1,2}d\})+[^{}]*")
_UUID_ROWS = 1 << 48
_SCRAMBLE = 0x5DEECE66D  # odd, so that multiplying modulo 2^48 maps row numbers one to one
_SOMEBODY = "Many values with a few rows each: the id of a person with several rows, generated for each row."
_MAX_PLACES = 4
"""Maximum number of numbers in an id for which a draft infers a pattern."""

_NUMBERED = r"^[A-Za-z0-9_/.-]*[0-9]{4}[A-Za-z0-9_/.-]*$"
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_UNIQUE_SHARE = 0.9


@dataclass(frozen=True)
class Id(Column):
    """A name or number that identifies a row or unit. It is never modelled, but generated from a pattern."""

    pattern: str | None = None
    """Text with a placeholder for a serial number, such as "P{:06d}" or "{}", or "{uuid}". The digits of the number may
    be divided over several placeholders of fixed width, such as "{:02d}-{:06d}"."""

    kind: ClassVar[str] = "id"
    modelled: ClassVar[bool] = False
    flipped: ClassVar[tuple[str, ...]] = ("pattern",)

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.pattern is None or (isinstance(self.pattern, str) and _PATTERN.fullmatch(self.pattern) is not None)
        self._need(
            fits,
            'pattern must have one placeholder ("P{:06d}", "{}", "{uuid}") or several of fixed width ("{:02d}-{:06d}")',
            "pattern",
        )
        widths = [_parse_width(slot) for slot in self.parts()[1][1:]]
        self._need(sum(widths) <= MAX_DIGITS, f"pattern must have at most {MAX_DIGITS} digits", "pattern")

    def parts(self) -> tuple[list[str], list[str]]:
        """Return the texts around the placeholders, and their formats: "", "uuid" or a width such as ":06d"."""
        pieces = re.split(r"\{([^{}]*)\}", self.pattern or "{}")
        return pieces[::2], pieces[1::2]

    def plain_type(self) -> pa.DataType:
        """Return the text type."""
        return pa.string()

    def maker(self, arrow_type: pa.DataType) -> IdMaker:
        """Return the id generator for an Arrow type."""
        return IdMaker(self, arrow_type)

    @classmethod
    def recognise(cls, evidence: ColumnEvidence) -> Guess | None:
        """Recognise values that differ in nearly every row, or that repeat as person ids do."""
        if not len(evidence.values):
            return None
        if is_text(evidence.type):
            return _guess_text_id(evidence)
        return _guess_number_id(evidence) if pa.types.is_integer(evidence.type) else None


def _guess_text_id(evidence: ColumnEvidence) -> Guess | None:
    different, rows, name = evidence.different, len(evidence.values), evidence.name
    pattern = _find_pattern(different)
    named = _has_prefix(different) or names_id(name)
    if len(different) > MAX_CODES or (rows >= 20 and len(different) > _UNIQUE_SHARE * rows):
        reason = "Nearly every value differs: a generated id."
        return Guess({"kind": "id", "pattern": pattern}, reason, repeats=named and len(different) < rows)
    person = names_person(name)
    if (named or person) and not names_code(name) and evidence.looks_like_somebody(names_id(name) or person, person):
        return Guess({"kind": "id", "pattern": pattern}, _SOMEBODY, repeats=True)
    # Numbers of households, for example: many, and all of them with four digits in a row.
    many = len(different) > MAX_LISTED_TEXTS and not names_code(name) and evidence.looks_like_somebody(named=False)
    if many and pc.all(pc.match_substring_regex(different, _NUMBERED)).as_py():
        return Guess({"kind": "id", "pattern": pattern}, _SOMEBODY, repeats=True)
    return None


def _guess_number_id(evidence: ColumnEvidence) -> Guess | None:
    different, rows, name = len(evidence.different), len(evidence.values), evidence.name
    if different == rows and rows >= 20:
        ends = pc.min_max(evidence.values)
        running = int(ends["max"].as_py()) - int(ends["min"].as_py()) + 1 == rows
        if running or name.lower().endswith(("id", "_no", "number", "key")):
            return Guess({"kind": "id", "pattern": "{}"}, "Every value differs: a generated id.")
    if names_id(name) and evidence.looks_like_somebody(named=True, person=names_person(name)):
        return Guess({"kind": "id", "pattern": "{}"}, _SOMEBODY, repeats=True)
    return None


def _find_pattern(words: pa.Array) -> str:
    """Infer the common pattern of ids: shared text is kept, and numbers that differ become placeholders."""
    if pc.all(pc.match_substring_regex(words, _UUID)).as_py():
        return "{uuid}"
    shapes = pc.unique(pc.replace_substring_regex(words, "[0-9]+", "#"))
    if len(shapes) != 1 or "#" not in shapes[0].as_py() or set(shapes[0].as_py()) & set("{}"):
        return "{}"
    texts = shapes[0].as_py().split("#")
    if len(texts) - 1 > _MAX_PLACES or pc.any(pc.match_substring(words, "#")).as_py():
        return "{}"
    runs = "".join(f"{re.escape(text)}(?P<n{place}>[0-9]+)" for place, text in enumerate(texts[:-1]))
    parts = pc.extract_regex(words, f"^{runs}{re.escape(texts[-1])}$")
    numbers = [pc.unique(pc.struct_field(parts, f"n{place}")) for place in range(len(texts) - 1)]
    if all(len(each) == 1 for each in numbers):
        return "{}"
    made, places = texts[0], 0
    for each, text in zip(numbers, texts[1:], strict=True):
        widths = pc.unique(pc.utf8_length(each)).to_pylist()
        if len(each) > 1 and places and (len(widths) > 1 or widths[0] > MAX_DIGITS):
            return "{}"
        fixed = f"{{:0{widths[0]}d}}" if len(widths) == 1 and widths[0] < 19 else "{}"
        made += (each[0].as_py() if len(each) == 1 else fixed) + text
        places += len(each) > 1
    return made if _PATTERN.fullmatch(made) else "{}"


def _has_prefix(words: pa.Array) -> bool:
    """Return whether all texts are UUIDs, or a number after one common prefix without digits."""
    if pc.all(pc.match_substring_regex(words, _UUID)).as_py():
        return True
    parts = pc.extract_regex(words, r"^(?P<head>[^0-9{}]*)(?P<digits>[0-9]+)$")
    heads = pc.unique(pc.struct_field(parts, "head"))
    if parts.null_count or len(heads) != 1:
        return False
    widths = pc.unique(pc.utf8_length(pc.struct_field(parts, "digits")))
    return heads[0].as_py() != "" or (len(widths) == 1 and widths[0].as_py() < 19)


class IdMaker:
    """Generator of ids in a column's type."""

    def __init__(self, column: Id, arrow_type: pa.DataType) -> None:
        self._column, self._type = column, arrow_type
        self._texts, self._slots = column.parts()
        self._limit = _UUID_ROWS if self._slots == ["uuid"] else 2**63
        if pa.types.is_integer(arrow_type):
            if any(self._texts) or len(self._slots) > 1 or self._slots == ["uuid"]:
                raise ColumnError(column.name, f'its type {arrow_type} is numeric; set pattern = "{{}}"', "pattern")
            self._limit = int(np.iinfo(arrow_type.to_pandas_dtype()).max)
        elif not is_text(arrow_type):
            raise ColumnError(column.name, f"an id must be text or a whole number, not {arrow_type}", "kind")

    def of(self, numbers: NDArray[np.int64], rng: np.random.Generator) -> pa.Array:
        """Return the ids of these numbers, which start from 0; equal numbers have equal ids."""
        if len(numbers) and int(numbers.max()) + 1 >= self._limit:
            raise DataError(f'column "{self._column.name}": its type {self._type} cannot hold an id for every row')
        if pa.types.is_integer(self._type):
            return pa.array(numbers + 1).cast(self._type)
        if self._slots == ["uuid"]:
            different, place = np.unique(numbers, return_inverse=True)
            words = [_make_uuids(different, rng).take(pa.array(place))]
        else:
            words = self._digits(numbers + 1)
        joined: list[pa.Array | str] = [self._texts[0]]
        for word, text in zip(words, self._texts[1:], strict=True):
            joined += [word, text]
        return pc.binary_join_element_wise(*joined, "").cast(self._type)

    def _digits(self, numbers: NDArray[np.int64]) -> list[pa.Array]:
        """Divide the digits of numbers over the placeholders, the last digits into the last one."""
        words = []
        for slot in reversed(self._slots[1:]):
            numbers, last = np.divmod(numbers, 10 ** _parse_width(slot))
            words.append(_pad_numbers(last, slot))
        return [_pad_numbers(numbers, self._slots[0]), *reversed(words)]


def _pad_numbers(numbers: NDArray[np.int64], slot: str) -> pa.Array:
    words = pa.array(numbers).cast(pa.string())
    return pc.utf8_lpad(words, width=_parse_width(slot), padding="0" if slot[1] == "0" else " ") if slot else words


def _parse_width(slot: str) -> int:
    return int(slot[1:-1])


def _make_uuids(numbers: np.ndarray[tuple[int], np.dtype[np.int64]], rng: np.random.Generator) -> pa.Array:
    """Return UUIDs in the format of version 4: random bits, then the scrambled row number in the last 48."""
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
