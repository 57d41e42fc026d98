"""Time of the headline measures on 300,000 rows of 60 columns, and on twice as many rows."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from weft.evaluation.metrics import k_way, range_queries
from weft.marginals.counting import compile_kernels
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft_lab.scorecard import pairwise_l1
from weft_lab.timings import Figures

ROWS, COLUMNS = 300_000, 60
MEASURES: dict[str, Callable[[Records, Records], object]] = {
    "all pairs": pairwise_l1,
    "300 three-way": lambda real, synth: k_way(real, synth, 3),
    "1,000 range queries": range_queries,
}


def make_table(rows: int, rng: np.random.Generator) -> Records:
    """Rows in which a hidden number drives every column; 2 to 300 codes a column."""
    sizes = np.resize([2, 2, 3, 5, 8, 12, 20, 42, 100, 300], COLUMNS)
    domain = Domain(tuple(f"c{i}" for i in range(COLUMNS)), tuple(sizes.tolist()))
    hidden = rng.random(rows)
    columns = [((0.7 * hidden + 0.3 * rng.random(rows)) * size).astype(np.int64) for size in sizes]
    return Records.of(domain, columns)


def seconds(rows: int) -> dict[str, tuple[float, float]]:
    """Wall-clock and processor time of each measure, both tables having this many rows."""
    rng = np.random.default_rng(0)
    real, synth = make_table(rows, rng), make_table(rows, rng)
    taken = {}
    for name, measure in MEASURES.items():
        wall, processor = time.perf_counter(), time.process_time()
        measure(real, synth)
        taken[name] = time.perf_counter() - wall, time.process_time() - processor
    return taken


def figures(large: bool = False) -> Figures:
    """Label and figure of each timing."""
    compile_kernels()
    once, twice = seconds(ROWS), seconds(2 * ROWS)
    lines = [(f"evaluate {ROWS:,} x {COLUMNS}: {name}", f"{wall:.2f} s") for name, (wall, _) in once.items()]
    (wall, processor), (_, double) = (np.sum(list(taken.values()), axis=0) for taken in (once, twice))
    lines.append((f"evaluate {ROWS:,} x {COLUMNS}: all three", f"{wall:.2f} s"))
    # Growth is told in processor time, which other programs on the machine disturb less.
    lines.append(("evaluate, twice the rows: processor time", f"{double / processor:.2f} times"))
    return lines
