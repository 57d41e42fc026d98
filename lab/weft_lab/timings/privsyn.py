"""PrivSyn from file to file: time by stage, and peak memory; on Adult, or on a generated table of 662,000 x 97."""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter

import pyarrow.parquet as pq

from weft.io.table_files import write_table
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.datasets import locate
from weft_lab.fetch import make
from weft_lab.timings import Figures
from weft_lab.timings.stopwatch import Stopwatch, peak


def run(source: Path, epsilon: float, target: Path) -> tuple[float, Stopwatch, Synthesizer]:
    """Read, fit, sample and write; return seconds, seconds by stage, and the synthesizer."""
    watch = Stopwatch()
    begin = perf_counter()
    schema = Schema.load(source.with_suffix(".domain.json"))
    synthesizer = Synthesizer(epsilon=epsilon, method="privsyn", journal=None).fit(source, schema, listener=watch)
    with target.open("wb") as sink:
        write_table(synthesizer.tables(listener=watch), sink, ".parquet")
    return perf_counter() - begin, watch, synthesizer


def report(label: str, source: Path, epsilon: float, target: str) -> Figures:
    """Run twice where that is quick, so that compiled code is cached, and tell of the second run."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        if len(pq.read_schema(source)) < 50:
            run(source, epsilon, Path(folder) / "warm.parquet")
        seconds, watch, synthesizer = run(source, epsilon, Path(folder) / "out.parquet")
    pairs = sum(len(m.clique) > 1 for m in synthesizer.fitted_.measured)
    whole = f"{seconds:.1f} s, peak {peak() / 2**20:.0f} MB ({target}); {pairs} marginals"
    stages = [(f"  {name}", f"{taken:.2f} s") for name, taken in watch.seconds.items()]
    return [(f"{label}, file to file", whole), *stages]


def figures(large: bool = False) -> Figures:
    """Measure on Adult where it is there, and on the generated table where it is not, or all is asked for."""
    adult = locate("adult")
    rows = report("Adult, epsilon 1", adult, 1.0, "targets 5 s, 400 MB") if adult is not None else []
    if large or not rows:
        with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
            wide = make("wide_large", Path(folder))
            rows += report("662,000 x 97, epsilon 2", wide, 2.0, "targets 180 s, 2 GiB")
    return rows
