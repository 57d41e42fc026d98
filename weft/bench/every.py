"""All experiments of the papers, one after another, whole or in a short form; and one page of what they gave.

The short form is for looking whether everything runs and which way figures lie: some rows and columns of a table, one
run, the first and the last budget. Orderings need the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.bench.catalogue import EXPERIMENTS
from weft.bench.datasets import locate
from weft.bench.experiment import Experiment
from weft.bench.results import SECONDS, Spread, Store, summary
from weft.bench.runner import Outcome, run
from weft.bench.tables import BenchTable
from weft.bench.tasks import title
from weft.errors import DataError
from weft.progress import Listener, silence

TABLES = ("nltcs", "adult", "br2000", "acs")
"""Tables of the papers that are coded and ready."""


@dataclass(frozen=True)
class Form:
    """How much of an experiment is run."""

    rows: int | None = None
    columns: int | None = None
    seeds: int = 5
    tables: int | None = None
    """Of the tables at hand, so many."""
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
QUICK = Form(rows=2000, columns=8, seeds=1, tables=1, budgets=2)


def at_hand(form: Form, folder: str | Path | None = None) -> list[str]:
    """Return the names of the papers' tables that are here."""
    found = [name for name in TABLES if locate(name, folder) is not None]
    if not found:
        raise DataError(
            f"none of {', '.join(TABLES)} is here: name a table with --data, or set WEFT_DATA to the folder that has "
            "them; `weft bench data` lists them."
        )
    return found[: form.tables]


def every(
    tables: Sequence[BenchTable],
    folder: Path,
    form: Form,
    names: Iterable[str] = EXPERIMENTS,
    listener: Listener = silence,
) -> Iterator[Outcome]:
    """Run the experiments one after another; what the folder's files hold already is not run again."""
    for name in names:
        known = EXPERIMENTS[name]
        store = Store(folder / f"{name}.jsonl")
        yield run(known, tables, store=store, seeds=form.seeds, epsilons=form.epsilons(known), listener=listener)


def page(outcomes: Sequence[Outcome], figures: Mapping[str, Sequence[str]]) -> str:
    """Return all tables as one page in Markdown; `figures` has the file names of each experiment's drawings."""
    text = ["# The papers' experiments, run again", "", "Mean and standard deviation over runs.", ""]
    for outcome in outcomes:
        made = outcome.experiment
        text += [f"## {made.name}", "", f"{made.paper}: {made.about}.", ""]
        found = summary(outcome.rows)
        shown = dict.fromkeys((key[0], key[1]) for key in found if key[1] != SECONDS or not made.tasks)
        for table, measure in shown:
            cells = {(key[3], key[2]): spread for key, spread in found.items() if key[:2] == (table, measure)}
            text += [*_grid(f"{title(measure)}, {table}", cells), ""]
        text += [f"![{made.name}]({file})" for file in figures.get(made.name, ())]
        text += [f"Left out, not built yet: {', '.join(outcome.missing)}."] if outcome.missing else []
        text += [f"Left out: {reason}" for reason in outcome.refused]
        text += [""]
    return "\n".join(text)


def _grid(heading: str, cells: Mapping[tuple[str, float], Spread]) -> list[str]:
    """Return one table: a row for each line of the figure, a column for each budget."""
    lines, epsilons = (list(dict.fromkeys(key[i] for key in cells)) for i in range(2))
    rows = [f"| {line} | " + " | ".join(str(cells.get((line, e), "")) for e in epsilons) + " |" for line in lines]  # type: ignore[arg-type]
    head = f"| epsilon | {' | '.join(f'{e:g}' for e in epsilons)} |"
    return [f"**{heading}**", "", head, "|---" * (len(epsilons) + 1) + "|", *rows]
