"""Counting kernel: compute the exact marginals of coded records for many cliques at once.

The cell of a record in a clique's table is a mixed-radix number formed from its codes. For each tile of records the
kernel computes the cell numbers attribute by attribute in a buffer that fits the first-level cache (in loops that the
compiler vectorizes), then increments the cells. Code arrays are read in place; uint8, uint16 and uint32 can be mixed.

Counts are 64-bit integers, so the result does not depend on the order of the records, the batch sizes or the number
of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.marginals.domain import Clique, Domain
from weft.marginals.records import Codes, Records

Counts = NDArray[np.int64]

MAX_CELLS = 1 << 31
"""Maximum number of cells of a table: cell numbers must fit the kernel's 32-bit buffer."""

_ROWS_A_CALL = 1 << 26  # keeps calls short enough for Ctrl-C and prevents overflow of the lanes' 32-bit counters
_WORK_A_CALL = 1 << 26
_FEW = 1 << 21  # maximum records times one-way cliques that are counted without the kernel
_SMALL = 1 << 16  # records times cliques below which starting threads costs more than counting


def compile_kernels() -> None:
    """Compile the kernel or load it from the disk cache: seconds on the first run, milliseconds later."""
    _load_kernel()


def is_compiled() -> bool:
    """Return whether the kernel is already compiled or cached, without compiling it.

    A cache next to the source file is found without numba; for any other location, numba is asked.
    """
    source = Path(__file__).with_name("counting_kernel.py")
    name = f"{source.stem}.tally_records-*.nbi"
    if "NUMBA_CACHE_DIR" not in os.environ and _has_index(source.parent / "__pycache__", name, source):
        return True
    from weft.marginals.counting_kernel import tally_records

    return bool(tally_records.dispatcher.signatures) or _has_index(
        Path(tally_records.dispatcher.stats.cache_path), name, source
    )


def _has_index(folder: Path, name: str, source: Path) -> bool:
    """Return whether a folder has an index of compiled code that is not older than its source."""
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in folder.glob(name))


@cache
def _load_kernel() -> Any:
    """Return the compiled kernel; its one signature serves all tables, so nothing is compiled again later."""
    from weft.marginals.counting_kernel import SIGNATURE, tally_records

    tally_records.dispatcher.compile(SIGNATURE)
    return tally_records.dispatcher


@cache
def _load_weighted_kernel() -> Any:
    """Return the compiled kernel of weighted records."""
    from weft.marginals.counting_kernel import tally_weights

    return tally_weights.dispatcher


