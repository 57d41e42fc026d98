"""The orderings of PrivSyn's evaluation (figures 5 to 7) at one budget, and two figures that go with them.

The experiments, and what the paper says of them, are those of the catalogue: `weft_lab.verdicts` judges them. Larger
tables are cut to 100,000 random rows; cps_tax to its first 30 columns, with a schema drafted from the rows. delta is
1e-10, of the size of the paper's 1 / n^2.

Beside the selection stands how many pairs private selection and selection on exact scores have in common: over 85% in
most cases, says the paper (section 6.3, page 939). Beside the noise stands how far the measured marginals themselves
are off, as drawn and once reconciled: what weighing gains in the first is mostly lost in the second, which removes most
of the noise of large, sparse tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import mean
from typing import Any

from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique
from weft.marginals.marginal import Array
from weft.marginals.noise_error import compute_expected_noise
from weft.marginals.records import Records
from weft.marginals.value_groups import ValueMap, sum_by_codes
from weft.progress import Listener, ignore_event
from weft_lab.beside import judged
from weft_lab.catalogue import EXPERIMENTS
from weft_lab.experiment import Variant
from weft_lab.results import Store, summary
from weft_lab.runner import fit, run
from weft_lab.sheet import Sheet
from weft_lab.tables import BenchTable
from weft_lab.tasks import title as named

TABLES = ("adult_aim", "fire", "cps_tax")
FIRST_COLUMNS = {"cps_tax": 30}
EPSILON, DELTA, ROWS, SHARED_PAIRS = 2.0, 1e-10, 100_000, 0.85

NOISE, SELECTION, SYNTHESIS = "privsyn-figure6", "privsyn-figure5", "privsyn-figure7"
TASKS = ("pair_l1", "range")


def overlap(table: BenchTable, epsilon: float, delta: float, seed: int) -> float:
    """Return the share of pairs that selection on noisy and on exact scores have in common, of the larger selection."""
    private, exact = (
        {pair for made in fit(table, variant, epsilon, delta, seed).fitted_.measured for pair in _pairs(made.clique)}
        for variant in list(EXPERIMENTS[SELECTION].variants.values())[:2]
    )
    return len(private & exact) / max(len(private), len(exact), 1)


def measured_error(table: BenchTable, variant: Variant, epsilon: float, delta: float, seed: int) -> tuple[float, float]:
    """Return the mean L1 error of the marginals, as a share of the rows: expected of Gaussian noise, and reconciled."""
    fitted = fit(table, variant, epsilon, delta, seed).fitted_
    asked = [made for made in fitted.measured if len(made.clique) > 1]
    if not asked:  # noise drowned every pair
        return math.nan, math.nan
    n = len(table.records)
    drawn = mean(float(compute_expected_noise(made.cells, made.sigma)) for made in asked) / n
    model: Any = getattr(fitted.model, "inner", fitted.model)
    maps = getattr(fitted.model, "maps", {})
    tables = {made.clique: made.table for made in model.tables}
    found = (tables[made.clique] * (n / tables[made.clique].sum()) for made in asked)
    exact = (_merged(table.records, made.clique, maps) for made in asked)
    return drawn, mean(float(abs(a - b).sum()) / n for a, b in zip(found, exact, strict=True))


def _merged(records: Records, clique: Clique, maps: Mapping[str, ValueMap]) -> Array:
    """Count a marginal in the merged codes of the method."""
    counts = count_marginals(records, [clique])[0]
    for axis, name in enumerate(clique):
        if name in maps:
            counts = sum_by_codes(counts, maps[name].codes, maps[name].size, axis)
    return counts


def _pairs(clique: Clique) -> Iterator[tuple[str, str]]:
    # Pairs are combined only into cliques all of whose pairs were chosen, so these are the chosen ones.
    return combinations(clique, 2)


def orderings(
    tables: Sequence[BenchTable],
    seeds: int = 5,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    *,
    store: Store | None = None,
    listener: Listener = ignore_event,
) -> Iterator[Sheet]:
    """Run the three experiments; yield for each its figures and what the paper says of them."""
    kept = store or Store()
    for name, noted in ((NOISE, _marginals), (SELECTION, _shared), (SYNTHESIS, None)):
        known = replace(EXPERIMENTS[name], tasks=TASKS)
        done = run(known, tables, store=kept, seeds=seeds, epsilons=[epsilon], delta=delta, listener=listener)
        notes = [] if noted is None else [noted(table, epsilon, delta, seeds) for table in tables]
        found = summary(done.rows)
        heads = [(table.name, task) for table in tables for task in TASKS]
        rows = [[line, *(str(found[table, task, epsilon, line]) for table, task in heads)] for line in known.lines]
        title = f"{known.paper}, epsilon {epsilon:g}, delta {delta:g}, {seeds} runs, mean ± sd"
        yield Sheet(title, ("", *(f"{table}: {named(task)}" for table, task in heads)), rows, notes)
        judgement = judged(done)
        yield from judgement.sheets() if judgement is not None else ()


def _marginals(table: BenchTable, epsilon: float, delta: float, _: int) -> str:
    lines = {line: EXPERIMENTS[NOISE].variants[line] for line in ("Weighted Gaussian", "Equal Gaussian")}
    off = {line: measured_error(table, variant, epsilon, delta, 0) for line, variant in lines.items()}
    told = ", ".join(f"{line} {drawn:.3f} and {mended:.4f}" for line, (drawn, mended) in off.items())
    return f"{table.name}, L1 of the measured marginals as drawn and reconciled: {told}"


def _shared(table: BenchTable, epsilon: float, delta: float, seeds: int) -> str:
    found = [overlap(table, epsilon, delta, seed) for seed in range(seeds)]
    holds = "holds" if mean(found) >= SHARED_PAIRS else "DOES NOT HOLD"
    least, most = min(found), max(found)
    return f"{table.name}, private and exact selection share {mean(found):.0%} ({least:.0%} to {most:.0%}): 85% {holds}"
