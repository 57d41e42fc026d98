"""The orderings of PrivSyn's evaluation (figures 5 to 7), in three tables, each with its spread over runs.

Noise: weighted Gaussian < equal Gaussian < equal Laplace. Selection: DenseMarg < PrivBayes(InDif) on range queries,
and private selection shares at least 85% of its pairs with selection on exact scores. Synthesis: GUM < MCF. Lower is
better.

Runs of one seed share their noise as far as they ask the same questions, so orderings are judged by their differences
run by run: an ordering holds, does not hold, or is too close to tell (Student's t, 95%). Larger tables are cut to
100,000 random rows; cps_tax to its first 30 columns, with a schema drafted from the rows. delta is 1e-10, of the size
of the paper's 1 / n^2.

Beside the noise stands how far the measured marginals themselves are off, as drawn and once reconciled: what weighing
gains in the first is mostly lost in the second, which removes most of the noise of large, sparse tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import mean, stdev
from typing import Any

from scipy.stats import t as student

from weft.bench import settings
from weft.bench.experiment import Experiment, Variant
from weft.bench.results import Row, Store, summary
from weft.bench.runner import fit, run
from weft.bench.sheet import Sheet
from weft.bench.tables import BenchTable
from weft.marginals.counting import count
from weft.marginals.domain import Clique
from weft.marginals.marginal import Array
from weft.marginals.noise_error import expected_noise
from weft.marginals.recode import ValueMap, summed_codes
from weft.marginals.records import Records
from weft.progress import Listener, silence

TABLES = ("adult_aim", "fire", "cps_tax")
FIRST_COLUMNS = {"cps_tax": 30}
EPSILON, DELTA, ROWS, SHARED_PAIRS = 2.0, 1e-10, 100_000, 0.85

OURS = "PrivSyn"
NOISE = {OURS: "Weighted Gaussian", "Equal Gaussian": "Equal Gaussian", "Equal Laplace": "Equal Laplace"}
SELECTION = {OURS: "DenseMarg", "PrivBayes(InDif)": "PrivBayes(InDif)"}
SYNTHESIS = {OURS: "GUM, guided", "GUM as published": "GUM as published", "MCF": "MCF"}
MEASURES = {"pair_l1": "L1 of pairs", "range": "range queries"}

LINES = Experiment(
    name="orderings",
    paper="PrivSyn, figures 5 to 7",
    about="the orderings of noise, selection and synthesis",
    variants={
        OURS: Variant("privsyn"),
        "Equal Gaussian": Variant("privsyn", settings.EQUAL_GAUSSIAN),
        "Equal Laplace": Variant("privsyn", settings.EQUAL_LAPLACE),
        "PrivBayes(InDif)": Variant("privsyn", settings.SPARSE_NETWORK),
        "GUM as published": Variant("privsyn", settings.GUM_PAPER),
        "MCF": Variant("privsyn", settings.MCF),
    },
    tasks=tuple(MEASURES),
    epsilons=(EPSILON,),
    delta=DELTA,
)
"""The lines of the three figures; PrivSyn as it is by default is the first of each."""


@dataclass(frozen=True)
class Found:
    """What was measured on one table."""

    rows: Sequence[Row]
    shared: Sequence[float]
    """Of each run, the share of pairs that private and exact selection have in common."""
    marginals: Mapping[str, tuple[float, float]]
    """How far measured marginals are off, as drawn and reconciled, by kind of noise."""


def overlap(table: BenchTable, epsilon: float, delta: float, seed: int) -> float:
    """Return the share of pairs that selection on noisy and on exact scores have in common, of the larger selection."""
    private, exact = (
        {pair for made in fit(table, variant, epsilon, delta, seed).fitted_.measured for pair in _pairs(made.clique)}
        for variant in (Variant("privsyn"), Variant("privsyn", exact_scores=True))
    )
    return len(private & exact) / max(len(private), len(exact), 1)


def measured_error(table: BenchTable, variant: Variant, epsilon: float, delta: float, seed: int) -> tuple[float, float]:
    """Return the mean L1 error of the marginals, as a share of the rows: expected of Gaussian noise, and reconciled."""
    fitted = fit(table, variant, epsilon, delta, seed).fitted_
    asked = [made for made in fitted.measured if len(made.clique) > 1]
    if not asked:  # noise drowned every pair
        return math.nan, math.nan
    n = len(table.records)
    drawn = mean(float(expected_noise(made.cells, made.sigma)) for made in asked) / n
    model: Any = getattr(fitted.model, "inner", fitted.model)
    maps = getattr(fitted.model, "maps", {})
    tables = {made.clique: made.table for made in model.tables}
    found = (tables[made.clique] * (n / tables[made.clique].sum()) for made in asked)
    exact = (_merged(table.records, made.clique, maps) for made in asked)
    return drawn, mean(float(abs(a - b).sum()) / n for a, b in zip(found, exact, strict=True))


def _merged(records: Records, clique: Clique, maps: Mapping[str, ValueMap]) -> Array:
    """Count a marginal in the merged codes of the method."""
    counts = count(records, [clique])[0]
    for axis, name in enumerate(clique):
        if name in maps:
            counts = summed_codes(counts, maps[name].codes, maps[name].size, axis)
    return counts


def _pairs(clique: Clique) -> Iterator[tuple[str, str]]:
    # Pairs are combined only into cliques all of whose pairs were chosen, so these are the chosen ones.
    return combinations(clique, 2)


def verdict(rows: Sequence[Row], lines: Sequence[str], measure: str) -> str:
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


def _judge(gains: Sequence[float]) -> str:
    """Judge paired differences by Student's t at 95%; a single run by its sign."""
    chance = student.ppf(0.975, len(gains) - 1) * stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    if abs(mean(gains)) <= chance:
        return "too close to tell"
    return "holds" if mean(gains) > 0 else "DOES NOT HOLD"


