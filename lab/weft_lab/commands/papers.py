"""`weft bench EXPERIMENT`: the papers' experiments, run again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.shared_options import UsageError, flatten_options
from weft.cli.terminal import Terminal
from weft.errors import OutputError
from weft.progress import report_stage
from weft_lab.commands import listing

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft_lab.charts import Spread
    from weft_lab.experiment import Experiment
    from weft_lab.results import Key
    from weft_lab.runner import Outcome
    from weft_lab.verdicts import Judged

WHAT = listing.WHAT


Name = Annotated[
    str | None, typer.Argument(metavar="EXPERIMENT", help="A published figure or table; --list shows them.")
]
Listed = Annotated[bool, typer.Option("--list", metavar="", help="List the experiments and leave.")]
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="TABLE",
        help="A CSV or Parquet file, or a name that `weft bench data` shows; several with commas.",
        rich_help_panel=WHAT,
    ),
]
SchemaFile = Annotated[
    str | None,
    typer.Option(
        "--schema",
        "-s",
        metavar="FILE",
        help="TOML, or domain JSON. Default: TABLE.domain.json or TABLE.toml beside it, else a draft.",
        rich_help_panel=WHAT,
    ),
]
Lines = Annotated[
    str | None,
    typer.Option(
        metavar="A,B", help="Lines of the experiment, or any methods. Default: its own.", rich_help_panel=WHAT
    ),
]
Epsilons = Annotated[
    str | None, typer.Option(metavar="E,F", help="Budgets. Default: the paper's.", rich_help_panel=WHAT)
]
Delta = Annotated[float | None, typer.Option(help="Default: of the paper's size.", rich_help_panel=WHAT)]
Tasks = Annotated[
    str | None, typer.Option(metavar="A,B", help="Some of the experiment's tasks only.", rich_help_panel=WHAT)
]
Target = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The label to predict. Default: the last column.", rich_help_panel=WHAT),
]
Seeds = Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each.", rich_help_panel=WHAT)]
Rows = Annotated[int | None, typer.Option(min=1, metavar="N", help="So many rows, at random.", rich_help_panel=WHAT)]
Columns = Annotated[int | None, typer.Option(min=1, metavar="N", help="The first columns only.", rich_help_panel=WHAT)]
Folder = Annotated[
    str, typer.Option("--output", "-o", metavar="FOLDER", help="Where results go.", rich_help_panel=o.OUTPUT)
]


@flatten_options
def experiment(
    context: typer.Context,
    name: Name = None,
    listed: Listed = False,
    data: Data = None,
    schema: SchemaFile = None,
    methods: Lines = None,
    epsilons: Epsilons = None,
    delta: Delta = None,
    tasks: Tasks = None,
    target: Target = None,
    seeds: Seeds = 5,
    rows: Rows = None,
    columns: Columns = None,
    data_folder: listing.DataFolder = None,
    output: Folder = "bench",
    *,
    screen: o.Screen,
) -> None:
    """Run a published experiment again, on any table, and draw its figure.

    Results go to FOLDER as JSON lines, Parquet and SVG. Interrupted runs go on where
    they stopped. They are computed from real rows: PRIVATE, unless the table is public.

    \b
    [bold]Examples[/bold]
      weft bench --list
      weft bench privsyn-figure6 --data adult.parquet
      weft bench privsyn-figure6 --data adult.parquet --epsilons 0.5,2 --seeds 3
      weft bench privmrf-figure4 --data stays.csv -s stays.toml --methods privmrf,mst
    """
    terminal = screen.terminal()
    with guard_command(terminal):
        if listed:
            listing.show(terminal, context)
            return
        if name is None or not (data or _anywhere(name)):
            raise UsageError("say which experiment and on what: weft bench privsyn-figure6 --data TABLE. See --list.")
        with terminal.progress() as listener:
            with report_stage(listener, "load"):
                from weft_lab.catalogue import experiment as named
                from weft_lab.results import Store
                from weft_lab.runner import run
                from weft_lab.tables import open_table

                chosen = _choose(named(name), methods, tasks)
                budgets = None if epsilons is None else listing.numbers(epsilons)
                sources = _sources(data or [], schema)
                folder = folder_of(Path(output))
                tables = [open_table(one, schema, rows=rows, columns=columns, folder=data_folder) for one in sources]
            outcome = run(
                chosen,
                tables,
                store=Store(folder / f"{name}.jsonl"),
                seeds=seeds,
                epsilons=budgets,
                delta=delta,
                target=target,
                listener=listener,
            )
        _tell(terminal, outcome, *written(outcome, folder))


def written(outcome: Outcome, folder: Path) -> tuple[dict[Key, Spread], dict[Path, str]]:
    """Write what was found, and draw it; return the figures, and what each file is."""
    from weft_lab.experiment import slug
    from weft_lab.figure import figure
    from weft_lab.results import summary, write_parquet

    name, spreads, files = outcome.experiment.name, summary(outcome.rows), dict[Path, str]()
    if outcome.rows:
        files[folder / f"{name}.jsonl"] = "every run of this folder, to go on from"
        files[folder / f"{name}.parquet"] = "the runs shown here"
        write_parquet(outcome.rows, folder / f"{name}.parquet")
    for table in dict.fromkeys(key[0] for key in spreads):
        drawn = folder / f"{name}-{slug(table)}.svg"
        drawn.write_text(figure(spreads, table, f"{outcome.experiment.paper}: {table}"), encoding="utf-8")
        files[drawn] = "the figure"
    return spreads, files


def _anywhere(name: str) -> bool:
    """Whether an experiment looks at no rows at all."""
    from weft_lab.catalogue import EXPERIMENTS

    known = EXPERIMENTS.get(name)
    return known is not None and known.reckoned is not None and bool(known.reckoned.anywhere)


def _sources(data: list[str], schema: str | None) -> list[str]:
    sources = [part for given in data for part in given.split(",")]
    if schema is not None and len(sources) > 1:
        raise UsageError("--schema goes with one table: put the others' schemas beside them.")
    return sources


def _choose(found: Experiment, methods: str | None, tasks: str | None) -> Experiment:
    from dataclasses import replace

    if methods is not None:
        found = found.with_methods(methods.split(","))
    if tasks is not None:
        wanted = tuple(tasks.split(","))
        unknown = [task for task in wanted if task not in found.tasks]
        if unknown:
            raise UsageError(f"--tasks {unknown[0]}: {found.name} has {', '.join(found.tasks)}.")
        found = replace(found, tasks=wanted)
    return found


def folder_of(folder: Path) -> Path:
    """Return a folder for results, made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write in {folder}: {error.strerror}. Choose another folder.") from None
    return folder


