"""Labels that are the parity of several columns: dependence that no smaller marginal shows, and whether it is learned.

The label is the parity of m of ten binary columns, with 5% of it flipped, beside five columns of noise. It is learned
if the label that most synthetic rows with the same m values have is that of more than 85% of fresh rows; the ceiling is
95%, and chance 50%.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from weft.marginals.counting import count_marginals
from weft.marginals.domain import Domain, make_clique
from weft.marginals.records import Records
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.fetch import as_table
from weft_lab.sheet import Sheet
from weft_lab.tables import BenchTable
from weft_lab.trial import trial
from weft_lab.weave_parts import schema_of

ORDERS = (2, 3, 4, 5, 6)
EPSILONS = (0.2, 1.0, 4.0)
LEARNED = 0.85
"""Accuracy above which a parity is learned."""
FRESH = 99
"""Seed of the rows on which accuracy is measured, beyond any number of runs."""


def parity_table(
    m: int, n: int = 20_000, seed: int = 0, columns: int = 10, others: int = 5, flips: float = 0.05
) -> Records:
    """Make binary columns, columns of noise, and a label that is the parity of the first m columns."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (columns + others, n))
    label = bits[:m].sum(axis=0) % 2 ^ (rng.random(n) < flips)
    names = [f"x{i}" for i in range(columns)] + [f"z{i}" for i in range(others)] + ["y"]
    return Records.of(Domain(tuple(names), (2,) * len(names)), [*bits, label])


def accuracy(made: Records, m: int) -> float:
    """Return how often the label of fresh rows is that of most made rows with the same m values."""
    columns = make_clique(f"x{i}" for i in range(m))
    counts = np.asarray(count_marginals(made, [(*columns, "y")])[0])
    fresh = parity_table(m, seed=FRESH)
    places = tuple(fresh.column(name) for name in columns)
    return float((counts.argmax(axis=-1)[places] == fresh.column("y")).mean())


def parities(
    methods: Sequence[str], epsilons: Sequence[float], runs: int, listener: Listener = ignore_event
) -> Iterator[Sheet]:
    """Run each method on parities of two to six columns; every run has rows of its own."""
    rows = []
    with report_stage(listener, "run", len(methods) * len(epsilons) * len(ORDERS) * runs) as work:
        for method in methods:
            for epsilon in epsilons:
                for m in ORDERS:
                    found, seconds = [], 0.0
                    for seed in range(runs):
                        records = parity_table(m, seed=seed)
                        table = BenchTable.of(f"parity_{m}_{seed}", as_table(records), schema_of(records))
                        made = trial(table, method, epsilon)
                        found.append(accuracy(made.synth, m))
                        seconds += made.seconds / runs
                        work.advance(note=f"{method}, epsilon {epsilon:g}, {m} columns")
                    learned = sum(each > LEARNED for each in found)
                    spread = f"{np.mean(found):.3f} ({min(found):.3f} to {max(found):.3f})"
                    rows.append([method, f"{epsilon:g}", f"{m}", f"{learned} of {runs}", spread, f"{seconds:.1f}"])
    heads = ("method", "epsilon", "columns", "learned", "accuracy", "seconds")
    yield Sheet("Label = parity of columns, 20,000 rows, 16 columns, 5% flips", heads, rows)
