"""Counts of a part of the rows, on their way to the driver: cut into pieces, each as small as it can be written.

Sums of whole numbers do not depend on their order, so that the tables are those of the memory engine to the last bit,
however the rows are divided and whichever of several tries of a task is the one that counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from weft.marginals.counting import Counts

PIECE = 1 << 16
"""Cells of a piece."""

_TOGETHER = 64  # pieces handed on at a time

FIELDS = {"piece": pa.int32(), "counts": pa.binary()}


def pieces(flat: Counts) -> Iterator[pa.RecordBatch]:
    """Yield the pieces of a buffer of counts that are not all nought."""
    cut = ((number, flat[start : start + PIECE]) for number, start in enumerate(range(0, len(flat), PIECE)))
    yield from _batches((number, cells) for number, cells in cut if cells.any())


def _batches(cut: Iterator[tuple[int, Counts]]) -> Iterator[pa.RecordBatch]:
    while some := list(islice(cut, _TOGETHER)):
        arrays = [
            pa.array([piece for piece, _ in some], FIELDS["piece"]),
            pa.array([packed(cells) for _, cells in some], FIELDS["counts"]),
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(FIELDS))


def packed(cells: Counts) -> bytes:
    """Return counts, none below nought, as octets: those that are not nought with their places, or all.

    >>> [len(packed(np.array(cells))) for cells in ([0] * 99 + [5], [7] * 100, [70_000] * 100)]
    [5, 102, 402]
    """
    kind = np.min_scalar_type(int(cells.max(initial=0)))
    places = np.flatnonzero(cells)
    sparse = len(places) * (2 + kind.itemsize) < len(cells) * kind.itemsize
    head = bytes([kind.itemsize, sparse])
    if not sparse:
        return head + cells.astype(f"<u{kind.itemsize}").tobytes()
    return head + places.astype("<u2").tobytes() + cells[places].astype(f"<u{kind.itemsize}").tobytes()


def add_packed(octets: Any, into: Counts) -> None:
    """Add what `packed` wrote to counts."""
    octets = memoryview(octets)
    width, sparse = octets[0], octets[1]
    if not sparse:
        cells = np.frombuffer(octets[2:], f"<u{width}")[: len(into)]  # a sum has zeros behind the last cell
        into[: len(cells)] += cells.astype(np.int64)
        return
    n = (len(octets) - 2) // (2 + width)
    places = np.frombuffer(octets[2 : 2 + 2 * n], "<u2")
    into[places] += np.frombuffer(octets[2 + 2 * n :], f"<u{width}").astype(np.int64)


def add_pieces(batch: pa.RecordBatch | pa.Table, into: Counts) -> None:
    """Add pieces of several tasks to a buffer."""
    for piece, octets in zip(batch.column("piece").to_pylist(), batch.column("counts"), strict=True):
        add_packed(octets.as_buffer(), into[piece * PIECE : (piece + 1) * PIECE])


def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up the pieces that one task was given: a piece's are all given to the same."""
    sums: dict[int, Counts] = {}
    for batch in batches:
        for piece, octets in zip(batch.column("piece").to_pylist(), batch.column("counts"), strict=True):
            add_packed(octets.as_buffer(), sums.setdefault(piece, np.zeros(PIECE, np.int64)))
    yield from _batches(iter(sums.items()))
