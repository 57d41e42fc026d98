"""Weave from a Parquet file of many rows to a table: a million, or ten, to as many; a hundred million to a million.

Rows are those of a generated census, a million of them over and over: what a fit waits for does not depend on more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pyarrow.parquet as pq

from weft.marginals.counting import compile_kernels
from weft.release.publish import Files, publish
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.fetch import as_table
from weft_lab.generated import latent_class
from weft_lab.timings import Figures
from weft_lab.timings.stopwatch import Stopwatch, peak

COLUMNS, PIECE = 20, 1_000_000
SMALL = (1_000_000, 1_000_000, "2GiB", 30.0, 2048)
LARGE = ((100_000_000, 1_000_000, "1GiB", 600.0, 1024), (10_000_000, 10_000_000, "2GiB", 300.0, 2048))
"""Rows, rows made, the limit of memory that is stated, and the targets: seconds and MiB. Those of the small table are a
tenth of the next one's time, and its memory. The least memory comes first: what is told of it is the most so far."""


def written(path: Path, rows: int) -> Schema:
    """Write a table and return its schema."""
    records = latent_class(min(rows, PIECE), COLUMNS, np.random.default_rng(1), sizes=(2, 20))
    table = as_table(records)
    with pq.ParquetWriter(path, table.schema) as writer:
        for at in range(0, rows, PIECE):
            writer.write_table(table.slice(0, min(PIECE, rows - at)))
    return Schema.from_domain(dict(zip(records.domain.names, records.domain.shape, strict=True)))


def figures(large: bool = False) -> Figures:
    """Measure it beside its targets, with the memory that writing the file took counted too."""
    compile_kernels()
    return [told for case in (LARGE if large else (SMALL,)) for told in measured(*case)]


def measured(rows: int, made: int, memory: str, most: float, mebibytes: int) -> Iterator[tuple[str, str]]:
    """Fit and sample a table of so many rows."""
    watch = Stopwatch()
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        schema = written(Path(folder) / "table.parquet", rows)
        begin, busy = perf_counter(), process_time()
        fitted = Synthesizer(0.8, 1e-6, method="weave", memory=memory, journal=None, seed=1)
        fitted.fit(Path(folder) / "table.parquet", schema, listener=watch)
        learned = perf_counter() - begin
        publish(fitted.fitted_, fitted.tables(made, seed=2), Files.of(Path(folder) / "made.parquet"))
        taken, busy = perf_counter() - begin, process_time() - busy
    yield f"weave, {rows:,} rows x {COLUMNS} of Parquet to {made:,} rows, --memory {memory}", ""
    yield "  fit", f"{learned:.0f} s"
    yield from ((f"    {name}", f"{seconds:.1f} s") for name, seconds in watch.seconds.items())
    yield "  sample, into Parquet", f"{taken - learned:.0f} s"
    yield "  in all", f"{taken:.0f} s ({taken / most:.2f} of the target), {busy:.0f} s of processor"
    yield "  peak memory", f"{peak() / 2**20:.0f} MiB ({peak() / 2**20 / mebibytes:.2f} of the target)"
