"""Ids made anew: unique by construction, because each holds its row's number."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import DataError
from weft.schema.columns import ColumnError, Id
from weft.values.text import is_text

_UUID_ROWS = 1 << 48
_SCRAMBLE = 0x5DEECE66D  # odd, so that multiplying modulo 2^48 maps row numbers one to one


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

    def make(self, start: int, count: int, rng: np.random.Generator) -> pa.Array:
        """Make `count` ids; numbers start from 1."""
        if start + count >= self._limit:
            raise DataError(f'column "{self._column.name}": its type {self._type} cannot number so many rows')
        head, slot, tail = self._parts
        numbers = np.arange(start, start + count, dtype=np.int64)
        if pa.types.is_integer(self._type):
            return pa.array(numbers + 1).cast(self._type)
        if slot == "uuid":
            words = _uuids(numbers, rng)
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
