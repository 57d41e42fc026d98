"""Accuracy of any methods on coded tables, beside the figures of other software.

Every run is what a user would get: real noise, table to table, delta 1e-5. Errors are mean total variation distances of
all 1- and 2-way and 300 fixed 3-, 4- and 5-way marginals, with their standard deviation over runs. Rivals' rows come
from rivals.toml: one run each. `pgm` is given no marginals here and takes each column with the next: a lower bound on
what named ones would do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, pstdev
from typing import Any

from weft.progress import Listener, ignore_event, report_stage
from weft_lab.rivals import RivalRun, rivals
from weft_lab.scorecard import scorecard
from weft_lab.sheet import Sheet
from weft_lab.tables import BenchTable
from weft_lab.trial import trial

TABLES = ("nltcs", "acs", "adult", "br2000")
METHODS = ("privsyn", "independent")
EPSILONS = (0.2, 0.8, 3.2)
MEASURES = ("tvd_1", "tvd_2", "tvd_3", "tvd_4", "tvd_5", "range_err")
SVM = "svm_misclass"


def accuracy(
    tables: Sequence[BenchTable],
    methods: Sequence[str] = METHODS,
    epsilons: Sequence[float] = EPSILONS,
    runs: int = 5,
    *,
    options: Mapping[str, Any] | None = None,
    svm: bool = False,
    listener: Listener = ignore_event,
) -> Iterator[Sheet]:
    """Yield one sheet for each table and budget."""
    measures = (*MEASURES, SVM) if svm else MEASURES
    with report_stage(listener, "run", len(tables) * len(epsilons) * len(methods) * runs) as work:
        for table in tables:
            for epsilon in epsilons:
                rows = []
                for method in methods:
                    made = []
                    for _ in range(runs):
                        made.append(_scored(table, method, epsilon, options or {}, svm))
                        work.advance(note=f"{table.name}, epsilon {epsilon:g}, {method}")
                    rows.append([method, *_summary(made, measures)])
                rows += [_rival(run, svm) for run in rivals(table.name, epsilon)]
                title = f"{table.name}, epsilon {epsilon:g}, {runs} runs, mean ± sd"
                yield Sheet(title, ("method", *measures, "seconds"), rows)


def _scored(table: BenchTable, method: str, epsilon: float, options: Mapping[str, Any], svm: bool) -> dict[str, float]:
    made = trial(table, method, epsilon, options)
    return scorecard(table.records, made.synth, svm=svm) | {"seconds": made.seconds}


def _summary(made: Sequence[Mapping[str, float]], measures: Sequence[str]) -> list[str]:
    """Return mean and spread of each figure over runs."""

    def shown(key: str) -> str:
        values = [run[key] for run in made if key in run]
        if not values:
            return ""
        return f"{mean(values):.4f}" + (f" ±{pstdev(values):.4f}" if len(values) > 1 else "")

    return [*(shown(measure) for measure in measures), f"{mean(run['seconds'] for run in made):.1f}"]


def _rival(run: RivalRun, svm: bool) -> list[str]:
    figures = [*(run.error(order) for order in range(1, 6)), run.range_error, *([run.svm] if svm else [])]
    taken = run.seconds if run.seconds is not None else run.cpu_seconds
    shown = ["" if figure is None else f"{figure:.4f}" for figure in figures]
    return [f"rival {run.label}", *shown, "" if taken is None else f"{taken:.1f}"]
