"""What a start costs: import, help, a small run on a warm cache, and the first compilation."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weft_lab.timings import Figures

ROWS, COLUMNS = 40_000, 15
"""Size of the table of the small run."""


def _make_environment(**changes: str) -> dict[str, str]:
    """Return the environment of a user, who keeps Python's bytecode: without it every start compiles every module."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | changes


def best(command: list[str], tries: int = 5, **environment: str) -> float:
    """Shortest wall time of a command, in seconds, its interpreter's start included."""
    times = []
    for _ in range(tries):
        begin = perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=_make_environment(**environment))  # noqa: S603 ours
        times.append(perf_counter() - begin)
    return min(times)


def cpu_seconds(command: list[str], tries: int = 3) -> float:
    """Least CPU time of a command, in seconds: of the program and of the system on its behalf."""
    found = []
    for _ in range(tries):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(  # noqa: S603 ours
            command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_make_environment()
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(found)


def write_inputs(folder: Path) -> list[str]:
    """Write a small table and its schema; return the words of the command that releases it."""
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({f"c{i}": rng.integers(0, 8, ROWS) for i in range(COLUMNS)}), folder / "t.parquet")
    entries = (f'[columns.c{i}]\nkind = "category"\nvalues = [0, 1, 2, 3, 4, 5, 6, 7]\n' for i in range(COLUMNS))
    (folder / "t.toml").write_text("".join(entries))
    fixed = ["--method", "independent", "--overwrite", "--quiet", "--epsilon", "1"]
    return ["synth", f"{folder}/t.parquet", "--schema", f"{folder}/t.toml", *fixed, "-o", f"{folder}/made.parquet"]


def figures(large: bool = False) -> Figures:
    """Measure."""
    python = sys.executable
    command = [python, "-c", "from weft.cli import main; main()"]  # what the installed `weft` script does
    load = [python, "-c", "from weft.marginals.counting import compile_kernels; compile_kernels()"]
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as cache:
        first = best(load, tries=1, NUMBA_CACHE_DIR=cache)
        later = best(load, NUMBA_CACHE_DIR=cache)
        small = [*command, *write_inputs(Path(cache))]
        cpu_seconds(small, tries=1)  # compiles what is not in the cache yet
        run = cpu_seconds(small)
    return [
        ("import weft", f"{best([python, '-c', 'import weft']):.2f} s (target under 0.5)"),
        ("weft --help", f"{best([*command, '--help']):.2f} s (target under 0.6)"),
        ("weft --help, CPU", f"{cpu_seconds([*command, '--help']):.2f} s (target under 0.4)"),
        (f"weft synth, {ROWS:,} x {COLUMNS}, independent, CPU", f"{run:.2f} s (target under 1.2)"),
        ("counting kernel, first run", f"{first:.1f} s to import and compile"),
        ("counting kernel, later runs", f"{later:.1f} s to import and load"),
    ]