def _tell(terminal: Terminal, outcome: Outcome, spreads: dict[Key, Spread], files: dict[Path, str]) -> None:
    from dataclasses import asdict

    from weft.cli import summary
    from weft_lab.beside import judged, printed
    from weft_lab.verdicts import HOW

    judgement = judged(outcome)
    terminal.answer(
        {
            "experiment": outcome.experiment.name,
            "results": [
                dict(zip(("table", "measure", "epsilon", "line"), key, strict=True)) | asdict(spread)
                for key, spread in spreads.items()
            ],
            "orderings": [] if judgement is None else [_cell(cell) for cell in judgement.counted],
            "missing": outcome.missing,
            "refused": outcome.refused,
            "files": [str(path) for path in files],
        }
    )
    for table in dict.fromkeys(key[0] for key in spreads):
        terminal.show(summary.render_headline(f"{outcome.experiment.paper}, on {table}"))
        for made in _tables({key[1:]: found for key, found in spreads.items() if key[0] == table}):
            terminal.show(made)
    for sheet in (*printed(outcome), *(judgement.sheets() if judgement is not None else ())):
        listing.show_sheet(terminal, sheet)
    if judgement is not None and judgement.counted:
        terminal.show(summary.render_note(HOW))
    for reason in judgement.paper.missing if judgement is not None else ():
        terminal.show(summary.render_note(f"Not run: {reason}"))
    if spreads:
        terminal.show(summary.render_note("Computed from real rows: PRIVATE, unless the table is public."))
    terminal.show(*summary.render_files(files))
    if outcome.missing:
        terminal.warn(f"left out, for their methods are not there yet: {', '.join(outcome.missing)}")
    for reason in outcome.refused:
        terminal.warn(f"left out: {reason}")


def _cell(cell: Judged) -> dict[str, Any]:
    return {
        "where": cell.claim.where,
        "table": cell.table,
        "epsilon": cell.epsilon,
        "measure": cell.measure,
        "lines": cell.pair,
        "ours": cell.ours,
        "verdict": cell.verdict,
    }


def _tables(spreads: dict[tuple[str, float, str], Spread]) -> list[RenderableType]:
    """One table a measure, with a column for each budget; or, for a single budget, one with a row for each measure."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from weft_lab.tasks import REFERENCES, title

    measures, epsilons, lines = (list(dict.fromkeys(key[i] for key in spreads)) for i in range(3))

    def grid(heading: str, corner: str, down: dict[str, list[str]], across: list[str]) -> RenderableType:
        table = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column(corner, no_wrap=True)
        for name in across:
            table.add_column(escape(name), justify="right")
        for name, cells in down.items():
            table.add_row(escape(name), *cells)
        return table

    def cell(measure: Any, epsilon: Any, line: Any) -> str:
        return str(spreads.get((measure, epsilon, line), ""))

    if len(epsilons) == 1:
        down = {title(str(m)): [cell(m, epsilons[0], line) for line in lines] for m in measures}
        return [grid(f"epsilon {epsilons[0]:g}, mean ± sd over runs", "", down, [str(line) for line in lines])]
    made = []
    for measure in (m for m in measures if not str(m).endswith(tuple(REFERENCES))):
        down = {str(line): [cell(measure, e, line) for e in epsilons] for line in lines}
        for ending, meaning in REFERENCES.items():
            if f"{measure}{ending}" in measures:  # no line changes it
                down[meaning] = [cell(f"{measure}{ending}", e, lines[0]) for e in epsilons]
        heading = f"\n{title(str(measure))}, mean ± sd over runs"
        made.append(grid(heading, "epsilon", down, [f"{e:g}" for e in epsilons]))
    return made
