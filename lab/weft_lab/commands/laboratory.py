"""The commands of the laboratory: what Weft measures of itself, beside targets, references and other software."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weft.cli import shared_options as o
from weft.cli.shared_options import flatten_options
from weft.progress import report_stage
from weft_lab.commands.listing import WHAT, Lab, numbers, words

if TYPE_CHECKING:
    from weft.progress import Listener
    from weft_lab.sheet import Sheet
    from weft_lab.tables import BenchTable

Tables = Annotated[
    str | None, typer.Option(metavar="A,B", help="Tables by name or file. Default: its own.", rich_help_panel=WHAT)
]
Epsilons = Annotated[str | None, typer.Option(metavar="E,F", help="Budgets. Default: its own.", rich_help_panel=WHAT)]
Seeds = Annotated[
    int, typer.Option("--seeds", "--runs", min=1, metavar="N", help="Runs of each.", rich_help_panel=WHAT)
]
Part = Literal["targets", "large", "wide", "floor", "stress", "monotone", "equal-rho", "public", "all"]


def _open(names: str | None, default: tuple[str, ...], folder: str | None) -> list[BenchTable]:
    from weft_lab.tables import open_table

    return [open_table(name, folder=folder) for name in (default if names is None else words(names))]


@flatten_options
def weave(
    part: Annotated[
        Part, typer.Option(help="The tables of the README, or one of the others.", rich_help_panel=WHAT)
    ] = "targets",
    tables: Tables = None,
    epsilons: Annotated[
        str | None,
        typer.Option("--epsilons", "--epsilon", metavar="E,F", help="Budgets. Default: its own.", rich_help_panel=WHAT),
    ] = None,
    seeds: Seeds = 5,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="Another method in its place.", rich_help_panel=WHAT)
    ] = "weave",
    everything: Annotated[
        bool, typer.Option("--all", metavar="", help="Also where no target is set.", rich_help_panel=WHAT)
    ] = False,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the first table as SVG.", rich_help_panel=o.OUTPUT)
    ] = None,
    *,
    lab: Lab,
) -> None:
    """Weave beside its targets and the best other software, on coded, large, wide and awkward tables."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft.errors import OutputError
        from weft_lab.tables import open_table
        from weft_lab.weave import EPSILONS, TABLES, Comparison
        from weft_lab.weave_parts import PARTS

        if part in ("targets", "all"):
            compared = Comparison(
                _open(tables, TABLES, lab.data_folder),
                EPSILONS if epsilons is None else numbers(epsilons),
                seeds,
                method,
                everything,
            )
            yield from compared.sheets(listener)
            if figure is not None:
                try:
                    figure.write_text(compared.figure(), encoding="utf-8")
                except OSError as error:
                    raise OutputError(f"cannot write {figure}: {error.strerror}. Choose another file.") from None
        for name, run in PARTS.items():
            if part in (name, "all"):
                with report_stage(listener, name):
                    yield from run(lambda source: open_table(source, folder=lab.data_folder))

    lab.tell("weave", made)


@flatten_options
def accuracy(
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="Any methods. Default: privsyn,independent.", rich_help_panel=WHAT)
    ] = None,
    tables: Tables = None,
    epsilons: Epsilons = None,
    seeds: Seeds = 5,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the methods.", rich_help_panel=WHAT)
    ] = None,
    svm: Annotated[
        bool,
        typer.Option("--svm", metavar="", help="Also train classifiers (needs weft[evaluate]).", rich_help_panel=WHAT),
    ] = False,
    *,
    lab: Lab,
) -> None:
    """Any methods on coded tables, beside the figures of other software."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab import accuracy as experiment

        return experiment.accuracy(
            _open(tables, experiment.TABLES, lab.data_folder),
            experiment.METHODS if methods is None else words(methods),
            experiment.EPSILONS if epsilons is None else numbers(epsilons),
            seeds,
            options=o.parse_options(option),
            svm=svm,
            listener=listener,
        )

    lab.tell("accuracy", made)


@flatten_options
def ablations(
    tables: Tables = None,
    seeds: Seeds = 3,
    only: Annotated[
        Literal["models", "parts"] | None, typer.Option(help="One of the two comparisons.", rich_help_panel=WHAT)
    ] = None,
    *,
    lab: Lab,
) -> None:
    """What each part of weave is worth: models of the same tables, and weave with one setting changed."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab import ablations as experiment

        return experiment.ablations(_open(tables, experiment.TABLES, lab.data_folder), only, seeds, listener)

    lab.tell("ablations", made)


@flatten_options
def structure(
    tables: Tables = None,
    epsilons: Epsilons = None,
    seeds: Seeds = 1,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="Another method in its place.", rich_help_panel=WHAT)
    ] = "weave",
    *,
    lab: Lab,
) -> None:
    """Raw tables with reviewed schemas: shapes of numbers and dates, rules and slopes, before and after."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab.structure import EPSILONS, TABLES, Structure

        return Structure(
            TABLES if tables is None else words(tables),
            EPSILONS if epsilons is None else numbers(epsilons),
            seeds,
            method,
            lab.data_folder,
        ).sheets(listener)

    lab.tell("structure", made)


@flatten_options
def raw(
    tables: Tables = None,
    epsilon: Annotated[float, typer.Option(help="The budget.", rich_help_panel=WHAT)] = 1.0,
    seeds: Seeds = 3,
    rows_per_unit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Contribution bound.", rich_help_panel=WHAT)
    ] = None,
    *,
    lab: Lab,
) -> None:
    """Raw exports without a schema, file to file: time, memory, and what is wrong on the values as they are."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab.raw import TABLES, Raw

        bound = [] if rows_per_unit is None else ["--rows-per-unit", str(rows_per_unit)]
        names = TABLES if tables is None else words(tables)
        return Raw(names, epsilon, lab.data_folder, seeds, bound).sheets(listener)

    lab.tell("raw", made)


