"""Weave against its targets, on coded tables, large ones, wide ones and awkward ones.

    python -m benchmarks.weave  # the coded tables beside targets and rivals, 5 runs each
    python -m benchmarks.weave --part all  # these and all that follow
    python -m benchmarks.weave --tables adult --figure adult.svg  # drawn
    python -m benchmarks.weave --part large  # 662,000 x 97: time, memory, distance to what was measured
    python -m benchmarks.weave --part wide  # 40,000 rows, 50 columns of 100 values, beside independent
    python -m benchmarks.weave --part floor  # every coded table, beside independent
    python -m benchmarks.weave --part stress  # 129 and 68 columns, beside independent and mst
    python -m benchmarks.weave --part monotone  # more budget, more rows, more sweeps

Every run goes through `Synthesizer` with real noise: figures differ from run to run as a user's would. Total
variation is that of `weft.evaluate.k_way`. Tables are looked for in ../shared/data beside the project.
"""

import argparse
import json
import resource
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._tables import latent_class
from benchmarks.accuracy import rivals
from weft.bench.figure import figure
from weft.bench.results import Key, Spread
from weft.codec import Codec
from weft.evaluate import k_way
from weft.marginals.counting import compile_kernels, count
from weft.marginals.records import Records
from weft.schema import Schema
from weft.synthesizer import Synthesizer

DATA = Path(__file__).parents[1] / "../shared/data"
DELTA = 1e-5
TARGETS = {
    ("nltcs", 0.2): (0.0105, 0.027, 10),
    ("nltcs", 0.8): (0.0053, 0.0125, 10),
    ("nltcs", 3.2): (0.0024, 0.0060, 10),
    ("acs", 0.8): (0.0035, 0.0082, 20),
    ("adult", 0.2): (0.072, 0.165, 10),
    ("adult", 0.8): (0.040, 0.115, 10),
    ("adult", 3.2): (0.027, 0.093, 10),
    ("br2000", 0.2): (0.0750, 0.1673, 10),
    ("br2000", 0.8): (0.028, 0.086, 10),
    ("br2000", 3.2): (0.0564, 0.1391, 10),
    ("fire", 0.8): (0.085, 0.22, 60),
}
"""Most 3-way error, 5-way error and seconds. Where no figure was set (br2000), the best rival's."""


@dataclass(frozen=True)
class Run:
    """One method on one table, over seeds."""

    spreads: dict[int, Spread]
    """Error of each order."""
    seconds: float


def read(name: str) -> tuple[pa.Table, Schema]:
    """Read a coded table with its public domain."""
    raw = json.loads((DATA / f"{name}.domain.json").read_text())
    sizes = {column: int(v["domain"] if isinstance(v, dict) else v) for column, v in raw.items()}
    return pq.read_table(DATA / f"{name}.parquet").select(list(sizes)), Schema.from_domain(sizes)


def run(name: str, epsilon: float, seeds: int, method: str = "weave") -> Run:
    """Fit and sample once a seed."""
    table, schema = read(name)
    codec = Codec(schema, table.schema)
    real = codec.encode(table)
    errors, seconds = [], []
    for seed in range(seeds):
        begin = perf_counter()
        made = Synthesizer(epsilon, DELTA, method=method, seed=seed).fit(table, schema).sample(seed=seed)
        seconds.append(perf_counter() - begin)
        synthetic = codec.encode(made)
        errors.append([k_way(real, synthetic, k).tvd for k in range(1, 6)])
    each = np.transpose(errors).tolist()
    return Run({k: Spread.of(values) for k, values in enumerate(each, 1)}, float(np.mean(seconds)))


def line(name: str, epsilon: float, result: Run) -> str:
    """One row of the table, with the target beside each figure."""
    three, five, seconds = TARGETS.get((name, epsilon), (np.nan, np.nan, np.nan))
    ways = " ".join(f"{result.spreads[k].mean:.4f}" for k in range(1, 6))
    met = result.spreads[3].mean <= three and result.spreads[5].mean <= five and result.seconds <= seconds
    return (
        f"{name:>7} {epsilon:>4}  {ways}  {result.seconds:6.1f} s   "
        f"target {three:.4f} {five:.4f} {seconds:.0f} s  {'met' if met else 'not met'}"
    )


