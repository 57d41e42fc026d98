"""Runs every (table, seed, budget, variant) of an experiment once, and goes on where an earlier run stopped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from time import perf_counter

import numpy as np

from weft.encoding import Codec
from weft.errors import WeftError
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.privacy import Charge, Noise
from weft.privacy.mechanisms import Mechanisms
from weft.progress import Listener, ignore_event, report_stage
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.experiment import Experiment, Reckoned, Variant
from weft_lab.results import SECONDS, Cell, Row, Store
from weft_lab.tables import BenchTable
from weft_lab.tasks import TASKS, Made

RECKONED = "reckoned"
"""In place of a method's name, where there is none."""


@dataclass(frozen=True)
class Outcome:
    """What an experiment gave."""

    experiment: Experiment
    rows: list[Row]
    """One for each run and figure, of this call's runs, whether done now or before."""
    missing: list[str]
    """Lines left out because their method does not exist yet."""
    refused: list[str]
    """Lines that cannot be run on a table, with the reason."""


class ExactScores:
    """Mechanisms that hand out dependence scores without noise: the papers' baseline, NOT PRIVATE."""

    private = False

    def __init__(self, noise: Noise) -> None:
        self._mechanisms = Mechanisms(noise)

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Release everything but the scores with noise."""
        if charge.purpose == "dependence":
            return [answer.copy() for answer in exact]
        return self._mechanisms(charge, exact)


def run(
    experiment: Experiment,
    tables: Sequence[BenchTable],
    *,
    store: Store | None = None,
    seeds: int = 5,
    epsilons: Sequence[float] | None = None,
    delta: float | None = None,
    target: str | None = None,
    listener: Listener = ignore_event,
) -> Outcome:
    """Run an experiment on tables; a run that the store holds already is not run again.

    Noise is seeded, so a row of results can be had again, and variants of one seed share their noise as far as they
    ask the same questions: their difference is then clearer than the spread of either. `target` is the label of the
    tasks that predict one column (default: the last column).
    """
    store = store or Store()
    ready = experiment.ready()
    budgets = [(epsilon, experiment.delta if delta is None else delta) for epsilon in epsilons or experiment.epsilons]
    if ready.reckoned is not None:
        return _reckon(ready, ready.reckoned, tables, store, list(product(budgets, range(seeds))))
    planned: list[Cell] = []
    refused: dict[str, None] = {}
    total = len(tables) * seeds * len(budgets) * len(ready.variants)
    with report_stage(listener, "run", total) as work:
        for table in tables:
            label = target or table.records.domain.names[-1]
            if label not in table.records.domain:
                raise WeftError(f"{table.name} has no column {label!r} to predict. Check --target.")
            for seed in range(seeds):
                seen, test = table.split(seed, ready.folds) if ready.held_out else (table.copied(), None)
                for budget in budgets:
                    for line, variant in ready.variants.items():
                        cell = _cell(ready, table, line, variant, budget, seed, label)
                        planned.append(cell)
                        if not store.has(cell, ready.tasks):
                            try:
                                made = _run(cell, ready, seen, test, variant, label)
                            except WeftError as error:
                                refused[f"{line} on {table.name}: {error}"] = None
                            else:
                                store.add(made)
                        work.advance(note=f"{table.name}, epsilon {budget[0]:g}, {line}")
    return Outcome(ready, store.rows(planned), experiment.missing, list(refused))


def _reckon(
    experiment: Experiment,
    how: Reckoned,
    tables: Sequence[BenchTable],
    store: Store,
    runs: Sequence[tuple[tuple[float, float], int]],
) -> Outcome:
    """Reckon the lines of an experiment that fits nothing; where no row is looked at, once is enough."""
    planned: list[Cell] = []
    refused: dict[str, None] = {}
    given: list[tuple[str, Records | None]] = [(table.name, table.records) for table in tables]
    if how.anywhere:
        given, runs = [(how.anywhere, None)], runs[:1]
    for (name, records), ((epsilon, delta), seed) in product(given, runs):
        cells = [Cell(experiment.name, name, line, RECKONED, "{}", epsilon, delta, seed) for line in how.lines]
        planned += cells
        if all(store.has(cell, ()) for cell in cells):
            continue
        begin = perf_counter()
        try:
            found = how.figures(records, epsilon, delta, seed)
        except WeftError as error:
            refused[f"{name}: {error}"] = None
            continue
        for cell in cells:
            figures = [*found[cell.variant].items(), (SECONDS, perf_counter() - begin)]
            store.add([Row(**asdict(cell), task="", measure=measure, value=value) for measure, value in figures])
    return Outcome(experiment, store.rows(planned), [], list(refused))


def fit(table: BenchTable, variant: Variant, epsilon: float, delta: float, seed: int) -> Synthesizer:
    """Fit one variant with seeded noise; the schema may be a draft, for nothing is released."""
    synthesizer = Synthesizer(
        epsilon,
        delta,
        journal=None,  # an experiment on a public table
        method=variant.method,
        seed=seed,
        noise_seed=seed,
        trust_data_for_schema=True,
        **variant.settings(table.records),
    )
    release = ExactScores(Noise.seeded(seed)) if variant.exact_scores else None
    return synthesizer.fit(table.rows, table.schema, release=release)


def _cell(
    experiment: Experiment,
    table: BenchTable,
    line: str,
    variant: Variant,
    budget: tuple[float, float],
    seed: int,
    target: str,
) -> Cell:
    settings = variant.settings(table.records) | {"target": target}
    if variant.exact_scores:
        settings["exact_scores"] = True
    if variant.made != 1.0:
        settings["made"] = variant.made
    if experiment.folds is not None:
        settings["folds"] = experiment.folds
    return Cell(experiment.name, table.name, line, variant.method, json.dumps(settings, sort_keys=True), *budget, seed)


def _run(
    cell: Cell, experiment: Experiment, seen: BenchTable, test: Records | None, variant: Variant, target: str
) -> list[Row]:
    begin = perf_counter()
    fitted = fit(seen, variant, cell.epsilon, cell.delta, cell.seed)
    model = fitted.model_
    n = max(round(variant.made * model.total), 1)
    if model.domain.names == seen.records.domain.names:
        # Codes are compared with codes: decoding and encoding again would change nothing.
        synth = model.sample(n, np.random.default_rng(cell.seed))
    else:  # a plan of marginals has put columns together
        synth = Codec(seen.schema, seen.rows.schema).encode(fitted.sample(n, seed=cell.seed))
    seconds = perf_counter() - begin
    made = Made(seen.records, synth, test, model, target, cell.seed, seen.ordered)
    done = ",".join(experiment.tasks)
    figures = [(task, *figure) for task in experiment.tasks for figure in TASKS[task](made).items()]
    return [Row(**asdict(cell), task=t, measure=m, value=v) for t, m, v in (*figures, (done, SECONDS, seconds))]
