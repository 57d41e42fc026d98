"""Spark on this machine beside the memory engine: the same table, opened and counted as a fit asks for it.

The rates and sizes are those that docs/scale.md reckons with. Two cores on both sides; Spark's start is told apart.
"""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weft.bench.timings import Figures
from weft.bench.timings.stopwatch import peak
from weft.curator.opening import PrivateTable
from weft.marginals.counting import compile_kernels
from weft.marginals.domain import Clique
from weft.schema import Schema

ROWS, LARGE, COLUMNS, VALUES, FILES = 2_000_000, 10_000_000, 20, 20, 8
PASSES = 3
"""Times that all pairs are counted, as a recipe does that looks, chooses and measures."""


def write(folder: Path, rows: int) -> None:
    """Write small integers in several files, one in memory at a time."""
    rng = np.random.default_rng(1)
    for number in range(FILES):
        n = rows * (number + 1) // FILES - rows * number // FILES
        table = {f"c{i:02d}": rng.integers(0, VALUES, n).astype(np.int16) for i in range(COLUMNS)}
        pq.write_table(pa.table(table), folder / f"{number}.parquet")


def figures(large: bool = False) -> Figures:
    """Measure what a fit waits for before it learns: coding the rows, and counting all pairs of columns."""
    rows = LARGE if large else ROWS
    compile_kernels()
    schema = Schema.from_domain({f"c{i:02d}": VALUES for i in range(COLUMNS)})
    pairs = list(itertools.combinations([f"c{i:02d}" for i in range(COLUMNS)], 2))
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        write(Path(folder), rows)
        here, counted = _measured(folder, schema, pairs)
        told = [
            (f"{rows:,} rows x {COLUMNS} of Parquet, {len(pairs)} pairs, counted {PASSES} times", ""),
            *_rates("in memory", rows, len(pairs), here),
        ]
        if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
            return [*told, ("  Spark", "not installed")]
        begin = perf_counter()
        with tempfile.TemporaryDirectory(prefix="weft-bench-") as small:
            write(Path(small), 100 * FILES)
            _measured(f"spark:parquet:{small}", schema, pairs)  # starts Java, Spark, and Weft in its workers
        start = perf_counter() - begin
        there, same = _measured(f"spark:parquet:{folder}", schema, pairs)
    equal = all((one == other).all() for one, other in zip(counted, same, strict=True))
    return [
        *told,
        ("  Spark's start", f"{start:.1f} s"),
        *_rates("Spark, local[*]", rows, len(pairs), there),
        ("  Spark : memory engine", f"{sum(there) / sum(here):.1f} (target at most 3 for 10 million rows, two cores)"),
        ("  the same counts to the last bit", "yes" if equal else "NO"),
        ("  peak memory of the driver's Python", f"{peak() / 2**20:.0f} MiB (target under 2048)"),
    ]


def _rates(where: str, rows: int, pairs: int, seconds: tuple[float, float]) -> Figures:
    coded, counted = seconds
    return [
        (f"  {where}: coded", f"{rows * COLUMNS / coded / 1e6:.1f} million values a second"),
        (f"  {where}: counted", f"{rows * pairs * PASSES / counted / 1e6:.0f} million rows x pairs a second"),
    ]


def _measured(source: str, schema: Schema, pairs: Sequence[Clique]) -> tuple[tuple[float, float], list[Any]]:
    """Return the seconds that opening and counting take, and the counts."""
    begin = perf_counter()
    engine = PrivateTable(source).open(schema).engine
    opened = perf_counter()
    for _ in range(PASSES):
        counted = engine.count(pairs)
    return (opened - begin, perf_counter() - opened), counted
