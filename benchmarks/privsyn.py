"""PrivSyn from file to file: time by stage, and peak memory.

python -m benchmarks.privsyn            # Adult
python -m benchmarks.privsyn --large    # and a generated table of 662,000 x 97, epsilon 2
"""

import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._tables import latent_class

SHARED = Path(__file__).parents[2] / "shared"


def run(source: Path, schema, epsilon: float, target: Path) -> tuple[float, dict[str, float], object]:
    """Read, fit, sample and write; return seconds, seconds by stage, and the synthesizer."""
    import weft
    from weft.release.publish import write_table

    begin, stages, started = perf_counter(), {}, {}

    def listen(event) -> None:
        if event.finished:
            stages[event.stage] = stages.get(event.stage, 0.0) + perf_counter() - started[event.stage]
        elif event.done == 0:
            started[event.stage] = perf_counter()

    synthesizer = weft.Synthesizer(epsilon=epsilon, method="privsyn").fit(source, schema, listener=listen)
    with target.open("wb") as sink:
        write_table(synthesizer.tables(listener=listen), sink, ".parquet")
    return perf_counter() - begin, stages, synthesizer


def report(label: str, source: Path, schema, epsilon: float, target: str) -> list[tuple[str, str]]:
    """Run twice, so that compiled code is cached, and tell of the second run."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        if len(pq.read_schema(source)) < 50:
            run(source, schema, epsilon, Path(folder) / "warm.parquet")
        seconds, stages, synthesizer = run(source, schema, epsilon, Path(folder) / "out.parquet")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wide = sum(len(m.clique) > 1 for m in synthesizer.fitted_.measured)
    rows = [(f"{label}, file to file", f"{seconds:.1f} s, peak {peak:.0f} MB ({target}); {wide} marginals")]
    return rows + [(f"  {stage}", f"{taken:.2f} s") for stage, taken in stages.items()]


def large(folder: Path) -> list[tuple[str, str]]:
    """Generate the wide table, outside this process's peak as far as can be, and run."""
    from weft.schema import Schema

    records = latent_class(662_000, 97, np.random.default_rng(0), weakest=1e5)
    table = pa.table(dict(zip(records.domain.names, records.columns, strict=True)))
    schema = Schema.from_domain(dict(zip(records.domain.names, records.domain.shape, strict=True)))
    source = folder / "wide.parquet"
    pq.write_table(table, source)
    del table, records
    return report("662,000 x 97, epsilon 2", source, schema, 2.0, "targets 180 s, 2 GiB")


def figures(everything: bool = False) -> list[tuple[str, str]]:
    """Measure."""
    from weft.schema import Schema

    rows = []
    if SHARED.exists():
        schema = Schema.load(SHARED / "data" / "adult.domain.json")
        source = SHARED / "data" / "adult.parquet"
        rows = report("Adult, epsilon 1", source, schema, 1.0, "targets 5 s, 400 MB")
    if everything or not rows:
        with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
            rows += large(Path(folder))
    return rows


def main() -> None:
    """Print the figures."""
    rows = figures("--large" in sys.argv)
    width = max(len(what) for what, _ in rows)
    for what, figure in rows:
        print(f"{what:<{width}}  {figure}")


if __name__ == "__main__":
    main()
