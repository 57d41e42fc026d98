"""Accuracy of any methods on the coded tables, beside the rivals' published figures.

    python -m benchmarks.accuracy --methods privsyn,independent --tables adult,nltcs --epsilons 0.2,0.8,3.2 --seeds 5
    python -m benchmarks.accuracy --methods aim,tree,privmrf,mst,pgm,pb-pgm --seeds 5
    python -m benchmarks.accuracy --methods aim,tree,privmrf,mst --tables fire --epsilons 0.8 --seeds 1

Every run is what a user would get: real noise, file to table, delta 1e-5. Errors are mean total variation distances of
all 1- and 2-way and 300 fixed 3-, 4- and 5-way marginals, as the reference scorer defines them, with their standard
deviation over runs. Rivals' rows come from the notes beside the data: one run each, on the same kind of machine.
`pgm` is given no marginals here and takes each column with the next: a lower bound on what named ones would do.
"""

import argparse
import json
import math
import re
from pathlib import Path
from statistics import mean, pstdev
from time import perf_counter

SHARED = Path(__file__).parents[2] / "shared"
COLUMNS = ["tvd_1", "tvd_2", "tvd_3", "tvd_4", "tvd_5", "range_err"]
FOUR = ["nltcs", "acs", "adult", "br2000"]


def load(name: str):
    """Return a coded table, its schema, and its records."""
    import pyarrow.parquet as pq

    from weft.codec import Codec
    from weft.schema import Schema

    schema = Schema.load(SHARED / "data" / f"{name}.domain.json")
    table = pq.read_table(SHARED / "data" / f"{name}.parquet")
    table = table.select([column.name for column in schema.columns])
    codec = Codec(schema, table.schema)
    return table, schema, codec, codec.encode(table)


def one_run(method: str, options: dict, name: str, epsilon: float, loaded, svm: bool = False) -> dict[str, float]:
    """Fit, sample and score once."""
    import weft
    from weft.evaluate import scorecard

    table, schema, codec, real = loaded
    begin = perf_counter()
    made = weft.Synthesizer(epsilon=epsilon, delta=1e-5, method=method, **options).fit(table, schema).sample()
    seconds = perf_counter() - begin
    return scorecard(real, codec.encode(made), svm=svm) | {"seconds": seconds}


def rivals(name: str, epsilon: float) -> list[tuple[str, list[str]]]:
    """Return the rivals' rows for a table and budget: their name and figures in the order of COLUMNS, then seconds."""
    text = (SHARED / "notes" / "peers.md").read_text()
    found = re.search(rf"### {name}, epsilon={epsilon:g}\b.*?\n\n(.*?)(?=\n###|\n## |\Z)", text, re.DOTALL)
    rows = []
    for line in found.group(1).splitlines()[2:] if found else []:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) > 9 and cells[1]:
            rows.append((cells[0], [*cells[1:7], cells[9]]))
    long = text[text.index("## Long runs") :] if epsilon == 0.8 else ""
    for line in long.splitlines():  # rival | table | 1-way ... | range err | NIST range | time | ...
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) > 9 and cells[1] == name and cells[2]:
            rows.append((cells[0].split(",")[0], [*cells[2:8], cells[9]]))
    return rows


def row(label: str, figures: list[str]) -> str:
    """Format one line of the table."""
    return f"  {label:<22}" + "".join(f"{figure:>16}" for figure in figures)


def summary(runs: list[dict[str, float]]) -> list[str]:
    """Return mean and spread of each figure over runs."""

    def shown(key: str) -> str:
        values = [run[key] for run in runs if key in run]
        if not values:
            return ""
        return f"{mean(values):.4f}" + (f" ±{pstdev(values):.4f}" if len(values) > 1 else "")

    return [*(shown(column) for column in COLUMNS), f"{mean(run['seconds'] for run in runs):.1f}"]


def compare(methods: list[str], tables: list[str], epsilons: list[float], seeds: int, options: dict, svm: bool) -> None:
    """Print one table for each real table and budget."""
    for name in tables:
        loaded = load(name)
        for epsilon in epsilons:
            print(f"\n{name}, epsilon {epsilon:g}, {seeds} runs")
            print(row("method", [*COLUMNS, "seconds"]))
            for method in methods:
                runs = [one_run(method, options, name, epsilon, loaded, svm) for _ in range(seeds)]
                extra = f"  SVM {mean(run['svm_misclass'] for run in runs):.4f}" if svm else ""
                print(row(method, summary(runs)) + extra, flush=True)
            for rival, figures in rivals(name, epsilon):
                print(row(f"rival {rival}", figures))


def figures() -> list[tuple[str, str]]:
    """Short form: one run of each method on one table."""
    if not SHARED.exists():
        return [("accuracy", "skipped: the real tables are not beside the project")]
    from weft.methods import METHODS

    loaded = load("adult")
    rows = []
    for method in METHODS:
        run = one_run(method, {}, "adult", 0.8, loaded)
        rows.append((f"adult, epsilon 0.8, {method}", f"3-way {run['tvd_3']:.4f}, {run['seconds']:.1f} s"))
    best = min(float(figures[2]) for _, figures in rivals("adult", 0.8) if not math.isnan(float(figures[2])))
    return [*rows, ("adult, epsilon 0.8, best rival in the short runs", f"3-way {best:.4f}")]


def main() -> None:
    """Read the command line and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="privsyn,independent")
    parser.add_argument("--tables", default=",".join(FOUR))
    parser.add_argument("--epsilons", default="0.2,0.8,3.2")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--options", default="{}", help="options of the methods, as JSON")
    parser.add_argument("--svm", action="store_true")
    args = parser.parse_args()
    epsilons = [float(e) for e in args.epsilons.split(",")]
    compare(args.methods.split(","), args.tables.split(","), epsilons, args.seeds, json.loads(args.options), args.svm)


if __name__ == "__main__":
    main()
