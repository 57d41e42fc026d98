"""Density and range scores of NIST's 2018 challenge (DPSyn, section 5.1)."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.evaluation.metrics import Query, k_way, shares
from weft.evaluation.metrics.aligned_tables import Floats, validate_shared_domain
from weft.marginals.records import Records


def nist_density(real: Records, synth: Records, *, limit: int | None = 300, seed: int = 0) -> float:
    """Compute NIST's 2018 density score: 1 minus the mean 3-way distance, not scaled to 1e6 (1 is perfect)."""
    return 1 - k_way(real, synth, 3, limit=limit, seed=seed).tvd


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
