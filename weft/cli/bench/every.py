"""`weft bench all`: every experiment of the papers, one after another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as o
from weft.cli.bench import listing, papers
from weft.cli.failure import guard
from weft.cli.options import UsageError
from weft.cli.sets import spread
from weft.progress import stage
from weft.words import counted

if TYPE_CHECKING:
    from weft.bench import Outcome

Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        metavar="",
        help="A short form: one table, 2,000 rows, 8 columns, one run, two budgets.",
        rich_help_panel=papers.WHAT,
    ),
]
Names = Annotated[
    str | None, typer.Option("--only", metavar="A,B", help="Some experiments only.", rich_help_panel=papers.WHAT)
]
Seeds = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Runs of each. Default: 5.", rich_help_panel=papers.WHAT)
]


@spread
def every(
    quick: Quick = False,
    data: papers.Data = None,
    only: Names = None,
    seeds: Seeds = None,
    rows: papers.Rows = None,
    columns: papers.Columns = None,
    data_folder: listing.DataFolder = None,
    output: papers.Folder = "bench",
    *,
    screen: o.Screen,
) -> None:
    """Run all experiments of the papers, on their tables that are at hand or any others, and write one page of them.

    Interrupted runs go on where they stopped. The page is FOLDER/all.md.

    \b
    [bold]Examples[/bold]
      weft bench all --quick
      weft bench all --data adult.parquet --only privsyn-figure4,privmrf-figure4
    """
    terminal = screen.terminal()
    with guard(terminal):
        outcomes: list[Outcome] = []
        figures: dict[str, list[str]] = {}
        with terminal.progress() as listener:
            with stage(listener, "load"):
                from dataclasses import replace

                from weft.bench import EXPERIMENTS, experiment, open_table
                from weft.bench.every import QUICK, WHOLE, at_hand, page
                from weft.bench.every import every as run_all

                form = QUICK if quick else WHOLE
                given = {"rows": rows, "columns": columns, "seeds": seeds}
                form = replace(form, **{name: value for name, value in given.items() if value is not None})
                names = list(EXPERIMENTS) if only is None else [experiment(name).name for name in listing.words(only)]
                if not names:
                    raise UsageError("--only names no experiment. See weft bench --list.")
                sources = [part for one in data for part in one.split(",")] if data else at_hand(form, data_folder)
                folder = papers.folder_of(Path(output))
                tables = [
                    open_table(one, None, rows=form.rows, columns=form.columns, folder=data_folder) for one in sources
                ]
            for outcome in run_all(tables, folder, form, names, listener):
                outcomes.append(outcome)
                drawn = papers.written(outcome, folder)[1]
                figures[outcome.experiment.name] = [path.name for path in drawn if path.suffix == ".svg"]
                # After each experiment: an interrupted run leaves the page of those that are done.
                (folder / "all.md").write_text(page(outcomes, figures), encoding="utf-8")
        _tell(outcomes, folder / "all.md", screen)


def _tell(outcomes: list[Outcome], page: Path, screen: o.Screen) -> None:
    from weft.cli import summary

    terminal = screen.terminal()
    terminal.answer({"experiments": [made.experiment.name for made in outcomes], "page": str(page)})
    terminal.show(summary.note("Computed from real rows: PRIVATE, unless the tables are public."))
    terminal.show(*summary.files({page: f"tables and figures of {counted(len(outcomes), 'experiment')}"}))
    for reason in dict.fromkeys(reason for made in outcomes for reason in made.refused):
        terminal.warn(f"left out: {reason}")