def figures() -> list[tuple[str, str]]:
    """Short form: two tables, one seed."""
    if not DATA.exists():
        return [("weave", "no ../shared/data: skipped")]
    compile_kernels()
    return [(f"weave {name} {e}", line(name, e, run(name, e, 1))) for name, e in (("nltcs", 0.8), ("adult", 0.8))]


def large() -> None:
    """One run on the generated wide table: the records' distance to the tables that were measured, and the floor."""
    records = latent_class(662_000, 97, np.random.default_rng(0), weakest=1e5)
    schema = Schema.from_domain(dict(zip(records.domain.names, records.domain.shape, strict=True)))
    with TemporaryDirectory(prefix="weft-bench-") as folder:
        source = Path(folder) / "wide.parquet"
        pq.write_table(pa.table(dict(zip(records.domain.names, records.columns, strict=True))), source)
        begin = perf_counter()
        fitted = Synthesizer(2.0, DELTA, method="weave").fit(source, schema)
        learned = perf_counter() - begin
        made = fitted.sample()
        seconds = perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    maps, model = getattr(fitted.model_, "maps", {}), getattr(fitted.model_, "inner", fitted.model_)
    codes = Codec(schema, made.schema).encode(made)
    merged = [maps[name].codes[codes.column(name)] if name in maps else codes.column(name) for name in codes.domain]
    tables = count(Records.of(model.domain, merged), model.cliques)
    rng = np.random.default_rng(1)
    near = np.mean([np.abs(t / t.sum() - aim).sum() / 2 for t, aim in zip(tables, model.targets, strict=True)])
    drawn = [rng.multinomial(len(codes), aim.ravel()) / len(codes) for aim in model.targets]
    floor = np.mean([np.abs(t - aim.ravel()).sum() / 2 for t, aim in zip(drawn, model.targets, strict=True)])
    print(
        f"662,000 x 97, epsilon 2: {len(model.cliques)} tables; {learned:.0f} s to learn, {seconds:.0f} s in all (120)"
    )
    print(f"  peak {peak:.2f} GiB (2), mean distance to measured tables {near:.4f}, of independent draws {floor:.4f}")
    print("  1- to 3-way:", *(f"{k_way(records, codes, k).tvd:.4f}" for k in (1, 2, 3)))


def beside(table: pa.Table, schema: Schema, epsilon: float, methods: list[str]) -> None:
    """Print one run of each method on one table."""
    codec = Codec(schema, table.schema)
    real = codec.encode(table)
    for method in methods:
        begin = perf_counter()
        made = Synthesizer(epsilon, DELTA, method=method, trust_data_for_schema=True).fit(table, schema).sample()
        seconds = perf_counter() - begin
        ways = " ".join(f"{k_way(real, codec.encode(made), k).tvd:.4f}" for k in range(1, 6))
        print(f"  epsilon {epsilon:<4} {method:<12} {ways}  {seconds:6.1f} s", flush=True)


def wide() -> None:
    """Few rows and large domains: where a dense method drowns in noise."""
    for label, scatter in (("strongly", 0.005), ("moderately", 0.05), ("weakly", 0.5)):
        records = latent_class(40_000, 50, np.random.default_rng(0), sizes=(100, 100), scatter=scatter)
        pairs = list(combinations(records.domain.names[:10], 2))
        apart = np.mean([np.abs(t - np.outer(t.sum(1), t.sum(0)) / t.sum()).sum() for t in count(records, pairs)])
        print(
            f"40,000 rows, 50 columns of 100 values, {label} dependent (a pair and the product of its columns are "
            f"{apart / 80_000:.2f} apart): 1- to 5-way"
        )
        table = pa.table(dict(zip(records.domain.names, records.columns, strict=True)))
        schema = Schema.from_domain(dict(zip(records.domain.names, records.domain.shape, strict=True)))
        for epsilon in (0.2, 0.8, 3.2):
            beside(table, schema, epsilon, ["weave", "independent"])


