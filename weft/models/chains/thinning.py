"""Thinning: select a subset of sampled records whose marginals are close to those of the whole sample.

Sampled records deviate from their model, the more so the more attributes a marginal has, since few records fall in each
cell. Herding removes this sampling error for measured marginals only. Several records are therefore sampled for each
that is kept. They are divided into random groups, and one record of each group is selected, in turn, to minimize the
squared difference between the 2-way and 3-way marginals of the selection and those of all sampled records. Each square
is divided by the square root of the cell's count, which is between least squares (dominated by large cells) and
chi-square.

Privacy: uses records sampled from a model only, so it is post-processing and costs no budget.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from weft.kernels import kernel
from weft.marginals.domain import Domain
from weft.marginals.marginal import Array

MAX_TABLES = 600  # maximum number of pairs and triples; enough for all those of 15 attributes
MAX_THINNED_CELLS = 1 << 20  # maximum number of cells; if pairs have more, most are empty and nothing is gained
MAX_THINNED_ROWS = 200_000  # maximum number of records; above it, thinning is slow and sampling error is below noise


@dataclass(frozen=True)
class Thinning:
    """Selection of records by all 2-way marginals and as many 3-way marginals as the limits allow."""

    domain: Domain

    def worth(self, n: int) -> bool:
        """Return whether thinning applies to n records: few attributes and not too many records."""
        sizes = self.domain.shape
        cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2  # of all pairs
        return 1 < n <= MAX_THINNED_ROWS and 1 < math.comb(len(sizes), 2) <= MAX_TABLES and cells <= MAX_THINNED_CELLS

    def kept(self, rows: Array, each: int, rng: np.random.Generator) -> Array:
        """Select one row from every complete random group of `each` rows."""
        n = len(rows) // each
        rows = rows[rng.permutation(len(rows))[: n * each]]
        first, chosen = np.arange(n) * each, rng.integers(0, each, n)
        target = self._counted(rows) / each
        weight = (1 / np.sqrt(1 + target)).astype(np.float32)
        # Adding a row to a cell with difference d increases d^2 by 2 d + 1; `rise` holds half of that, weighted.
        rise = ((self._counted(rows[first + chosen]) - target + 0.5) * weight).astype(np.float32)
        _choose_rows(rows, each, chosen, *self._pairs, *self._triples, weight, rise)
        return np.asarray(rows[first + chosen])

    def _counted(self, rows: Array) -> Array:

        def part(some: Array) -> Array:
            counts = np.zeros(self._cells, np.int32)
            _tally_rows(some, *self._pairs, *self._triples, counts)
            return counts

        threads = os.cpu_count() or 1
        with ThreadPoolExecutor(threads) as pool:
            return np.asarray(sum(pool.map(part, np.array_split(rows, threads))))

    @cached_property
    def _layout(self) -> tuple[Array, Array, int]:
        """Return attributes, strides and offsets of pairs and of triples, and the total number of cells."""
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


@kernel(cache=True, nogil=True)
def _tally_rows(rows, a, b, step, at, ta, tb, tc, far, near, tat, counts):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        row = rows[i]
        for m in range(len(a)):
            counts[at[m] + row[a[m]] * step[m] + row[b[m]]] += 1
        for m in range(len(ta)):
            counts[tat[m] + row[ta[m]] * far[m] + row[tb[m]] * near[m] + row[tc[m]]] += 1


@kernel(cache=True, nogil=True)
def _move_row(row, by, a, b, step, at, ta, tb, tc, far, near, tat, weight, rise):  # type: ignore[no-untyped-def]
    """Add a row to its cells (`by` = 1) or remove it (-1)."""
    for m in range(len(a)):
        cell = at[m] + row[a[m]] * step[m] + row[b[m]]
        rise[cell] += by * weight[cell]
    for m in range(len(ta)):
        cell = tat[m] + row[ta[m]] * far[m] + row[tb[m]] * near[m] + row[tc[m]]
        rise[cell] += by * weight[cell]


@kernel(cache=True, nogil=True, fastmath=True)
def _compute_rise(row, a, b, step, at, ta, tb, tc, far, near, tat, rise):  # type: ignore[no-untyped-def]
    """Return the increase of the weighted squares, summed over cells, if a row is added."""
    total = np.float32(0)
    for m in range(len(a)):
        total += rise[at[m] + row[a[m]] * step[m] + row[b[m]]]
    for m in range(len(ta)):
        total += rise[tat[m] + row[ta[m]] * far[m] + row[tb[m]] * near[m] + row[tc[m]]]
    return total


@kernel(cache=True, nogil=True)
def _choose_rows(  # type: ignore[no-untyped-def]
    rows, each, chosen, a, b, step, at, ta, tb, tc, far, near, tat, weight, rise
):
    """Reselect the best row in every group of `each` rows, one group after the other."""
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
