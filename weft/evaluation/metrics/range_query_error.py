"""Error of range queries: the difference between two tables in the share of rows within a box of codes."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

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
    real: Records, synth: Records, *, queries: int = 1000, ways: int = 3, seed: int = 0, threads: int | None = None
) -> RangeQueries:
    """Compare random range queries over `ways` attributes each (PrivSyn's second task); codes are taken as ordered."""
    domain = validate_shared_domain(real, synth)
    drawn = draw_queries(domain, queries, ways, np.random.default_rng([seed, 100]))
    return RangeQueries(drawn, shares(real, drawn, threads), shares(synth, drawn, threads))


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