@flatten_options
def related(
    epsilon: Annotated[float, typer.Option(help="The budget.", rich_help_panel=WHAT)] = 1.0,
    seeds: Seeds = 1,
    *,
    lab: Lab,
) -> None:
    """Related tables: families, keys and rules of three public databases, in the folder that --data-folder names."""

    def made(_: Listener) -> Iterator[Sheet]:
        from weft_lab.related import related_sheets

        return related_sheets(lab.data_folder, epsilon, seeds)

    lab.tell("related", made)


@flatten_options
def histories(
    epsilon: Annotated[list[float], typer.Option(help="A budget. Repeat it.", rich_help_panel=WHAT)] = [1.0, 4.0],  # noqa: B006
    seeds: Seeds = 1,
    *,
    lab: Lab,
) -> None:
    """Histories: transitions and constants of a generated panel, and of rand_hie in the folder --data-folder names."""

    def made(_: Listener) -> Iterator[Sheet]:
        from weft_lab.histories import history_sheets

        return history_sheets(lab.data_folder, epsilon, seeds)

    lab.tell("histories", made)


@flatten_options
def coverage(
    tables: Tables = None,
    epsilons: Epsilons = None,
    seeds: Seeds = 6,
    rows: Annotated[
        int, typer.Option(min=100, metavar="N", help="Rows of each private table.", rich_help_panel=WHAT)
    ] = 8_000,
    replicates: Annotated[
        int, typer.Option(min=5, metavar="N", help="Replicates of each release.", rich_help_panel=WHAT)
    ] = 20,
    choose: Annotated[
        bool, typer.Option("--choose", metavar="", help="On the tables that settings are chosen on.")
    ] = False,
    keep: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep all values (.npz).", rich_help_panel=o.OUTPUT)
    ] = None,
    *,
    lab: Lab,
) -> None:
    """Coverage of intervals from replicates, beside naive intervals of the same releases."""

    def made(_: Listener) -> Iterator[Sheet]:
        from weft_lab import coverage as study

        named = (study.CHOSEN_ON if choose else study.REPORTED_ON) if tables is None else words(tables)
        size = study.Size(rows, seeds, replicates)
        yield study.coverage_sheet(named, (1.0, 0.5, 4.0) if epsilons is None else numbers(epsilons), size, keep=keep)

    lab.tell("coverage", made)


@flatten_options
def orderings(
    tables: Tables = None,
    seeds: Seeds = 5,
    rows: Annotated[
        int, typer.Option(min=0, metavar="N", help="Cut larger tables to so many rows; 0: never.", rich_help_panel=WHAT)
    ] = 100_000,
    epsilon: Annotated[float, typer.Option(help="The budget.", rich_help_panel=WHAT)] = 2.0,
    delta: Annotated[float, typer.Option(help="The budget.", rich_help_panel=WHAT)] = 1e-10,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON lines to keep runs in, and to go on from.", rich_help_panel=o.OUTPUT),
    ] = None,
    *,
    lab: Lab,
) -> None:
    """The orderings of PrivSyn's figures 5 to 7, each judged over runs."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab import orderings as experiment
        from weft_lab.results import Store
        from weft_lab.tables import open_table

        opened = [
            open_table(name, rows=rows or None, columns=experiment.FIRST_COLUMNS.get(name), folder=lab.data_folder)
            for name in (experiment.TABLES if tables is None else words(tables))
        ]
        return experiment.orderings(opened, seeds, epsilon, delta, store=Store(keep), listener=listener)

    lab.tell("orderings", made)


@flatten_options
def bsg_paper(
    models: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="bsg, and methods behind the test: privbayes, aim.", rich_help_panel=WHAT),
    ] = None,
    epsilons: Epsilons = None,
    seeds: Seeds = 1,
    cap: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Rows to train a classifier on (the paper: 100,000).", rich_help_panel=WHAT
        ),
    ] = 10_000,
    *,
    lab: Lab,
) -> None:
    """Tables 3 to 5 and figure 6 of the plausible-deniability paper, on the ACS of 2018, beside its figures."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab import bsg_paper as experiment

        return experiment.bsg_paper(
            experiment.load(lab.data_folder),
            experiment.MODELS if models is None else words(models),
            experiment.EPSILONS if epsilons is None else numbers(epsilons),
            seeds,
            cap=cap,
            listener=listener,
        )

    lab.tell("bsg-paper", made)


@flatten_options
def plan(
    tables: Tables = None,
    epsilons: Epsilons = None,
    seeds: Seeds = 3,
    method: Annotated[str, typer.Option(metavar="NAME", help="Another method.", rich_help_panel=WHAT)] = "weave",
    *,
    lab: Lab,
) -> None:
    """What `weft plan` foretells of columns, beside what is measured on real tables."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab import plan as experiment

        return experiment.plans(
            experiment.TABLES if tables is None else words(tables),
            experiment.EPSILONS if epsilons is None else numbers(epsilons),
            seeds,
            method,
            folder=lab.data_folder,
            listener=listener,
        )

    lab.tell("plan", made)


@flatten_options
def timings(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Some of them. Default: all.")] = None,
    large: Annotated[
        bool, typer.Option("--large", metavar="", help="Also the sizes that take minutes.", rich_help_panel=WHAT)
    ] = False,
    *,
    lab: Lab,
) -> None:
    """Speed and memory, each beside its target or a reference in the same run."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab.timings import timings as measured

        return measured(names or (), large=large, folder=lab.data_folder, listener=listener)

    lab.tell("timings", made, note="")
