"""Error of range queries: the difference between two tables in the share of rows within a box of codes."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.evaluation.metrics.aligned_tables import Floats, validate_shared_domain
from weft.marginals.domain import Domain
from weft.marginals.records import Codes, Records

Query = tuple[tuple[int, int, int], ...]
"""Conjunction of conditions: index of an attribute, lowest code, highest code (inclusive)."""

_ROWS_A_PASS = 1 << 18  # so that the codes and masks of a condition fit in the second-level cache


@dataclass(frozen=True)
class RangeQueries:
    """Shares of the rows that each query selects in both tables."""

    queries: tuple[Query, ...]
    real: Floats
    synth: Floats

    @property
    def errors(self) -> Floats:
        """Absolute difference between the two shares, by query."""
        return np.abs(self.real - self.synth)

    @property
    def error(self) -> float:
        """Mean absolute difference."""
        return float(np.mean(self.errors))


def range_queries(
    real: Records,
    synth: Records,
    *,
    queries: int = 1000,
    ways: int = 3,
    seed: int = 0,
    threads: int | None = None,
) -> RangeQueries:
    """Compare random range queries over `ways` attributes each (PrivSyn's second task); codes are taken as ordered."""
    domain = validate_shared_domain(real, synth)
    drawn = draw_queries(domain, queries, ways, np.random.default_rng([seed, 100]))
    return RangeQueries(drawn, shares(real, drawn, threads), shares(synth, drawn, threads))


def nist_range(
    real: Records,
    synth: Records,
    *,
    queries: int = 300,
    seed: int = 0,
    threads: int | None = None,
    ordered: Collection[str] | None = None,
) -> float:
    """Compute NIST's 2018 range score: 1 is perfect, 0 is an error by a factor of 1,000 (not scaled to 1e6).

    Each query contains each attribute with probability 1/3, with an interval around the code of a random real row, so
    that no real share is zero. For attributes not in `ordered` (default: all are ordered), it is a random set of codes
    of any size that includes the row's.
    """
    validate_shared_domain(real, synth)
    rng = np.random.default_rng([seed, 101])
    if ordered is None:
        drawn = _draw_around_rows(real, queries, rng)
        found, wanted = shares(synth, drawn, threads), shares(real, drawn, threads)
    else:
        sets = _draw_sets(real, queries, ordered, rng)
        found, wanted = _set_shares(synth, sets, threads), _set_shares(real, sets, threads)
    logs = np.log(np.maximum(found, 1e-6)) - np.log(wanted)
    return max(0.0, 1 - float(np.sqrt(np.mean(logs**2))) / float(np.log(1e3)))


def draw_queries(domain: Domain, queries: int, ways: int, rng: np.random.Generator) -> tuple[Query, ...]:
    """Draw attributes without replacement, and for each an interval between two uniform codes."""
    d = len(domain)
    drawn = []
    for _ in range(queries):
        conditions = []
        for column in rng.choice(d, min(ways, d), replace=False).tolist():
            low, high = sorted(rng.integers(0, domain.shape[column], 2).tolist())
            conditions.append((column, low, high))
        drawn.append(tuple(conditions))
    return tuple(drawn)


def shares(records: Records, queries: Sequence[Query], threads: int | None = None) -> Floats:
    """Return the share of the rows that each query selects."""
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        counts = pool.map(lambda query: _count_selected(records, query), queries)
        return np.fromiter(counts, np.float64, len(queries)) / len(records)


SetQuery = tuple[tuple[int, NDArray[np.bool_]], ...]
"""Conjunction of conditions: index of an attribute, and a mask of the codes selected."""


def _draw_sets(real: Records, queries: int, ordered: Collection[str], rng: np.random.Generator) -> list[SetQuery]:
    """Draw attributes and, around a random real row, an interval or (if not ordered) a random set of codes for each."""
    shape = real.domain.shape
    drawn = []
    for query in _draw_around_rows(real, queries, rng):
        row = int(rng.integers(len(real)))
        conditions = []
        for column, _, _ in query:
            code, size = int(real.columns[column][row]), shape[column]
            asked = np.zeros(size, np.bool_)
            if real.domain.names[column] in ordered:
                asked[int(rng.integers(0, code + 1)) : int(rng.integers(code, size)) + 1] = True
            else:
                asked[rng.permutation(size)[: int(rng.integers(0, size))]] = True
                asked[code] = True
            conditions.append((column, asked))
        drawn.append(tuple(conditions))
    return drawn


def _set_shares(records: Records, queries: Sequence[SetQuery], threads: int | None) -> Floats:
    """Return the share of the rows that each query selects, applying the most selective conditions first."""

    def selected(query: SetQuery) -> int:
        rows: Any = slice(None)
        for column, asked in sorted(query, key=lambda condition: condition[1].mean()):
            inside = np.flatnonzero(asked[records.columns[column][rows]])
            rows = inside if isinstance(rows, slice) else rows[inside]
        return len(rows)

    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        return np.fromiter(pool.map(selected, queries), np.float64, len(queries)) / len(records)


def _count_selected(records: Records, query: Query) -> int:
    shape = records.domain.shape
    conditions = [(records.columns[i], low, high) for i, low, high in query if low > 0 or high < shape[i] - 1]
    if not conditions:
        return len(records)
    return sum(
        _count_selected_rows(slice(start, start + _ROWS_A_PASS), conditions)
        for start in range(0, len(records), _ROWS_A_PASS)
    )


def _count_selected_rows(rows: slice, conditions: Sequence[tuple[Codes, int, int]]) -> int:
    chosen: Any = True
    for column, low, high in conditions:
        # Unsigned subtraction wraps codes below `low` to large values: one comparison tests both bounds.
        chosen = chosen & (column[rows] - column.dtype.type(low) <= column.dtype.type(high - low))
    return int(np.count_nonzero(chosen))


def _draw_around_rows(real: Records, queries: int, rng: np.random.Generator) -> tuple[Query, ...]:
    shape = real.domain.shape
    drawn = []
    for _ in range(queries):
        columns = np.flatnonzero(rng.random(len(shape)) < 1 / 3)
        if not len(columns):
            columns = rng.integers(0, len(shape), 1)
        row = int(rng.integers(len(real)))
        conditions = []
        for column in columns.tolist():
            code = int(real.columns[column][row])
            low = int(rng.integers(0, code + 1))
            conditions.append((column, low, int(rng.integers(code, shape[column]))))
        drawn.append(tuple(conditions))
    return tuple(drawn)
