"""Range queries: what share of the rows lies in a box of codes, in one table and in the other."""

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
"""Conditions that all must hold: position of a column, lowest code, highest code (both included)."""

_ROWS_A_PASS = 1 << 18  # a condition's columns and masks stay in the second-level cache


@dataclass(frozen=True)
class RangeQueries:
    """Answers of both tables to the same queries."""

    queries: tuple[Query, ...]
    real: Floats
    """Share of the real rows that each query selects."""
    synth: Floats
    """Share of the synthetic rows."""

    @property
    def errors(self) -> Floats:
        """Absolute difference of the two shares, by query."""
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
    """Ask random range queries over `ways` columns each (PrivSyn's second task); codes count as ordered."""
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
    """Return NIST's 2018 range score: 1 is perfect, 0 is off by a factor of 1,000 (not scaled to 1e6).

    A column joins a query with probability 1/3, with an interval around the code of a random real row, so
    that no real share is zero. Columns that are not among the `ordered` ones are asked for a random set of codes with
    the row's own among them, of any size; None: all columns count as ordered.
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
    """Draw columns without replacement, and for each an interval between two uniform codes."""
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
    """Share of the rows that each query selects."""
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        counts = pool.map(lambda query: _count_selected(records, query), queries)
        return np.fromiter(counts, np.float64, len(queries)) / len(records)


SetQuery = tuple[tuple[int, NDArray[np.bool_]], ...]
"""Conditions that all must hold: position of a column, and whether each of its codes is asked for."""


def _draw_sets(real: Records, queries: int, ordered: Collection[str], rng: np.random.Generator) -> list[SetQuery]:
    """Draw columns, and around a real row an interval of each ordered one, a random set of codes of each other."""
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
    """Share of the rows that each query selects; the conditions that select least come first."""

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
        # Unsigned subtraction wraps codes below `low` to the far end: one comparison tests both bounds.
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
