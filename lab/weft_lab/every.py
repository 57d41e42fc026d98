"""All experiments of the papers, one after another, whole or in a short form, each on its paper's own tables.

The short form is for a first look: few rows and columns, three runs, the first and the last budget. What runs
cannot tell apart needs the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from weft.errors import DataError
from weft.progress import Listener, ignore_event
from weft_lab import acs
from weft_lab.catalogue import EXPERIMENTS
from weft_lab.claims import papers
from weft_lab.datasets import locate
from weft_lab.experiment import Experiment
from weft_lab.results import Store
from weft_lab.runner import Outcome, run
from weft_lab.tables import BenchTable, open_table

TABLES = ("nltcs", "adult", "br2000", "acs")
"""Tables of the papers that are coded and ready: for experiments of our own."""


@dataclass(frozen=True)
class Form:
    """How much of an experiment is run."""

    rows: int | None = None
    columns: int | None = None
    seeds: int = 5
    budgets: int | None = None
    """Of the budgets of an experiment, so many: the first and last, and others between."""

    def epsilons(self, experiment: Experiment) -> Sequence[float]:
        """Return the budgets that are run.

        >>> Form(budgets=2).epsilons(EXPERIMENTS["privsyn-figure6"])
        [0.2, 2.0]
        """
        known = experiment.epsilons
        if self.budgets is None or self.budgets >= len(known):
            return known
        return [known[round(i * (len(known) - 1) / max(self.budgets - 1, 1))] for i in range(self.budgets)]


WHOLE = Form()
QUICK = Form(rows=2_000, columns=12, seeds=3, budgets=2)
REUSED: Mapping[str, str] = {"privmrf-figure6": "privmrf-figure4"}
"""Experiments that only need seconds, and which other one has run the same line."""


def tables_of(name: str, folder: str | Path | None = None) -> list[str]:
    """Return the names of the tables that an experiment's paper used, or that come nearest, as far as they are here."""
    wanted = papers()[name].tables if name in papers() else TABLES
    there = [one for one in wanted if locate(acs.SOURCE if one in acs.CODED else one, folder) is not None]
    copies = papers()[name].copies if name in papers() else {}
    return [*there, *(f"{one} x{copies[one]}" for one in there if one in copies)]


def at_hand(names: Iterable[str], folder: str | Path | None = None) -> dict[str, list[str]]:
    """Return the tables of each experiment; refuse to begin if there is none for any that needs one."""
    found = {name: tables_of(name, folder) for name in names}
    needing = [name for name in found if not _anywhere(EXPERIMENTS[name])]
    if needing and not any(found[name] for name in needing):
        raise DataError(
            f"none of {', '.join(TABLES)} is here: name a table with --data, or set WEFT_DATA to the folder that has "
            "them; `weft bench data` lists them."
        )
    return found


def _anywhere(experiment: Experiment) -> bool:
    return experiment.reckoned is not None and bool(experiment.reckoned.anywhere)


def every(
    sources: Mapping[str, Sequence[str]],
    folder: Path,
    form: Form,
    data_folder: str | None = None,
    listener: Listener = ignore_event,
) -> Iterator[Outcome]:
    """Run the experiments one after another, each on its tables; what the folder's files hold is not run again."""
    opened: dict[str, BenchTable] = {}
    for name, tables in sources.items():
        for one in tables:
            if one not in opened:
                opened[one] = open_table(one, rows=form.rows, columns=form.columns, folder=data_folder)
        known = EXPERIMENTS[name]
        store = Store(folder / f"{name}.jsonl")
        if name in REUSED:
            _take(store, known, folder / f"{REUSED[name]}.jsonl")
        chosen, epsilons = [opened[one] for one in tables], form.epsilons(known)
        yield run(known, chosen, store=store, seeds=form.seeds, epsilons=epsilons, listener=listener)


def kept(names: Iterable[str], folder: Path) -> Iterator[Outcome]:
    """Return what a folder holds of each experiment, from whatever calls; nothing is run."""
    for name in names:
        known = EXPERIMENTS[name].ready()
        store = Store(folder / f"{name}.jsonl")
        if name in REUSED:
            _take(store, known, folder / f"{REUSED[name]}.jsonl", keep=False)
        # Of a run that was made again with other options, the later counts.
        last = {(c.table, c.variant, c.epsilon, c.seed): c for c, _ in store.items() if c.variant in known.lines}
        order = {line: i for i, line in enumerate(known.lines)}
        cells = sorted(last.values(), key=lambda c: (c.table, c.epsilon, c.seed, order[c.variant]))
        if cells:
            yield Outcome(known, store.rows(cells), [], [])


def _take(store: Store, experiment: Experiment, path: Path, *, keep: bool = True) -> None:
    """Take the time of runs that another experiment has done with the same line on the same table."""
    if not path.exists():
        return
    for cell, rows in Store(path).items():
        own = replace(cell, experiment=experiment.name)
        if cell.variant in experiment.variants and not store.has(own, ()):
            store.add([replace(rows[-1], experiment=experiment.name, task="")], keep=keep)
