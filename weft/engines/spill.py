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
from numpy.typing import DTypeLike, NDArray

from weft.engines.keyed import KEY, words_of_names

CHUNK = 1 << 22
"""Rows worked on at a time, where there are many."""

_BUCKETS = 64


def zeros(n: int, dtype: DTypeLike, most: int) -> NDArray[Any]:
    """Return n zeros, in a file if they are more than `most` octets."""
    kind = np.dtype(dtype)
    if n * kind.itemsize <= most:
        return np.zeros(n, kind)
    file = _nameless()
    if hasattr(os, "posix_fallocate"):
        # A disk that is full is an error now, and not the end of the process when a page is written.
        os.posix_fallocate(file.fileno(), 0, n * kind.itemsize)
    else:
        file.truncate(n * kind.itemsize)
    return _mapped(file, n, kind)


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
            self._file = self._file or _nameless()
            for each in self._pieces:
                self._file.write(each.data)
            self._pieces.clear()

    def whole(self) -> NDArray[Any]:
        """Return all that was added."""
        if self._file is None:
            return np.concatenate([np.empty(0, self._kind), *self._pieces])
        self._file.flush()
        return _mapped(self._file, self._rows, self._kind)


class Buckets:
    """Names of units with the places of their rows, in files by a keyed word: all rows of a unit in the same."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._key = rng.bytes(KEY)
        self._schema = pa.schema({"unit": pa.large_binary(), "place": pa.int64()})
        self._files = [_nameless() for _ in range(_BUCKETS)]
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


def chunks(n: int) -> Iterator[slice]:
    """Cut n rows into pieces that are worked on one after another."""
    return (slice(at, min(at + CHUNK, n)) for at in range(0, n, CHUNK))


def _nameless() -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="weft-")


def _mapped(file: IO[bytes], n: int, kind: np.dtype[Any]) -> NDArray[Any]:
    return np.frombuffer(mmap.mmap(file.fileno(), n * kind.itemsize), kind)  # the map keeps the file
