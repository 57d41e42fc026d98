"""Arrays that do not fit the memory they may take: in files without a name, which are gone with the process.

A file is made in the folder for temporary files (`TMPDIR`) and has no name there from the start, so that nobody else
can open it, and whatever ends this process, `kill -9` included, leaves nothing behind. The system keeps in memory what
it has room for.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numba import njit, uint64
from numpy.typing import DTypeLike, NDArray

# A keyed word for each of many texts: SipHash-2-4 (Aumasson and Bernstein, 2012), a pseudo-random function.

Octets = NDArray[np.uint8]
Words = NDArray[np.uint64]

KEY = 16
"""Bytes of a key."""


@njit(inline="always")  # type: ignore[untyped-decorator]
def _rotate_left(x: Any, bits: Any) -> Any:
    return (x << uint64(bits)) | (x >> uint64(64 - bits))


@njit(inline="always")  # type: ignore[untyped-decorator]
def _sip_round(a: Any, b: Any, c: Any, d: Any) -> Any:
    a = a + b
    b = _rotate_left(b, 13) ^ a
    a = _rotate_left(a, 32)
    c = c + d
    d = _rotate_left(d, 16) ^ c
    a = a + d
    d = _rotate_left(d, 21) ^ a
    c = c + b
    b = _rotate_left(b, 17) ^ c
    c = _rotate_left(c, 32)
    return a, b, c, d


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _hash_words(octets: Any, ends: Any, key: Any, words: Any) -> None:
    """Write the word of each text, which is the octets from one of the `ends` to the next."""
    for row in range(words.size):
        start, length = ends[row], ends[row + 1] - ends[row]
        a = key[0] ^ uint64(0x736F6D6570736575)
        b = key[1] ^ uint64(0x646F72616E646F6D)
        c = key[0] ^ uint64(0x6C7967656E657261)
        d = key[1] ^ uint64(0x7465646279746573)
        for piece in range(length // 8 + 1):
            first = start + 8 * piece
            m = uint64(0)
            for i in range(min(8, start + length - first)):
                m |= uint64(octets[first + i]) << uint64(8 * i)
            if piece == length // 8:
                m |= uint64(length & 255) << uint64(56)
            d ^= m
            a, b, c, d = _sip_round(a, b, c, d)
            a, b, c, d = _sip_round(a, b, c, d)
            a ^= m
        c ^= uint64(255)
        for _ in range(4):
            a, b, c, d = _sip_round(a, b, c, d)
        words[row] = a ^ b ^ c ^ d


def words_of(octets: Octets, ends: NDArray[np.int64], key: bytes) -> Words:
    """Return the word of each text under a key of 16 bytes.

    >>> text = np.arange(15, dtype=np.uint8)
    >>> hex(words_of(text, np.array([0, 15]), bytes(range(16)))[0])  # the example of the paper
    '0xa129ca6149be45e5'
    """
    words = np.empty(len(ends) - 1, np.uint64)
    _hash_words(np.ascontiguousarray(octets), np.asarray(ends, np.int64), np.frombuffer(key, "<u8"), words)
    return words


def words_of_rows(rows: Octets, key: bytes) -> Words:
    """Return the word of each line of a matrix of octets."""
    return words_of(rows.reshape(-1), np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1], key)


def words_of_names(names: pa.Array, key: bytes) -> Words:
    """Return the secret word of each unit's name."""
    names = names.cast(pa.large_binary())
    _, ends, data = names.buffers()
    offsets = np.frombuffer(ends, np.int64)[names.offset : names.offset + len(names) + 1]
    return words_of(np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), offsets, key)


CHUNK = 1 << 22
"""Rows worked on at a time, where there are many."""

_BUCKETS = 64


def allocate_zeros(n: int, dtype: DTypeLike, most: int) -> NDArray[Any]:
    """Return n zeros, in a file if they are more than `most` octets."""
    kind = np.dtype(dtype)
    if n * kind.itemsize <= most:
        return np.zeros(n, kind)
    file = _open_nameless_file()
    if hasattr(os, "posix_fallocate"):
        # A disk that is full is an error now, and not the end of the process when a page is written.
        os.posix_fallocate(file.fileno(), 0, n * kind.itemsize)
    else:
        file.truncate(n * kind.itemsize)
    return _map_file(file, n, kind)


class Growing:
    """An array to which more is added, in a file once it is more than `most` octets."""

    def __init__(self, dtype: DTypeLike, most: int) -> None:
        self._kind, self._most = np.dtype(dtype), most
        self._pieces: list[NDArray[Any]] = []
        self._file: IO[bytes] | None = None
        self._rows = 0

    def add(self, piece: NDArray[Any]) -> None:
        """Append values."""
        self._pieces.append(np.ascontiguousarray(piece, self._kind))
        self._rows += len(piece)
        if self._rows * self._kind.itemsize > self._most:
            self._file = self._file or _open_nameless_file()
            for each in self._pieces:
                self._file.write(each.data)
            self._pieces.clear()

    def whole(self) -> NDArray[Any]:
        """Return all that was added."""
        if self._file is None:
            return np.concatenate([np.empty(0, self._kind), *self._pieces])
        self._file.flush()
        return _map_file(self._file, self._rows, self._kind)


class Buckets:
    """Names of units with the places of their rows, in files by a keyed word: all rows of a unit in the same."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._key = rng.bytes(KEY)
        self._schema = pa.schema({"unit": pa.large_binary(), "place": pa.int64()})
        self._files = [_open_nameless_file() for _ in range(_BUCKETS)]
        self._writers = [pa.ipc.new_stream(file, self._schema) for file in self._files]
        self.rows = 0

    def add(self, names: pa.Array) -> None:
        """Note the units of the next rows, null for those of nobody."""
        known = names.is_valid()
        places = pa.array(np.arange(self.rows, self.rows + len(names))).filter(known)
        self.rows += len(names)
        names = names.filter(known).cast(pa.large_binary())
        bucket = words_of_names(names, self._key) % np.uint64(_BUCKETS)
        order = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[order], np.arange(_BUCKETS + 1))
        for number, writer in enumerate(self._writers):
            chosen = pa.array(order[ends[number] : ends[number + 1]])
            if len(chosen):
                writer.write_batch(pa.record_batch([names.take(chosen), places.take(chosen)], schema=self._schema))

    def each(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield, bucket by bucket, the places of rows and a number for the unit of each, from nought in each bucket."""
        for file, writer in zip(self._files, self._writers, strict=True):
            writer.close()
            file.seek(0)
            table = pa.ipc.open_stream(file).read_all()
            file.close()
            if len(table):
                units = table.column("unit").combine_chunks()
                units = units.combine_chunks() if isinstance(units, pa.ChunkedArray) else units
                numbers = units.dictionary_encode().indices.to_numpy().astype(np.int64)
                yield table.column("place").to_numpy(), numbers


def iterate_chunks(n: int) -> Iterator[slice]:
    """Cut n rows into pieces that are worked on one after another."""
    return (slice(at, min(at + CHUNK, n)) for at in range(0, n, CHUNK))


def _open_nameless_file() -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="weft-")


def _map_file(file: IO[bytes], n: int, kind: np.dtype[Any]) -> NDArray[Any]:
    return np.frombuffer(mmap.mmap(file.fileno(), n * kind.itemsize), kind)  # the map keeps the file
