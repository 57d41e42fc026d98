"""Spark on this machine beside the memory engine: the same table, opened and counted as a fit asks for it, and fitted.

The rates and sizes are those that docs/scale.md reckons with. Two cores on both sides; Spark's start is told apart, and
before anything is measured its workers have counted a small table.
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

from weft.curator.private_table import PrivateTable
from weft.marginals.counting import compile_kernels
from weft.marginals.domain import Clique
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.timings import Figures
from weft_lab.timings.stopwatch import peak

ROWS, LARGE, COLUMNS, VALUES, FILES = 2_000_000, 10_000_000, 20, 20, 8
WIDE, WIDE_ROWS = 97, 200_000
"""Columns of which all pairs, 4,656, are counted at once, and the rows for that."""
PASSES = 3
"""Times that all pairs are counted, as a recipe does that looks, chooses and measures."""


def write(folder: Path, rows: int, columns: int = COLUMNS) -> None:
    """Write small integers in several files, one in memory at a time."""
    rng = np.random.default_rng(1)
    for number in range(FILES):
        n = rows * (number + 1) // FILES - rows * number // FILES
        table = {name: rng.integers(0, VALUES, n).astype(np.int16) for name in _names(columns)}
        pq.write_table(pa.table(table), folder / f"{number}.parquet")


def figures(large: bool = False) -> Figures:
    """Measure coding the rows and counting all pairs of columns, a whole fit, and the driver's memory."""
    rows = LARGE if large else ROWS
    compile_kernels()
    schema, pairs = _schema(COLUMNS), list(itertools.combinations(_names(COLUMNS), 2))
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
        fits = [_fit(source, schema) for source in (folder, f"spark:parquet:{folder}")]
    equal = all((one == other).all() for one, other in zip(counted, same, strict=True))
    target = "target at most 3 for 10 million rows, two cores"
    return [
        *told,
        ("  Spark's start", f"{start:.1f} s"),
        *_rates("Spark, local[*]", rows, len(pairs), there),
        ("  coded and counted, Spark : memory engine", f"{sum(there) / sum(here):.1f} ({target})"),
        ("  the same counts to the last bit", "yes" if equal else "NO"),
        ("  a whole fit of weave", f"{fits[0]:.1f} s in memory, {fits[1]:.1f} s on Spark"),
        ("  a whole fit, Spark : memory engine", f"{fits[1] / fits[0]:.1f} ({target})"),
        *_wide(),
    ]


def _names(columns: int) -> list[str]:
    return [f"c{i:02d}" for i in range(columns)]


def _schema(columns: int) -> Schema:
    return Schema.from_domain(dict.fromkeys(_names(columns), VALUES))


def _fit(source: str, schema: Schema) -> float:
    begin = perf_counter()
    Synthesizer(0.8, 1e-6, method="weave", journal=None, seed=1, noise_seed=1).fit(source, schema)
    return perf_counter() - begin


def _wide() -> Figures:
    """Count all pairs of many columns on Spark, and say what the driver held."""
    pairs = list(itertools.combinations(_names(WIDE), 2))
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        write(Path(folder), WIDE_ROWS, WIDE)
        engine = PrivateTable(f"spark:parquet:{folder}").open(_schema(WIDE)).engine
        engine.count(pairs)
    java = _java_peak()
    return [
        (
            f"  {len(pairs):,} pairs of {WIDE} columns at once: driver's Python, peak",
            f"{peak() >> 20} MiB (under 2048)",
        ),
        ("    Java, which is driver and workers in one here", "not known" if java is None else f"{java >> 20} MiB"),
    ]


def _java_peak() -> int | None:
    """Return the most octets that Spark's Java has held, where the system tells."""
    from pyspark import SparkContext

    process = SparkContext._gateway.proc  # noqa: SLF001 (nobody else knows it)
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return None
    return 1024 * next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)


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
