"""A Parquet table larger than one would hold in memory, counted as it streams by: ten million rows, or a hundred."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weft.marginals.counting import compile_kernels
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.timings import Figures
from weft_lab.timings.stopwatch import Stopwatch, peak

ROWS, LARGE, COLUMNS, VALUES, ROW_GROUP = 10_000_000, 100_000_000, 8, 20, 1_000_000


def write(path: Path, rows: int) -> None:
    """Write small integers in row groups, one in memory at a time."""
    rng = np.random.default_rng(1)
    names = [f"c{i}" for i in range(COLUMNS)]
    schema = pa.schema([(name, pa.int16()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for at in range(0, rows, ROW_GROUP):
            n = min(ROW_GROUP, rows - at)
            writer.write_table(pa.table([rng.integers(0, VALUES, n).astype(np.int16) for _ in names], schema=schema))


def figures(large: bool = False) -> Figures:
    """Measure what a method waits for that names its marginals: columns one and two apart."""
    rows = LARGE if large else ROWS
    compile_kernels()
    pairs = [[f"c{i}", f"c{i + apart}"] for apart in (1, 2) for i in range(COLUMNS - apart)]
    watch = Stopwatch()
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        path = Path(folder) / "table.parquet"
        write(path, rows)
        schema = Schema.from_domain({f"c{i}": VALUES for i in range(COLUMNS)})
        synthesizer = Synthesizer(1.0, 1e-6, method="pgm", engine="stream", journal=None, marginals=pairs)
        synthesizer.fit(path, schema, listener=watch)
    stages = [(f"  {name}", f"{seconds:.1f} s") for name, seconds in watch.seconds.items()]
    return [
        (f"{rows:,} rows x {COLUMNS} of Parquet, {len(pairs)} two-way marginals and their model", ""),
        *stages,
        ("  peak memory, writing the file included", f"{peak() / 2**20:.0f} MiB (target under 1024)"),
    ]
