"""Aligned counts of two tables over any attributes, dense if there are few cells and sparse otherwise."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.errors import DataError
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, Domain
from weft.marginals.records import Records

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Result = TypeVar("Result")

_KEY_LIMIT = 2**62
_DENSE_CELLS = 1 << 16
_BATCH_CELLS = 1 << 23


def validate_shared_domain(*tables: Records) -> Domain:
    """Return the domain that the tables share; DataError if they cannot be compared."""
    domain = tables[0].domain
    if not len(domain):
        raise DataError("the tables have no columns to compare")
    for other in tables[1:]:
        if other.domain != domain:
            names = zip(domain.names, other.domain.names, strict=False)
            first = next((a for a, b in names if a != b or domain.size(a) != other.domain.size(b)), None)
            where = f"the first to differ is {first!r}" if first else "one has more attributes than the other"
            raise DataError(f"the tables have different domains ({where}). Encode both with the same schema")
    for table in tables:
        if not len(table):
            raise DataError("a table without rows cannot be evaluated")
        for name, size, column in zip(domain.names, domain.shape, table.columns, strict=True):
            if int(column.max()) >= size:
                raise DataError(f"attribute {name!r} has codes outside its domain. Encode it with the schema")
    return domain


def number_cells(tables: Sequence[Records], columns: Clique) -> list[Ints]:
    """Return the cell number of each row over `columns`, consistent between tables.

    Numbers are mixed-radix codes in C order. Where they would overflow 64 bits, the digits so far are replaced by their
    rank among the values that occur, so that any number of attributes of any size is possible.
    """
    domain = tables[0].domain
    ends = np.cumsum([len(table) for table in tables])[:-1]
    digits = [np.concatenate([table.column(name) for table in tables]) for name in columns]
    number = digits[0].astype(np.int64)
    radix = domain.size(columns[0])
    for name, digit in zip(columns[1:], digits[1:], strict=True):
        size = domain.size(name)
        if radix * size >= _KEY_LIMIT:
            values, number = np.unique(number, return_inverse=True)
            radix = len(values)
        number *= size
        number += digit
        radix *= size
    return list(np.split(number, ends))


def fold_cliques(
    real: Records,
    synth: Records,
    cliques: Sequence[Clique],
    reduce: Callable[[Ints, Ints], Result],
    threads: int | None = None,
) -> list[Result]:
    """Return `reduce(real counts, synthetic counts)` over the cells of each clique.

    The two arrays are aligned. They contain all cells or, for large domains, only the cells that either table occupies:
    `reduce` must not depend on cells that are empty in both.
    """
    results: dict[int, Result] = {}
    roomy = max(_DENSE_CELLS, len(real) + len(synth))
    sizes = [real.domain.cells(clique) for clique in cliques]
    dense = ((i, cells) for i, cells in enumerate(sizes) if cells <= roomy)
    for batch in split_batches(dense, _BATCH_CELLS):
        chosen = [cliques[i] for i in batch]
        for i, a, b in zip(
            batch, count_marginals(real, chosen, threads), count_marginals(synth, chosen, threads), strict=True
        ):
            results[i] = reduce(a.ravel(), b.ravel())
    sparse = [i for i, cells in enumerate(sizes) if cells > roomy]
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        merged = pool.map(lambda i: reduce(*_count_occupied_cells(real, synth, cliques[i])), sparse)
        results.update(zip(sparse, merged, strict=True))
    return [results[i] for i in range(len(cliques))]


def split_batches(sized: Iterable[tuple[Result, int]], most: int) -> Iterator[list[Result]]:
    """Split tables, given with their numbers of cells, into batches that fit in memory together."""
    batch: list[Result] = []
    cells = 0
    for each, size in sized:
        if batch and cells + size > most:
            yield batch
            batch, cells = [], 0
        batch.append(each)
        cells += size
    if batch:
        yield batch


def _count_occupied_cells(real: Records, synth: Records, columns: Clique) -> tuple[Ints, Ints]:
    """Return aligned counts of the cells that at least one of the tables occupies."""
    a, b = number_cells((real, synth), columns)
    # One sort for both tables: the lowest bit marks the table of a row.
    tagged = np.concatenate([a << 1, b << 1 | 1])
    tagged.sort()
    cells = tagged >> 1
    starts = np.flatnonzero(np.concatenate([[True], cells[1:] != cells[:-1]]))
    of_synth = np.add.reduceat(tagged & 1, starts)
    of_either = np.diff(starts, append=len(tagged))
    return of_either - of_synth, of_synth
