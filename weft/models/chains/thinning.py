"""Fewer records that say the same: of several times as many, those whose tables are nearest to the tables of all.

Records that are drawn scatter around their model, and the more columns a table has the more: a few rows fall in each
cell. Herding takes that away for the tables that were measured, and for no others. So several records are drawn for
each that is kept. They are put in groups at random, and one of each group is chosen, in turn, such that the tables of
all pairs and of as many triples of columns come nearest to those of all that were drawn: least squares, each divided by
the square root of the cell's count, between those that see large cells only and chi-square. What is drawn from a
model reads no private row: it costs no budget.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numba import njit

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array

MAX_TABLES = 600
"""Pairs and triples that are looked at: all those of 15 columns."""
MAX_THINNED_CELLS = 1 << 20
"""Cells of these tables in all; where pairs alone have more, most cells have no row, and nothing is gained."""
MAX_THINNED_ROWS = 200_000
"""Records above which their scatter is small beside what noise leaves, and thinning takes long."""


@dataclass(frozen=True)
class Thinning:
    """The tables that records are chosen by: all pairs, and triples while there is room."""

    domain: Domain

    def worth(self, n: int) -> bool:
        """Whether n records are chosen, or taken as they are drawn: few columns, and not very many records."""
        sizes = self.domain.shape
        cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2  # of all pairs
        return 1 < n <= MAX_THINNED_ROWS and 1 < math.comb(len(sizes), 2) <= MAX_TABLES and cells <= MAX_THINNED_CELLS

    def kept(self, rows: Array, each: int, rng: np.random.Generator) -> Array:
        """Return one row of every `each`: as many rows as there are whole groups of so many."""
        n = len(rows) // each
        rows = rows[rng.permutation(len(rows))[: n * each]]
        first, chosen = np.arange(n) * each, rng.integers(0, each, n)
        target = self._counted(rows) / each
        weight = (1 / np.sqrt(1 + target)).astype(np.float32)
        # A row that comes to a cell raises its squared gap by twice the gap and one; half of that is kept.
        rise = ((self._counted(rows[first + chosen]) - target + 0.5) * weight).astype(np.float32)
        _choose_rows(rows, each, chosen, *self._pairs, *self._triples, weight, rise)
        return np.asarray(rows[first + chosen])

    def _counted(self, rows: Array) -> Array:
        """Return every table of the rows, end to end."""

        def part(some: Array) -> Array:
            counts = np.zeros(self._cells, np.int32)
            _tally_rows(some, *self._pairs, *self._triples, counts)
            return counts

        threads = os.cpu_count() or 1
        with ThreadPoolExecutor(threads) as pool:
            return np.asarray(sum(pool.map(part, np.array_split(rows, threads))))

    @cached_property
    def _layout(self) -> tuple[Array, Array, int]:
        """Return columns, steps and first cells of pairs and of triples, and the number of all cells."""
        sizes, end = self.domain.shape, 0
        pairs, triples = [], []
        for a, b in combinations(range(len(sizes)), 2):
            pairs.append((a, b, sizes[b], end))
            end += sizes[a] * sizes[b]
        some = np.array(list(combinations(range(len(sizes)), 3))).reshape(-1, 3)
        room = max(MAX_TABLES - len(pairs), 0)
        if len(some) > room:
            some = some[np.sort(np.random.default_rng(0).permutation(len(some))[:room])]
        for a, b, c in some.tolist():
            cells = sizes[a] * sizes[b] * sizes[c]
            if end + cells <= MAX_THINNED_CELLS:
                triples.append((a, b, c, sizes[b] * sizes[c], sizes[c], end))
                end += cells
        made = (np.array(tables, np.int32).reshape(-1, k).T.copy() for tables, k in ((pairs, 4), (triples, 6)))
        return (*made, end)  # type: ignore[return-value]

    @property
    def _pairs(self) -> Array:
        return self._layout[0]

    @property
    def _triples(self) -> Array:
        return self._layout[1]

    @property
    def _cells(self) -> int:
        return self._layout[2]


@njit(cache=True, nogil=True)
def _tally_rows(rows, a, b, step, at, ta, tb, tc, far, near, tat, counts):  # type: ignore[no-untyped-def]
    """Count every table on the rows."""
    for i in range(len(rows)):
        row = rows[i]
        for m in range(len(a)):
            counts[at[m] + row[a[m]] * step[m] + row[b[m]]] += 1
        for m in range(len(ta)):
            counts[tat[m] + row[ta[m]] * far[m] + row[tb[m]] * near[m] + row[tc[m]]] += 1


@njit(cache=True, nogil=True)
def _move_row(row, by, a, b, step, at, ta, tb, tc, far, near, tat, weight, rise):  # type: ignore[no-untyped-def]
    """Put a row into its cells, or take it out."""
    for m in range(len(a)):
        cell = at[m] + row[a[m]] * step[m] + row[b[m]]
        rise[cell] += by * weight[cell]
    for m in range(len(ta)):
        cell = tat[m] + row[ta[m]] * far[m] + row[tb[m]] * near[m] + row[tc[m]]
        rise[cell] += by * weight[cell]


@njit(cache=True, nogil=True, fastmath=True)
def _compute_rise(row, a, b, step, at, ta, tb, tc, far, near, tat, rise):  # type: ignore[no-untyped-def]
    """Return how much a row would add to the weighted squares, in all its cells."""
    total = np.float32(0)
    for m in range(len(a)):
        total += rise[at[m] + row[a[m]] * step[m] + row[b[m]]]
    for m in range(len(ta)):
        total += rise[tat[m] + row[ta[m]] * far[m] + row[tb[m]] * near[m] + row[tc[m]]]
    return total


@njit(cache=True, nogil=True)
def _choose_rows(  # type: ignore[no-untyped-def]
    rows, each, chosen, a, b, step, at, ta, tb, tc, far, near, tat, weight, rise
):
    """Choose anew in every group of `each` rows, one group after the other."""
    one = np.float32(1)
    for g in range(len(chosen)):
        group = rows[g * each : (g + 1) * each]
        _move_row(group[chosen[g]], -one, a, b, step, at, ta, tb, tc, far, near, tat, weight, rise)
        least = np.inf
        for k in range(each):
            risen = _compute_rise(group[k], a, b, step, at, ta, tb, tc, far, near, tat, rise)
            if risen < least:
                least, chosen[g] = risen, k
        _move_row(group[chosen[g]], one, a, b, step, at, ta, tb, tc, far, near, tat, weight, rise)
