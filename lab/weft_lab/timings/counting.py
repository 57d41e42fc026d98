"""All pairs of a wide table: nanoseconds a record and pair, and memory beside the coded table."""

from __future__ import annotations

from itertools import combinations, islice
from time import perf_counter

import numpy as np

from weft.marginals.counting import compile_kernels, count_marginals
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft_lab.timings import Figures
from weft_lab.timings.stopwatch import peak

ROWS, COLUMNS, VALUES = 662_000, 97, 20


def make(skewed: bool) -> Records:
    """Make a table of the size of the largest in the PrivSyn paper; skewed: nine rows in ten hold the same value."""
    rng = np.random.default_rng(1)
    domain = Domain(tuple(f"c{i:02}" for i in range(COLUMNS)), (VALUES,) * COLUMNS)
    columns = []
    for _ in domain:
        codes = rng.integers(0, VALUES, ROWS, dtype=np.uint8)
        columns.append(np.where(rng.random(ROWS) < 0.9, np.uint8(0), codes) if skewed else codes)
    return Records(domain, tuple(columns))


def time_pairs(records: Records, threads: int | None = None) -> float:
    """Seconds a record and pair, best of two."""
    pairs = list(combinations(records.domain.names, 2))
    times = []
    for _ in range(2):
        begin = perf_counter()
        count_marginals(records, pairs, threads)
        times.append(perf_counter() - begin)
    return min(times) / (len(records) * len(pairs))


def time_bincount(records: Records, pairs: int = 10) -> float:
    """Seconds a record and pair of the plain numpy way, on a few pairs."""
    begin = perf_counter()
    for a, b in islice(combinations(records.columns, 2), pairs):
        np.bincount(a.astype(np.uint16) * VALUES + b, minlength=VALUES * VALUES)
    return (perf_counter() - begin) / (len(records) * pairs)


def figures(large: bool = False) -> Figures:
    """Measure."""
    compile_kernels()
    records = make(skewed=False)
    coded = sum(column.nbytes for column in records.columns)
    before = peak()
    spread = time_pairs(records)
    extra = peak() - before
    one = time_pairs(records, threads=1)
    plain = time_bincount(records)
    skewed = time_pairs(make(skewed=True))
    what = f"all {COLUMNS * (COLUMNS - 1) // 2:,} pairs of {ROWS:,} x {COLUMNS}"
    return [
        (what, f"{spread * 1e9:.2f} ns per record and pair (target at most 2.0)"),
        ("  with nine rows in ten alike", f"{skewed * 1e9:.2f} ns per record and pair"),
        ("  on one thread", f"{one * 1e9:.2f} ns per record and pair"),
        ("  numpy.bincount in the same run", f"{plain * 1e9:.2f} ns, {plain / spread:.1f} times as long"),
        (
            "  memory, coded table and all tables",
            f"{(coded + extra) / coded:.2f} times the coded table of {coded / 1e6:.0f} MB (target under 2)",
        ),
    ]
