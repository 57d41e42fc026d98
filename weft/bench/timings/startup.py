"""How long one waits before anything happens: import, help, first compilation."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from time import perf_counter

from weft.bench.timings import Figures


def best(command: list[str], tries: int = 5, **environment: str) -> float:
    """Shortest wall time of a command, in seconds, its interpreter's start included."""
    times = []
    for _ in range(tries):
        begin = perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | environment)  # noqa: S603 ours
        times.append(perf_counter() - begin)
    return min(times)


def figures(large: bool = False) -> Figures:
    """Measure."""
    python = sys.executable
    command = [python, "-c", "from weft.cli import main; main()"]  # what the installed `weft` script does
    load = [python, "-c", "from weft.marginals.counting import compile_kernels; compile_kernels()"]
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as cache:
        first = best(load, tries=1, NUMBA_CACHE_DIR=cache)
        later = best(load, NUMBA_CACHE_DIR=cache)
    return [
        ("import weft", f"{best([python, '-c', 'import weft']):.2f} s (target under 0.5)"),
        ("weft --help", f"{best([*command, '--help']):.2f} s (target under 0.6)"),
        ("counting kernel, first run", f"{first:.1f} s to import and compile"),
        ("counting kernel, later runs", f"{later:.1f} s to import and load"),
    ]
