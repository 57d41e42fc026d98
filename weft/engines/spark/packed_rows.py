"""Coded rows on their way through Spark: one by one as octets, or many at a time as blocks of columns."""

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

BLOCK_ROWS = 1 << 17
"""Rows of a block, at most."""

FIXED = {"fault": pa.string(), "part": pa.int32(), "rows": pa.int32(), "owner": pa.binary(), "word": pa.binary()}
"""What a block says beside its codes: why its rows were refused, if they were; their part of a division; how many they
are; whose each is, by a number inside the block; and the unit's secret word."""


def block_fields(domain: Domain) -> dict[str, pa.DataType]:
    """Return the columns of a table of blocks: an attribute's codes are one cell."""
    return FIXED | {f"c{i}": pa.binary() for i in range(len(domain))}


def spark_fields(fields: Mapping[str, pa.DataType]) -> str:
    """Return columns as Spark's DDL writes them."""
    names = {pa.string(): "string", pa.int32(): "int", pa.int64(): "bigint", pa.binary(): "binary"}
    return ", ".join(f"{name} {names[kind]}" for name, kind in fields.items())


def make_row(fields: Mapping[str, pa.DataType], **cells: Any) -> pa.RecordBatch:
    """Return a row of a table with these columns, null where nothing is said."""
    arrays = [pa.array([cells.get(name)], kind) for name, kind in fields.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(fields))


def make_block(records: Records, **beside: Any) -> pa.RecordBatch:
    """Return records as a block."""
    codes = {f"c{i}": each.tobytes() for i, each in enumerate(records.columns)}
    return make_row(block_fields(records.domain), rows=len(records), **beside, **codes)


def make_refusal(fields: Mapping[str, pa.DataType], fault: str) -> pa.RecordBatch:
    """Return what stands for rows that were refused."""
    return make_row(fields, fault=fault)


def records_of(batch: pa.RecordBatch, row: int, domain: Domain, names: Sequence[str]) -> Records:
    """Return the records of a block, over some attributes of the domain that it is of."""
    codes = (
        np.frombuffer(batch.column(f"c{domain.index(name)}")[row].as_buffer(), code_dtype(domain.size(name)))
        for name in names
    )
    return Records(domain.project(names), tuple(codes))


def octets_of(records: Records) -> Octets:
    """Return each record as a line of octets, whose order is the records' lexicographic one."""
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
    """Return lines of octets as an Arrow array."""
    ends = np.arange(len(octets) + 1, dtype=np.int32) * octets.shape[1]
    return pa.Array.from_buffers(pa.binary(), len(octets), [None, pa.py_buffer(ends), pa.py_buffer(octets.tobytes())])


def lines_of(array: pa.Array, width: int) -> Octets:
    """Return an Arrow array of lines, all of this width, as a matrix."""
    array = array.cast(pa.binary())
    _, ends, data = array.buffers()
    if not len(array):
        return np.zeros((0, width), np.uint8)
    first = int(np.frombuffer(ends, np.int32)[array.offset])
    return np.frombuffer(data, np.uint8)[first : first + len(array) * width].reshape(len(array), width)


def width_of(domain: Domain) -> int:
    """Return the octets of a record."""
    return sum(code_dtype(size).itemsize for size in domain.shape)


def gather_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches: Spark hands on ten thousand rows at a time, which are coded faster together."""
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
    """Number the runs of equal lines, from nought.

    >>> runs_of(np.array([[1], [1], [3]], np.uint8)).tolist()
    [0, 0, 1]
    """
    changed = (lines[1:] != lines[:-1]).any(axis=1)
    return np.concatenate([np.zeros(min(len(lines), 1), np.int64), np.cumsum(changed)])


def places_in(runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each row in its run, from nought.

    >>> places_in(np.array([0, 0, 1, 2, 2, 2])).tolist()
    [0, 1, 0, 0, 1, 2]
    """
    at = np.arange(len(runs))
    first = np.concatenate([np.ones(min(len(runs), 1), bool), np.diff(runs) != 0])
    return np.asarray(at - np.maximum.accumulate(np.where(first, at, 0)))


# Columns of few bits on their way from Java to Python, several in one word.

WORD = 64

_BITS = {pa.int32(): 32, pa.date32(): 32, pa.int16(): 16, pa.int8(): 8, pa.bool_(): 8}
"""Types that are put into words, and the bits that each takes."""


@dataclass(frozen=True)
class PackedField:
    """Where a column lies: bits from `shift` on of a word, and one bit of another that says whether it is known."""

    name: str
    kind: pa.DataType
    word: int
    shift: int
    known: int


@dataclass(frozen=True)
class Words:
    """How the columns of a table are put into words."""

    names: tuple[str, ...]
    """The columns, in the table's order."""
    places: tuple[PackedField, ...]
    """Those that are put into words; the others stay as they are."""

    @classmethod
    def of(cls, schema: pa.Schema) -> Words:
        """Plan the words of a table: wide columns first, so that each begins at a multiple of its width.

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
        """Return what is asked of Spark: the words `v0`, `v1`, ... of values and `k0`, ... of what is known."""
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
        """Return the columns that were put into words, with those that were not."""
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
    """A word of what is known, in each row."""

    def __init__(self, words: pa.Array) -> None:
        self._words = words.to_numpy()
        self._every = int(np.bitwise_and.reduce(self._words, initial=-1))

    def missing(self, bit: int) -> Any:
        """Return the rows in which a column is missing; None if there are none."""
        return None if self._every >> bit & 1 else (self._words >> bit & 1) == 0


@dataclass(frozen=True)
class TakenApart:
    """Takes words apart before a batch is given the types that its table is read in."""

    words: Words
    converted: Converted

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch as it was in the table."""
        return self.converted(self.words.taken_apart(batch))
