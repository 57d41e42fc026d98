"""A keyed word for each of many texts: SipHash-2-4 (Aumasson and Bernstein, 2012), a pseudo-random function.

Rows on a cluster have no place of their own, and a task that is lost is computed anew. So what is decided by chance in
other engines is decided there by a secret key, drawn once by the driver, and by what a row says: the same again,
however often and wherever it is computed. On one machine keyed words spread units over files, evenly whoever chose
their names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit, uint64
from numpy.typing import NDArray

Octets = NDArray[np.uint8]
Words = NDArray[np.uint64]

KEY = 16
"""Bytes of a key."""


@njit(inline="always")  # type: ignore[untyped-decorator]
def _turned(x: Any, bits: Any) -> Any:
    return (x << uint64(bits)) | (x >> uint64(64 - bits))


@njit(inline="always")  # type: ignore[untyped-decorator]
def _round(a: Any, b: Any, c: Any, d: Any) -> Any:
    a = a + b
    b = _turned(b, 13) ^ a
    a = _turned(a, 32)
    c = c + d
    d = _turned(d, 16) ^ c
    a = a + d
    d = _turned(d, 21) ^ a
    c = c + b
    b = _turned(b, 17) ^ c
    c = _turned(c, 32)
    return a, b, c, d


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _words(octets: Any, ends: Any, key: Any, words: Any) -> None:
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
            a, b, c, d = _round(a, b, c, d)
            a, b, c, d = _round(a, b, c, d)
            a ^= m
        c ^= uint64(255)
        for _ in range(4):
            a, b, c, d = _round(a, b, c, d)
        words[row] = a ^ b ^ c ^ d


def words_of(octets: Octets, ends: NDArray[np.int64], key: bytes) -> Words:
    """Return the word of each text under a key of 16 bytes.

    >>> text = np.arange(15, dtype=np.uint8)
    >>> hex(words_of(text, np.array([0, 15]), bytes(range(16)))[0])  # the example of the paper
    '0xa129ca6149be45e5'
    """
    words = np.empty(len(ends) - 1, np.uint64)
    _words(np.ascontiguousarray(octets), np.asarray(ends, np.int64), np.frombuffer(key, "<u8"), words)
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
