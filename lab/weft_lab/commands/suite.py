"""Weave on many kinds of tables, in a half for choosing settings and a half for reporting; and what rows can teach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weft.cli.shared_options import flatten_options
from weft_lab.commands.laboratory import Seeds, Tables
from weft_lab.commands.listing import WHAT, Lab, numbers, words

if TYPE_CHECKING:
    from weft.progress import Listener
    from weft_lab.sheet import Sheet


@flatten_options
def weave_suite(
    half: Annotated[
        Literal["both", "chosen", "reported"],
        typer.Option(help="Settings are chosen on one half; the other is only reported.", rich_help_panel=WHAT),
    ] = "both",
    ablation: Annotated[
        bool, typer.Option("--ablation", metavar="", help="Change one setting at a time instead.", rich_help_panel=WHAT)
    ] = False,
    frontier: Annotated[
        bool,
        typer.Option(
            "--frontier", metavar="", help="Errors of columns against those of triples instead.", rich_help_panel=WHAT
        ),
    ] = False,
    seeds: Annotated[
        int, typer.Option("--seeds", "--runs", min=1, metavar="N", help="Runs of each.", rich_help_panel=WHAT)
    ] = 3,
    tables: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The first tables of each half only.", rich_help_panel=WHAT)
    ] = None,
    *,
    lab: Lab,
) -> None:
    """Weave beside our other methods on 24 tables of many kinds, and what each of its settings is worth."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab.settings import WEAVE_FRONTIER, WEAVE_SUITE
        from weft_lab.suite import HALVES, Suite, results
        from weft_lab.suite import ablation as changed

        suites = [Suite(each, lab.data_folder, tables) for each in HALVES if half in ("both", each)]
        if ablation:
            yield changed(suites, seeds, WEAVE_SUITE, listener)
        if frontier:
            yield changed(suites, seeds, WEAVE_FRONTIER, listener)
        if not (ablation or frontier):
            for suite in suites:
                yield results(suite, seeds, listener)

    lab.tell("weave-suite", made)


@flatten_options
def learning(
    tables: Tables = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Methods; the first is the one that is judged.", rich_help_panel=WHAT),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="The budget.", rich_help_panel=WHAT)] = 1.0,
    seeds: Seeds = 1,
    *,
    lab: Lab,
) -> None:
    """Classifiers trained on synthetic rows and tested on real ones, for weave and our other methods."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab import learning as experiment

        return experiment.learning(
            experiment.TABLES if tables is None else words(tables),
            experiment.METHODS if methods is None else words(methods),
            epsilon,
            seeds,
            folder=lab.data_folder,
            listener=listener,
        )

    lab.tell("learning", made)


@flatten_options
def parities(
    methods: Annotated[str, typer.Option(metavar="A,B", help="Methods.", rich_help_panel=WHAT)] = "weave",
    epsilons: Annotated[
        str | None, typer.Option("--epsilons", "--epsilon", metavar="E,F", help="Budgets.", rich_help_panel=WHAT)
    ] = None,
    seeds: Seeds = 10,
    *,
    lab: Lab,
) -> None:
    """Labels that are the parity of two to six columns, which no smaller marginal shows: how often they are learned."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab import parities as experiment

        budgets = experiment.EPSILONS if epsilons is None else numbers(epsilons)
        return experiment.parities(words(methods), budgets, seeds, listener)

    lab.tell("parities", made)
