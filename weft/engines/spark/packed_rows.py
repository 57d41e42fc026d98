"""Encoded rows in Spark: single rows as bytes, or blocks of many rows with one cell per attribute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.engines.spill import Octets
from weft.io.spark_source import Converted, get_spark_column
from weft.marginals.domain import Domain
from weft.marginals.records import Records, code_dtype

BLOCK_ROWS = 1 << 17  # maximum number of rows in a block

FIXED = {"fault": pa.string(), "part": pa.int32(), "rows": pa.int32(), "owner": pa.binary(), "word": pa.binary()}
"""Columns of a block in addition to its codes: the error message if its rows were refused; its part of a division; the
number of rows; the unit of each row, by number within the block; and the secret word of each row's unit."""


def block_fields(domain: Domain) -> dict[str, pa.DataType]:
    """Return the columns of a table of blocks: the codes of an attribute are one cell."""
    return FIXED | {f"c{i}": pa.binary() for i in range(len(domain))}


def spark_fields(fields: Mapping[str, pa.DataType]) -> str:
    """Return columns in Spark's DDL."""
    names = {pa.string(): "string", pa.int32(): "int", pa.int64(): "bigint", pa.binary(): "binary"}
    return ", ".join(f"{name} {names[kind]}" for name, kind in fields.items())


def make_row(fields: Mapping[str, pa.DataType], **cells: Any) -> pa.RecordBatch:
    """Return a row of a table with these columns, null by default."""
    arrays = [pa.array([cells.get(name)], kind) for name, kind in fields.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(fields))


def make_block(records: Records, **beside: Any) -> pa.RecordBatch:
    """Return records as a block."""
    codes = {f"c{i}": each.tobytes() for i, each in enumerate(records.columns)}
    return make_row(block_fields(records.domain), rows=len(records), **beside, **codes)


def make_refusal(fields: Mapping[str, pa.DataType], fault: str) -> pa.RecordBatch:
    """Return the row that represents refused rows."""
    return make_row(fields, fault=fault)


def records_of(batch: pa.RecordBatch, row: int, domain: Domain, names: Sequence[str]) -> Records:
    """Return the records of a block over some attributes of its domain."""
    codes = (
        np.frombuffer(batch.column(f"c{domain.index(name)}")[row].as_buffer(), code_dtype(domain.size(name)))
        for name in names
    )
    return Records(domain.project(names), tuple(codes))


def octets_of(records: Records) -> Octets:
    """Return each record as a line of bytes; byte order equals the lexicographic order of records."""
    lines = [
        each.astype(each.dtype.newbyteorder(">")).view(np.uint8).reshape(len(records), each.itemsize)
        for each in records.columns
    ]
    return np.ascontiguousarray(np.hstack(lines)) if lines else np.zeros((len(records), 0), np.uint8)


def from_octets(octets: Octets, domain: Domain) -> Records:
    """Return the records that `octets_of` wrote."""
    columns, at = [], 0
    for size in domain.shape:
        kind = code_dtype(size)
        cells = np.ascontiguousarray(octets[:, at : at + kind.itemsize])
        columns.append(cells.view(kind.newbyteorder(">")).reshape(-1).astype(kind))
        at += kind.itemsize
    return Records(domain, tuple(columns))


def make_binary_array(octets: Octets) -> pa.Array:
    """Return lines of bytes as an Arrow array."""
    ends = np.arange(len(octets) + 1, dtype=np.int32) * octets.shape[1]
    return pa.Array.from_buffers(pa.binary(), len(octets), [None, pa.py_buffer(ends), pa.py_buffer(octets.tobytes())])


def lines_of(array: pa.Array, width: int) -> Octets:
    """Return an Arrow array of lines with this width as a matrix."""
    array = array.cast(pa.binary())
    _, ends, data = array.buffers()
    if not len(array):
        return np.zeros((0, width), np.uint8)
    first = int(np.frombuffer(ends, np.int32)[array.offset])
    return np.frombuffer(data, np.uint8)[first : first + len(array) * width].reshape(len(array), width)


def width_of(domain: Domain) -> int:
    """Return the number of bytes of a record."""
    return sum(code_dtype(size).itemsize for size in domain.shape)


def gather_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches: Spark passes ten thousand rows at a time, which are encoded faster together."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= BLOCK_ROWS:
            yield _join_batches(held)
            held, rows = [], 0
    if rows:
        yield _join_batches(held)


def _join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    arrays = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(batches[0].num_columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=batches[0].schema)


def runs_of(lines: Octets) -> NDArray[np.int64]:
    """Number the runs of equal lines, from 0.

    >>> runs_of(np.array([[1], [1], [3]], np.uint8)).tolist()
    [0, 0, 1]
    """
    changed = (lines[1:] != lines[:-1]).any(axis=1)
    return np.concatenate([np.zeros(min(len(lines), 1), np.int64), np.cumsum(changed)])


