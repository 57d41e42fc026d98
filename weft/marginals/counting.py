"""The one counting kernel: exact contingency tables of coded records, for many cliques at once.

A record's cell in a clique's table is a mixed-radix number of its codes. For a tile of records the cell
numbers are built column by column in a buffer that stays in the first-level cache (loops the compiler
vectorises), then scattered into the table. Columns are read in place, whatever mixture of uint8, uint16 and
uint32 they are.

Every table is a sum of ones over records in 64-bit integers, so the result is the same to the last bit
whatever the order of the records, the sizes of the batches and the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numba import carray, njit, types, uint32, uint64
from numba.extending import intrinsic
from numpy.typing import NDArray

from weft.marginals.domain import Clique, Domain
from weft.marginals.records import Codes, Records

Counts = NDArray[np.int64]

MAX_CELLS = 1 << 31
"""Largest table that is counted: its cell numbers fit the kernel's 32-bit buffer."""

_TILE = 1024
_LANES = 4
_LANE_CELLS = 2048
_ROWS_A_CALL = 1 << 26  # keeps a call short enough for Ctrl-C, and a lane's 32-bit counters from overflowing
_WORK_A_CALL = 1 << 26
_SMALL = 1 << 16  # records times cliques, below which starting threads costs more than counting


@intrinsic  # type: ignore[untyped-decorator]
def _cast_pointer(typing_context: Any, address: Any) -> tuple[Any, Callable[..., Any]]:  # noqa: ARG001
    """Turn the address of an array into a pointer that `carray` understands."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.uint64), generate


@njit(inline="always")  # type: ignore[untyped-decorator]
def _append_digit(cell: Any, radix: Any, codes: Any) -> None:
    for i in range(codes.size):
        cell[i] = cell[i] * radix + uint32(codes[i])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _tally_records(
    addresses: Any, widths: Any, sizes: Any, members: Any, starts: Any, offsets: Any, first: int, last: int,
    lo: int, hi: int, flat: Any,
) -> None:  # fmt: skip
    """Add records lo to hi to the tables of cliques first to last.

    Column c is `hi` or more codes of `widths[c]` bytes at `addresses[c]`, each below `sizes[c]`. Clique q has
    the columns `members[starts[q]:starts[q + 1]]` and its table is `flat[offsets[q]:offsets[q + 1]]`.
    """
    cell = np.empty(_TILE, np.uint32)
    lanes = np.empty((_LANES, _LANE_CELLS), np.uint32)
    for q in range(first, last):
        table = flat[offsets[q] : offsets[q + 1]]
        if starts[q] == starts[q + 1]:
            table[0] += hi - lo
            continue
        # Neighbouring records often fall in one cell, and an increment then waits for the last to be stored.
        # Small tables are therefore counted in four lanes, a record each in turn.
        laned = table.size <= _LANE_CELLS and hi - lo >= 2 * table.size
        if laned:
            lanes[:, : table.size] = 0
        for tile in range(lo, hi, _TILE):
            rows = min(_TILE, hi - tile)
            cells = cell[:rows]
            cells[:] = 0
            for member in range(starts[q], starts[q + 1]):
                column = members[member]
                radix = uint32(sizes[column])
                at = _cast_pointer(addresses[column] + uint64(tile) * uint64(widths[column]))
                if widths[column] == 1:
                    _append_digit(cells, radix, carray(at, rows, np.uint8))
                elif widths[column] == 2:
                    _append_digit(cells, radix, carray(at, rows, np.uint16))
                else:
                    _append_digit(cells, radix, carray(at, rows, np.uint32))
            if laned:
                for i in range(rows // _LANES):
                    for lane in range(_LANES):
                        lanes[lane, cells[_LANES * i + lane]] += uint32(1)
                for i in range(rows - rows % _LANES, rows):
                    lanes[0, cells[i]] += uint32(1)
            else:
                for i in range(rows):
                    table[cells[i]] += 1
        if laned:
            for lane in range(_LANES):
                for i in range(table.size):
                    table[i] += lanes[lane, i]


_SIGNATURE = types.void(types.uint64[::1], *[types.int64[::1]] * 5, *[types.int64] * 4, types.int64[::1])


def compile_kernels() -> None:
    """Compile the kernel, or load it from the cache on disk: seconds on a first run, milliseconds later."""
    if not _tally_records.signatures:
        _tally_records.compile(_SIGNATURE)


def is_compiled() -> bool:
    """Tell, without compiling, whether `compile_kernels` will find the kernel ready."""
    if _tally_records.signatures:
        return True
    source = Path(__file__)
    indices = Path(_tally_records.stats.cache_path).glob(f"{source.stem}.{_tally_records.__name__}-*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in indices)


@dataclass(frozen=True)
class Counter:
    """Counts fixed cliques over one batch of records after another, into one flat buffer.

    >>> domain = Domain(("a", "b"), (2, 3))
    >>> counter = Counter(domain, (("a",), ("a", "b"), ()))
    >>> flat = counter.zeros()
    >>> counter.add(Records.of(domain, [[0, 1, 1], [2, 0, 0]]), flat)
    >>> [table.tolist() for table in counter.tables(flat)]
    [[1, 2], [[0, 0, 1], [2, 0, 0]], 3]
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    threads: int | None = None
    """Threads that share the work; None: one for each core."""

    def __post_init__(self) -> None:
        for clique in self.cliques:
            unknown = [name for name in clique if name not in self.domain]
            if unknown:
                raise ValueError(f"{unknown[0]!r} is not an attribute of the table")
            cells = self.domain.cells(clique)
            if cells > MAX_CELLS:
                raise ValueError(f"the table over {', '.join(clique)} has {cells:,} cells; the most is {MAX_CELLS:,}")

    @cached_property
    def _members(self) -> Counts:
        return np.array([self.domain.index(name) for clique in self.cliques for name in clique], np.int64)

    @cached_property
    def _starts(self) -> Counts:
        return _running_sum([len(clique) for clique in self.cliques])

    @cached_property
    def _offsets(self) -> Counts:
        return _running_sum([self.domain.cells(clique) for clique in self.cliques])

    def zeros(self) -> Counts:
        """Return an empty buffer for all tables."""
        return np.zeros(int(self._offsets[-1]), np.int64)

    def tables(self, flat: Counts) -> list[Counts]:
        """Return views of the tables in a buffer, one for each clique, axes in the clique's order."""
        return [
            flat[lo:hi].reshape(self.domain.sizes(clique))
            for clique, (lo, hi) in zip(self.cliques, pairwise(self._offsets.tolist()), strict=True)
        ]

    def add(self, records: Records, into: Counts, advance: Callable[[int], None] | None = None) -> None:
        """Add the tables of these records to a buffer; `advance` is told how many cliques more are done."""
        if records.domain != self.domain:
            raise ValueError("the records are not over the counter's domain")
        if into.shape != (int(self._offsets[-1]),) or into.dtype != np.int64 or not into.flags.c_contiguous:
            raise ValueError("the buffer is not one that `zeros` made")
        compile_kernels()
        columns = _prepare_columns(records, np.unique(self._members).tolist())
        layout = (
            np.array([column.ctypes.data for column in columns], np.uint64),
            np.array([column.itemsize for column in columns], np.int64),
            np.array(self.domain.shape, np.int64),
            self._members, self._starts, self._offsets,
        )  # fmt: skip
        threads = self.threads or os.cpu_count() or 1
        n, q = len(records), len(self.cliques)
        tell = advance or (lambda done: None)

        def tally(first: int, last: int, lo: int, hi: int, flat: Counts) -> None:
            for start in range(lo, hi, _ROWS_A_CALL):
                _tally_records(*layout, first, last, start, min(start + _ROWS_A_CALL, hi), flat)

        if n * q < _SMALL:
            tally(0, q, 0, n, into)
            tell(q)
        elif threads > 1 and q < 4 * threads and len(into) * threads <= n:
            # Few cliques: each thread counts a slice of the records into tables of its own.
            bounds = [n * i // threads for i in range(threads + 1)]
            parts = [into, *(self.zeros() for _ in range(threads - 1))]
            tasks = [(0, q, *rows, part) for rows, part in zip(pairwise(bounds), parts, strict=True)]
            for _ in _run_threaded(tally, tasks, threads):
                pass
            for part in parts[1:]:
                into += part
            tell(q)
        else:
            # Many cliques, or large tables: each thread owns some cliques, and alone writes to their tables.
            for first, last, *_ in _run_threaded(tally, [(*q, 0, n, into) for q in self._slices(n, threads)], threads):
                tell(last - first)

    def _slices(self, n: int, threads: int) -> Iterator[tuple[int, int]]:
        """Cut the cliques into runs of about equal work, several a thread so that no core idles for long."""
        work = _running_sum([1 + len(clique) for clique in self.cliques])
        runs = min(len(self.cliques), max(4 * threads, int(work[-1]) * n // _WORK_A_CALL))
        cuts = np.searchsorted(work, np.linspace(0, work[-1], runs + 1)).tolist()
        return ((first, last) for first, last in pairwise(cuts) if first < last)


def count_marginals(records: Records, cliques: Sequence[Clique], threads: int | None = None) -> list[Counts]:
    """Return the exact table of each clique, axes in its order; the table of () is the number of records."""
    counter = Counter(records.domain, tuple(cliques), threads)
    flat = counter.zeros()
    counter.add(records, flat)
    return counter.tables(flat)


def _running_sum(lengths: list[int]) -> Counts:
    return np.cumsum([0, *lengths], dtype=np.int64)


def _prepare_columns(records: Records, used: list[int]) -> list[Codes]:
    """Return the columns as the kernel may read them: it checks no bounds, so the codes are checked here."""
    columns = list(records.columns)
    for index in used:
        columns[index] = np.ascontiguousarray(columns[index])
        if len(records) and int(columns[index].max()) >= records.domain.shape[index]:
            raise ValueError(f"a code of {records.domain.names[index]!r} is outside its domain")
    return columns


def _run_threaded(
    task: Callable[..., None], calls: Sequence[tuple[Any, ...]], threads: int
) -> Iterator[tuple[Any, ...]]:
    """Make the calls on some threads and give back each call's arguments, in order, when it is done."""
    with ThreadPoolExecutor(threads) as pool:
        try:
            for call, future in [(call, pool.submit(task, *call)) for call in calls]:
                future.result()
                yield call
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
