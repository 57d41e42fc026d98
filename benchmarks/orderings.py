"""The orderings of PrivSyn's evaluation (figures 5 to 7), in three tables, each with its spread over runs.

    python -m benchmarks.orderings --tables adult_aim,fire,cps_tax --seeds 5

Noise: weighted Gaussian < equal Gaussian < equal Laplace. Selection: DenseMarg < PrivBayes(InDif) on range queries,
and private selection shares at least 85% of its pairs with selection on exact scores. Synthesis: GUM < MCF. Lower is
better.

Runs of one seed share their noise as far as they ask the same questions, so orderings are judged by their differences
run by run: an ordering holds, does not hold, or is too close to tell (Student's t, 95%). Larger tables are cut to
100,000 random rows (`--rows 0`: all); cps_tax to its first 30 columns, with a schema drafted from the rows. delta is
1e-10, of the size of the paper's 1 / n^2.

Beside the noise stands how far the measured marginals themselves are off, as drawn and once reconciled: what weighing
gains in the first is mostly lost in the second, which removes most of the noise of large, sparse tables.
"""

import argparse
import math
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from statistics import mean, stdev

SHARED = Path(__file__).parents[2] / "shared" / "data"
TABLES = ["adult_aim", "fire", "cps_tax"]
FIRST_COLUMNS = {"cps_tax": 30}
EPSILON, DELTA, ROWS, SHARED_PAIRS = 2.0, 1e-10, 100_000, 0.85

OURS = "PrivSyn"
NOISE = {OURS: "Weighted Gaussian", "Equal Gaussian": "Equal Gaussian", "Equal Laplace": "Equal Laplace"}
SELECTION = {OURS: "DenseMarg", "PrivBayes(InDif)": "PrivBayes(InDif)"}
SYNTHESIS = {OURS: "GUM, guided", "GUM as published": "GUM as published", "MCF": "MCF"}


def experiment():
    """Return the lines of the three figures; PrivSyn as it is by default is the first of each."""
    from weft.bench import EXPERIMENTS, Experiment, Variant
    from weft.bench.catalogue import GUM_PAPER, MCF

    noise = EXPERIMENTS["privsyn-figure6"].variants
    return Experiment(
        name="orderings",
        paper="PrivSyn, figures 5 to 7",
        about="the orderings of noise, selection and synthesis",
        variants={
            OURS: Variant("privsyn"),
            "Equal Gaussian": noise["Equal Gaussian"],
            "Equal Laplace": noise["Equal Laplace"],
            "PrivBayes(InDif)": Variant("privsyn", {"selection": "privbayes-indif"}),
            "GUM as published": Variant("privsyn", {"gum": GUM_PAPER}),
            "MCF": Variant("privsyn", {"gum": MCF}),
        },
        tasks=("pair_l1", "range"),
        epsilons=(EPSILON,),
        delta=DELTA,
    )


def table_of(name: str, rows: int | None):
    """Open one of the tables."""
    from weft.bench import open_table

    return open_table(str(SHARED / f"{name}.parquet"), rows=rows, columns=FIRST_COLUMNS.get(name))


def overlap(table, epsilon: float, delta: float, seed: int) -> float:
    """Return the share of pairs that selection on noisy and on exact scores have in common, of the larger selection."""
    from weft.bench import Variant
    from weft.bench.runner import fit

    private, exact = (
        {pair for made in fit(table, variant, epsilon, delta, seed).fitted_.measured for pair in _pairs(made.clique)}
        for variant in (Variant("privsyn"), Variant("privsyn", exact_scores=True))
    )
    return len(private & exact) / max(len(private), len(exact), 1)


def measured_error(table, variant, epsilon: float, delta: float, seed: int) -> tuple[float, float]:
    """Return the mean L1 error of the marginals, as a share of the rows: expected of Gaussian noise, and reconciled."""
    from weft.bench.runner import fit

    fitted = fit(table, variant, epsilon, delta, seed).fitted_
    asked = [made for made in fitted.measured if len(made.clique) > 1]
    n = len(table.records)
    drawn = mean(made.cells * made.sigma for made in asked) * math.sqrt(2 / math.pi) / n
    tables = {made.clique: made.table for made in fitted.model.inner.tables}
    found = (tables[made.clique] * (n / tables[made.clique].sum()) for made in asked)
    exact = (_merged(table.records, made.clique, fitted.model.maps) for made in asked)
    return drawn, mean(float(abs(a - b).sum()) / n for a, b in zip(found, exact, strict=True))


def _merged(records, clique, maps):
    """Count a marginal in the merged codes of the method."""
    import numpy as np

    from weft.marginals.counting import count

    counts = count(records, [clique])[0]
    for axis, name in enumerate(clique):
        if name in maps:
            summed = np.zeros((maps[name].size, *np.delete(counts.shape, axis)), counts.dtype)
            np.add.at(summed, maps[name].codes, np.moveaxis(counts, axis, 0))
            counts = np.moveaxis(summed, 0, axis)
    return counts


def _pairs(clique):
    # Pairs are combined only into cliques all of whose pairs were chosen, so these are the chosen ones.
    return combinations(clique, 2)