def floor() -> None:
    """Every coded table, beside the floor that no method may fall below."""
    for name in ("nltcs", "acs", "adult", "adult_aim", "br2000", "fire"):
        print(f"{name}: 1- to 5-way")
        for epsilon in (0.2, 0.8, 3.2):
            beside(*read(name), epsilon, ["weave", "independent"])


def stress() -> None:
    """Many columns of census and tax tables, with schemas drafted from the rows, as no real user should."""
    from weft.drafting.draft import draft

    for name in ("acs_pums2018_west", "cps_tax"):
        table = pq.read_table(DATA / f"{name}.parquet")
        print(f"{name}, {table.num_rows:,} x {table.num_columns}: 1- to 5-way")
        with TemporaryDirectory(prefix="weft-bench-") as folder:
            drafted = Path(folder) / "schema.toml"
            drafted.write_text(draft(table, name))
            schema = Schema.load(drafted)
        beside(table, schema, 1.0, ["weave", "mst", "independent"])


def monotone() -> None:
    """More budget, more rows, more sweeps: errors must not rise."""
    table, schema = read("adult")
    codec = Codec(schema, table.schema)
    real = codec.encode(table)

    def error(rows: int, epsilon: float, **options: int) -> str:
        part = table.take(np.random.default_rng(0).permutation(table.num_rows)[:rows])
        runs = [Synthesizer(epsilon, DELTA, method="weave", **options).fit(part, schema).sample() for _ in range(3)]
        return " ".join(f"{np.mean([k_way(real, codec.encode(made), k).tvd for made in runs]):.4f}" for k in (2, 3, 5))

    print("adult, 2-, 3- and 5-way, mean of 3 runs")
    for epsilon in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2):
        print(f"  epsilon {epsilon:<5} {error(table.num_rows, epsilon)}", flush=True)
    for rows in (2_500, 5_000, 10_000, 20_000, table.num_rows):
        print(f"  rows {rows:<8,} {error(rows, 0.8)}", flush=True)
    for sweeps in (1, 3, 6, 12, 24):
        print(f"  sweeps {sweeps:<6} {error(table.num_rows, 0.8, sweeps=sweeps)}", flush=True)


PARTS = {"large": large, "wide": wide, "floor": floor, "stress": stress, "monotone": monotone}


def targets(chosen: argparse.Namespace) -> None:
    """Print the table of targets, with the best rival's figure of each order beside ours."""
    print("  table  eps  1-way  2-way  3-way  4-way  5-way     time")
    drawn: dict[Key, Spread] = {}
    for name, epsilon in product(chosen.tables.split(","), map(float, chosen.epsilon.split(","))):
        if not chosen.all and (name, epsilon) not in TARGETS:
            continue
        ours, others = run(name, epsilon, chosen.seeds, chosen.method), rivals(name, epsilon)
        print(line(name, epsilon, ours), flush=True)
        best = [min((float(f[k]) for _, f in others if f[k]), default=np.nan) for k in range(5)]
        print(f"{'best rival':>12}  " + " ".join(f"{x:.4f}" for x in best), flush=True)
        for k in (3, 4, 5):
            drawn[name, f"tvd_{k}", epsilon, chosen.method] = ours.spreads[k]
            for rival, figures in others:
                if figures[k - 1]:
                    drawn[name, f"tvd_{k}", epsilon, rival] = Spread.of([float(figures[k - 1])])
    if chosen.figure:
        name = chosen.tables.split(",")[0]
        heading = f"{name}: {chosen.method} ({chosen.seeds} runs) beside other software (one run each)"
        chosen.figure.write_text(figure(drawn, name, heading))


def main() -> None:
    """Read the command line and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["targets", *PARTS, "all"], default="targets")
    parser.add_argument("--tables", default="nltcs,acs,adult,br2000,fire")
    parser.add_argument("--epsilon", default="0.2,0.8,3.2")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--method", default="weave")
    parser.add_argument("--all", action="store_true", help="also where no target is set")
    parser.add_argument("--figure", type=Path, help="an SVG file to draw the first table into")
    chosen = parser.parse_args()
    compile_kernels()
    if chosen.part in ("targets", "all"):
        targets(chosen)
    for part in PARTS.values() if chosen.part == "all" else [PARTS[chosen.part]] if chosen.part in PARTS else []:
        part()


if __name__ == "__main__":
    main()