def sheet(
    title: str,
    names: Mapping[str, str],
    found: Mapping[str, Found],
    ordered: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
) -> Sheet:
    """Make one table: a row for each line, a column for each real table and measure; then the verdicts."""
    heads = [f"{table}: {shown}" for table in found for shown in MEASURES.values()]
    rows = []
    for line, name in names.items():
        cells = []
        for one in found.values():
            spreads = {(key[1], key[3]): spread for key, spread in summary(one.rows).items()}
            cells += [str(spreads[measure, line]) for measure in MEASURES]
        rows.append([name, *cells])
    said = [
        f"{table}, {shown}: {' < '.join(names[line] for line in lines)}: {verdict(one.rows, lines, measure)}"
        for table, one in found.items()
        for measure, shown in MEASURES.items()
        for lines in ordered
    ]
    return Sheet(title, ("", *heads), rows, [*said, *notes])


def measure(table: BenchTable, seeds: int, epsilon: float, delta: float, store: Store, listener: Listener) -> Found:
    """Run every line on one table."""
    rows = run(LINES, [table], store=store, seeds=seeds, epsilons=[epsilon], delta=delta, listener=listener).rows
    shared = [overlap(table, epsilon, delta, seed) for seed in range(seeds)]
    marginals = {
        NOISE[line]: measured_error(table, LINES.variants[line], epsilon, delta, 0) for line in (OURS, "Equal Gaussian")
    }
    return Found(rows, shared, marginals)


def orderings(
    tables: Sequence[BenchTable],
    seeds: int = 5,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    *,
    store: Store | None = None,
    listener: Listener = silence,
) -> Iterator[Sheet]:
    """Run everything and yield the three tables."""
    kept = store or Store()
    found = {table.name: measure(table, seeds, epsilon, delta, kept, listener) for table in tables}
    setting = f"epsilon {epsilon:g}, delta {delta:g}, {seeds} runs, mean ± sd"
    off = [
        f"{name}, L1 of the measured marginals as drawn and reconciled: "
        + ", ".join(f"{line} {drawn:.3f} and {mended:.4f}" for line, (drawn, mended) in one.marginals.items())
        for name, one in found.items()
    ]
    shared = [
        f"{name}, private and exact selection share {mean(one.shared):.0%} ({min(one.shared):.0%} to "
        f"{max(one.shared):.0%}): 85% {'holds' if mean(one.shared) >= SHARED_PAIRS else 'DOES NOT HOLD'}"
        for name, one in found.items()
    ]
    yield sheet(f"Noise (figure 6), {setting}", NOISE, found, [list(NOISE)], off)
    yield sheet(f"Selection (figure 5), {setting}", SELECTION, found, [list(SELECTION)], shared)
    yield sheet(f"Synthesis (figure 7), {setting}", SYNTHESIS, found, [[OURS, "MCF"], ["GUM as published", "MCF"]])
