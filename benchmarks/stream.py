"""A Parquet table larger than one would hold in memory, counted as it streams by.

`python -m benchmarks.stream --rows 10000000` shrinks it.
"""

import argparse
import resource
import tempfile
from itertools import combinations, islice
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weft.engines import open_engine
from weft.marginals.counting import compile_kernels
from weft.schema import Schema

ROWS, COLUMNS, VALUES, ROW_GROUP = 100_000_000, 8, 20, 1_000_000


def write(path: Path, rows: int) -> None:
    """Write small integers in row groups, one in memory at a time."""
    rng = np.random.default_rng(1)
    names = [f"c{i}" for i in range(COLUMNS)]
    schema = pa.schema([(name, pa.int16()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for at in range(0, rows, ROW_GROUP):
            n = min(ROW_GROUP, rows - at)
            writer.write_table(pa.table([rng.integers(0, VALUES, n).astype(np.int16) for _ in names], schema=schema))


def figures(rows: int = ROWS) -> list[tuple[str, str]]:
    """Measure."""
    compile_kernels()
    schema = Schema.from_domain({f"c{i}": VALUES for i in range(COLUMNS)})
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        path = Path(folder) / "table.parquet"
        write(path, rows)
        begin = perf_counter()
        engine = open_engine(path, schema, engine="stream").engine
        opened = perf_counter()
        tables = engine.count(list(islice(combinations(engine.domain.names, 2), 20)))
        counted = perf_counter()
    assert all(table.sum() == rows for table in tables)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        (f"20 two-way marginals of {rows:,} rows of Parquet", f"{counted - opened:.1f} s"),
        ("  checking every row on opening", f"{opened - begin:.1f} s"),
        ("  peak memory, writing the file included", f"{peak:.0f} MiB (target under 1024)"),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    for what, figure in figures(parser.parse_args().rows):
        print(f"{what}: {figure}")
