"""Arrays that exceed their memory limit, stored in unnamed temporary files.

A file is created without a name in the folder for temporary files (`TMPDIR`), so that no other process can open it, and
nothing is left behind however this process ends, even by `kill -9`. The operating system caches it in free memory.
"""

import mmap
import os
import tempfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from weft.kernels import kernel

Octets = NDArray[np.uint8]
Words = NDArray[np.uint64]

KEY = 16  # bytes of a SipHash key


@kernel(inline="always")
def _rotate_left(x: Any, bits: Any) -> Any:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@kernel(inline="always")
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


@kernel(cache=True, nogil=True)
def _hash_words(octets: Any, ends: Any, key: Any, words: Any) -> None:
    """Write the SipHash-2-4 word of each text, which extends from one of the `ends` to the next."""
    for row in range(words.size):
        start, length = ends[row], ends[row + 1] - ends[row]
        a = key[0] ^ np.uint64(0x736F6D6570736575)
        b = key[1] ^ np.uint64(0x646F72616E646F6D)
        c = key[0] ^ np.uint64(0x6C7967656E657261)
        d = key[1] ^ np.uint64(0x7465646279746573)
        for piece in range(length // 8 + 1):
            first = start + 8 * piece
            m = np.uint64(0)
            for i in range(min(8, start + length - first)):
                m |= np.uint64(octets[first + i]) << np.uint64(8 * i)
            if piece == length // 8:
                m |= np.uint64(length & 255) << np.uint64(56)
            d ^= m
            a, b, c, d = _sip_round(a, b, c, d)
            a, b, c, d = _sip_round(a, b, c, d)
            a ^= m
        c ^= np.uint64(255)
        for _ in range(4):
            a, b, c, d = _sip_round(a, b, c, d)
        words[row] = a ^ b ^ c ^ d


def words_of(octets: Octets, ends: NDArray[np.int64], key: bytes) -> Words:
    """Return the keyed word of each text: SipHash-2-4 (Aumasson and Bernstein, 2012), a pseudo-random function.

    Rows on a cluster have no position, and a lost task is computed again. So random choices are made there by a secret
    key, drawn once by the driver, and the content of a row: they are the same wherever and however often computed. On
    one machine, keyed words distribute units evenly over files, even if an adversary chose their names.

    >>> text = np.arange(15, dtype=np.uint8)
    >>> hex(words_of(text, np.array([0, 15]), bytes(range(16)))[0])  # the example of the paper
    '0xa129ca6149be45e5'
    """
    words = np.empty(len(ends) - 1, np.uint64)
    _hash_words(np.ascontiguousarray(octets), np.asarray(ends, np.int64), np.frombuffer(key, "<u8"), words)
    return words


def words_of_rows(rows: Octets, key: bytes) -> Words:
    """Return the keyed word of each row of a byte matrix."""
    return words_of(rows.reshape(-1), np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1], key)


def words_of_names(names: pa.Array, key: bytes) -> Words:
    """Return the keyed word of each unit's name."""
    names = names.cast(pa.large_binary())
    _, ends, data = names.buffers()
    offsets = np.frombuffer(ends, np.int64)[names.offset : names.offset + len(names) + 1]
    return words_of(np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), offsets, key)


CHUNK = 1 << 22  # rows processed at a time

_BUCKETS = 64


def allocate_zeros(n: int, dtype: DTypeLike, most: int) -> NDArray[Any]:
    """Return n zeros, in a file if they take more than `most` bytes."""
    kind = np.dtype(dtype)
    if n * kind.itemsize <= most:
        return np.zeros(n, kind)
    file = _open_nameless_file()
    if hasattr(os, "posix_fallocate"):
        # A full disk raises an error now, instead of killing the process when a page is written.
        os.posix_fallocate(file.fileno(), 0, n * kind.itemsize)
    else:
        file.truncate(n * kind.itemsize)
    return _map_file(file, n, kind)


class Growing:
    """A growing array, stored in a file once it takes more than `most` bytes."""

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
        """Return all appended values."""
        if self._file is None:
            return np.concatenate([np.empty(0, self._kind), *self._pieces])
        self._file.flush()
        return _map_file(self._file, self._rows, self._kind)


class Buckets:
    """Unit names with the positions of their rows, in files by keyed word: all rows of a unit are in one bucket."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._key = rng.bytes(KEY)
        self._schema = pa.schema({"unit": pa.large_binary(), "place": pa.int64()})
        self._files = [_open_nameless_file() for _ in range(_BUCKETS)]
        self._writers = [pa.ipc.new_stream(file, self._schema) for file in self._files]
        self.rows = 0

    def add(self, names: pa.Array) -> None:
        """Append the units of the next rows, null for rows without a unit."""
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
        """Yield, for each bucket, the positions of rows and their unit numbers, from 0 in each bucket."""
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
    """Return the slices of n rows that are processed one after another."""
    return (slice(at, min(at + CHUNK, n)) for at in range(0, n, CHUNK))


def _open_nameless_file() -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="weft-")


def _map_file(file: IO[bytes], n: int, kind: np.dtype[Any]) -> NDArray[Any]:
    return np.frombuffer(mmap.mmap(file.fileno(), n * kind.itemsize), kind)  # the map keeps the file