def verdict(rows, lines: list[str], measure: str) -> str:
    """Say whether figures rise from line to line: on average beyond what chance explains, and in how many runs."""
    runs: dict[int, dict[str, float]] = {}
    for row in rows:
        if row.measure == measure and row.variant in lines:
            runs.setdefault(row.seed, {})[row.variant] = row.value
    said = []
    for low, high in pairwise(lines):
        gains = [run[high] / run[low] - 1 for run in runs.values()]
        times = sum(gain > 0 for gain in gains)
        said.append(f"{_judge(gains)} ({times} of {len(runs)} runs, {mean(gains):+.1%})")
    return "; ".join(said)


def _judge(gains: list[float]) -> str:
    """Judge paired differences by Student's t at 95%; a single run by its sign."""
    from scipy.stats import t

    chance = t.ppf(0.975, len(gains) - 1) * stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    if abs(mean(gains)) <= chance:
        return "too close to tell"
    return "holds" if mean(gains) > 0 else "DOES NOT HOLD"


def show(title: str, names: dict[str, str], outcomes: dict, measures: dict[str, str], ordered: list[list[str]]) -> None:
    """Print one table: a row for each line, a column for each real table and measure; then the verdicts."""
    from weft.bench import summary

    print(f"\n{title}")
    heads = [f"{table}: {shown}" for table in outcomes for shown in measures.values()]
    widths = [max(len(head), 22) + 2 for head in heads]
    print(" " * 20 + "".join(f"{head:>{w}}" for head, w in zip(heads, widths, strict=True)))
    for line, name in names.items():
        cells = []
        for rows in outcomes.values():
            spreads = {(key[1], key[3]): spread for key, spread in summary(rows).items()}
            cells += [str(spreads[measure, line]) for measure in measures]
        print(f"  {name:<18}" + "".join(f"{cell:>{w}}" for cell, w in zip(cells, widths, strict=True)))
    for table, rows in outcomes.items():
        for measure, shown in measures.items():
            for lines in ordered:
                order = " < ".join(names[line] for line in lines)
                print(f"  {table}, {shown}: {order}: {verdict(rows, lines, measure)}")


def orderings(tables: list[str], seeds: int, rows: int | None, epsilon: float, delta: float, kept: str | None) -> None:
    """Run everything and print the three tables."""
    from weft.bench import Store, run

    store = Store(None if kept is None else Path(kept))
    outcomes, shared, errors, names = {}, {}, {}, {}
    for name in tables:
        table = table_of(name, rows)
        names[name] = f"{table.name}: {len(table.records)} rows, {len(table.records.domain)} columns"
        outcomes[name] = run(experiment(), [table], store=store, seeds=seeds, epsilons=[epsilon], delta=delta).rows
        shared[name] = [overlap(table, epsilon, delta, seed) for seed in range(seeds)]
        errors[name] = {
            NOISE[line]: measured_error(table, experiment().variants[line], epsilon, delta, 0)
            for line in (OURS, "Equal Gaussian")
        }
    print(f"epsilon {epsilon:g}, delta {delta:g}, {seeds} runs, mean ± standard deviation", *names.values(), sep="\n  ")
    both = {"pair_l1": "L1 of pairs", "range": "range queries"}
    show("Noise (figure 6)", NOISE, outcomes, both, [list(NOISE)])
    for name, found in errors.items():
        told = ", ".join(f"{line} {drawn:.3f} and {mended:.4f}" for line, (drawn, mended) in found.items())
        print(f"  {name}, L1 of the measured marginals as drawn and reconciled: {told}")
    show("Selection (figure 5)", SELECTION, outcomes, both, [list(SELECTION)])
    for name, values in shared.items():
        holds = "holds" if mean(values) >= SHARED_PAIRS else "DOES NOT HOLD"
        low, high = min(values), max(values)
        print(f"  {name}, private and exact selection share {mean(values):.0%} ({low:.0%} to {high:.0%}): 85% {holds}")
    show("Synthesis (figure 7)", SYNTHESIS, outcomes, both, [[OURS, "MCF"], ["GUM as published", "MCF"]])


def figures() -> list[tuple[str, str]]:
    """Short form: one run on one table."""
    if not SHARED.exists():
        return [("orderings", "skipped: the real tables are not beside the project")]
    from weft.bench import run

    table = table_of("adult_aim", None)
    short = replace(experiment(), tasks=("range",))
    rows = run(short, [table], seeds=1).rows
    return [
        ("adult_aim, epsilon 2, noise: weighted < equal Gaussian < equal Laplace", verdict(rows, list(NOISE), "range")),
        ("adult_aim, epsilon 2, selection: DenseMarg < PrivBayes(InDif)", verdict(rows, list(SELECTION), "range")),
        ("adult_aim, epsilon 2, synthesis: GUM < MCF", verdict(rows, [OURS, "MCF"], "range")),
        ("adult_aim, epsilon 2, pairs shared with exact selection", f"{overlap(table, EPSILON, DELTA, 0):.0%}"),
    ]


def main() -> None:
    """Read the command line and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=ROWS, help="cut larger tables to so many rows; 0: never")
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--delta", type=float, default=DELTA)
    parser.add_argument("--keep", metavar="FILE", help="JSON lines to keep runs in, and to go on from")
    args = parser.parse_args()
    orderings(args.tables.split(","), args.seeds, args.rows or None, args.epsilon, args.delta, args.keep)


if __name__ == "__main__":
    main()