@dataclass(frozen=True)
class Counter:
    """Counter of a fixed list of cliques that accumulates batches of records in one flat buffer.

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
    """Number of threads; None: one per core."""

    def __post_init__(self) -> None:
        for clique in self.cliques:
            unknown = [name for name in clique if name not in self.domain]
            if unknown:
                raise ValueError(f"{unknown[0]!r} is not an attribute of the domain")
            cells = self.domain.cells(clique)
            if cells > MAX_CELLS:
                raise ValueError(f"the table over {', '.join(clique)} has {cells:,} cells; the limit is {MAX_CELLS:,}")

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
        """Return a zero-filled buffer for all tables."""
        return np.zeros(int(self._offsets[-1]), np.int64)

    def tables(self, flat: Counts) -> list[Counts]:
        """Return views of the tables in a buffer, one per clique, with axes in the clique's order."""
        return [
            flat[lo:hi].reshape(self.domain.sizes(clique))
            for clique, (lo, hi) in zip(self.cliques, pairwise(self._offsets.tolist()), strict=True)
        ]

    def add(
        self,
        records: Records,
        into: Counts,
        advance: Callable[[int], None] | None = None,
        weights: Counts | None = None,
    ) -> None:
        """Add the counts of these records, or their integer weights, to a buffer.

        `advance` receives the number of newly completed cliques.
        """
        if records.domain != self.domain:
            raise ValueError("the domain of the records differs from the counter's domain")
        if into.shape != (int(self._offsets[-1]),) or into.dtype != np.int64 or not into.flags.c_contiguous:
            raise ValueError("invalid buffer: use one returned by `zeros`")
        columns = _prepare_columns(records, np.unique(self._members).tolist())
        if weights is not None and (weights.shape != (len(records),) or weights.dtype != np.int64):
            raise ValueError("records need one weight each, a 64-bit integer")
        few = len(records) * len(self.cliques) <= _FEW
        if weights is None and few and all(len(clique) <= 1 for clique in self.cliques):
            self._add_columns(columns, len(records), into)
            if advance is not None:
                advance(len(self.cliques))
            return
        tally_records = _load_kernel() if weights is None else _load_weighted_kernel()
        more = () if weights is None else (np.ascontiguousarray(weights),)
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
                tally_records(*layout, first, last, start, min(start + _ROWS_A_CALL, hi), flat, *more)

        if n * q < _SMALL:
            tally(0, q, 0, n, into)
            tell(q)
        elif threads > 1 and q < 4 * threads and len(into) * threads <= n:
            # Few cliques: each thread counts a slice of the records into its own tables.
            bounds = [n * i // threads for i in range(threads + 1)]
            parts = [into, *(self.zeros() for _ in range(threads - 1))]
            tasks = [(0, q, *rows, part) for rows, part in zip(pairwise(bounds), parts, strict=True)]
            for _ in _run_threaded(tally, tasks, threads):
                pass
            for part in parts[1:]:
                into += part
            tell(q)
        else:
            # Many cliques or large tables: each thread owns some cliques and is the only writer of their tables.
            for first, last, *_ in _run_threaded(tally, [(*q, 0, n, into) for q in self._slices(n, threads)], threads):
                tell(last - first)

    def _add_columns(self, columns: Sequence[Codes], n: int, into: Counts) -> None:
        """Add one-way marginals of few records without the kernel, which would take longer to load."""
        for clique, table in zip(self.cliques, self.tables(into), strict=True):
            if clique:
                table += np.bincount(columns[self.domain.index(clique[0])], minlength=table.size)
            else:
                table += n

    def _slices(self, n: int, threads: int) -> Iterator[tuple[int, int]]:
        """Split the cliques into runs of about equal work, several per thread so that no core idles for long."""
        work = _running_sum([1 + len(clique) for clique in self.cliques])
        runs = min(len(self.cliques), max(4 * threads, int(work[-1]) * n // _WORK_A_CALL))
        cuts = np.searchsorted(work, np.linspace(0, work[-1], runs + 1)).tolist()
        return ((first, last) for first, last in pairwise(cuts) if first < last)


def count_marginals(records: Records, cliques: Sequence[Clique], threads: int | None = None) -> list[Counts]:
    """Return the exact marginal of each clique, axes in its order; the marginal of () is the number of records."""
    counter = Counter(records.domain, tuple(cliques), threads)
    flat = counter.zeros()
    counter.add(records, flat)
    return counter.tables(flat)


def _running_sum(lengths: list[int]) -> Counts:
    return np.cumsum([0, *lengths], dtype=np.int64)


def _prepare_columns(records: Records, used: list[int]) -> list[Codes]:
    """Return contiguous code arrays; validate the codes of the used ones, since the kernel does not check bounds."""
    columns = list(records.columns)
    for index in used:
        columns[index] = np.ascontiguousarray(columns[index])
        if len(records) and int(columns[index].max()) >= records.domain.shape[index]:
            raise ValueError(f"a code of {records.domain.names[index]!r} is outside its domain")
    return columns


def _run_threaded(
    task: Callable[..., None], calls: Sequence[tuple[Any, ...]], threads: int
) -> Iterator[tuple[Any, ...]]:
    """Run the calls on a thread pool and yield the arguments of each call, in order, once it has finished."""
    with ThreadPoolExecutor(threads) as pool:
        try:
            for call, future in [(call, pool.submit(task, *call)) for call in calls]:
                future.result()
                yield call
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