def places_in(runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each row in its run, from 0.

    >>> places_in(np.array([0, 0, 1, 2, 2, 2])).tolist()
    [0, 1, 0, 0, 1, 2]
    """
    at = np.arange(len(runs))
    first = np.concatenate([np.ones(min(len(runs), 1), bool), np.diff(runs) != 0])
    return np.asarray(at - np.maximum.accumulate(np.where(first, at, 0)))


WORD = 64

_BITS = {pa.int32(): 32, pa.date32(): 32, pa.int16(): 16, pa.int8(): 8, pa.bool_(): 8}
"""Types that are packed into words, and the number of bits of each."""


@dataclass(frozen=True)
class PackedField:
    """Location of a column: the bits from `shift` on in a word of values, and one bit in a word of non-null flags."""

    name: str
    kind: pa.DataType
    word: int
    shift: int
    known: int


@dataclass(frozen=True)
class Words:
    """Layout of columns with few bits that are packed into words on their way from Java to Python."""

    names: tuple[str, ...]
    places: tuple[PackedField, ...]
    """The packed columns; the others stay unchanged."""

    @classmethod
    def of(cls, schema: pa.Schema) -> Words:
        """Plan the words of a table: wide columns first, so that each starts at a multiple of its width.

        >>> planned = Words.of(pa.schema([("a", pa.int16()), ("b", pa.int32()), ("c", pa.string()), ("d", pa.bool_())]))
        >>> [(place.name, place.word, place.shift, place.known) for place in planned.places]
        [('b', 0, 0, 0), ('a', 0, 32, 1), ('d', 0, 48, 2)]
        """
        narrow = sorted((field for field in schema if field.type in _BITS), key=lambda field: -_BITS[field.type])
        places: list[PackedField] = []
        at = 0
        for field in narrow:
            places.append(PackedField(field.name, field.type, at // WORD, at % WORD, len(places)))
            at += _BITS[field.type]
        saved = len(places) > -(-at // WORD) + -(-len(places) // WORD)
        return cls(tuple(schema.names), tuple(places) if saved else ())

    def columns(self) -> list[Any]:
        """Return the Spark columns to select: words `v0`, `v1`, ... of values and `k0`, ... of non-null flags."""
        from pyspark.sql import functions

        asked: dict[str, Any] = {}
        for place in self.places:
            cell = get_spark_column(place.name)
            plain = functions.unix_date(cell) if place.kind == pa.date32() else cell
            bits = plain.cast("bigint").bitwiseAND(functions.lit((1 << _BITS[place.kind]) - 1))
            value = functions.coalesce(functions.shiftleft(bits, place.shift), functions.lit(0).cast("bigint"))
            known = functions.shiftleft(cell.isNotNull().cast("bigint"), place.known % WORD)
            for name, part in ((f"v{place.word}", value), (f"k{place.known // WORD}", known)):
                asked[name] = asked[name].bitwiseOR(part) if name in asked else part
        packed = {place.name for place in self.places}
        rest = [get_spark_column(name).alias(f"c{i}") for i, name in enumerate(self.names) if name not in packed]
        return [*(part.alias(name) for name, part in asked.items()), *rest]

    def taken_apart(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the unpacked columns, together with those that were not packed."""
        known = [_Known(batch.column(name)) for name in batch.schema.names if name.startswith("k")]
        found = {}
        for place in self.places:
            bits = _BITS[place.kind]
            side_by_side = batch.column(f"v{place.word}").to_numpy().view(f"i{bits // 8}")
            values = np.ascontiguousarray(side_by_side[place.shift // bits :: WORD // bits])
            missing = known[place.known // WORD].missing(place.known % WORD)
            if pa.types.is_boolean(place.kind):
                values = values != 0
            found[place.name] = pa.array(values, mask=missing).cast(place.kind)
        arrays = [found[name] if name in found else batch.column(f"c{i}") for i, name in enumerate(self.names)]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.names))


class _Known:
    """A word of non-null flags in each row."""

    def __init__(self, words: pa.Array) -> None:
        self._words = words.to_numpy()
        self._every = int(np.bitwise_and.reduce(self._words, initial=-1))

    def missing(self, bit: int) -> Any:
        """Return the mask of rows in which a column is missing; None if there are none."""
        return None if self._every >> bit & 1 else (self._words >> bit & 1) == 0


@dataclass(frozen=True)
class TakenApart:
    """Unpacks words before a batch is converted to the types in which its table is read."""

    words: Words
    converted: Converted

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the columns of the table."""
        return self.converted(self.words.taken_apart(batch))
