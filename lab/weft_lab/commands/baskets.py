"""The laboratory's commands for PriView and for item sets: `weft bench priview`, `weft bench itemsets`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.shared_options import flatten_options
from weft_lab.commands.laboratory import Epsilons, Seeds, Tables
from weft_lab.commands.listing import WHAT, Lab, numbers, words

if TYPE_CHECKING:
    from weft.progress import Listener
    from weft_lab.sheet import Sheet


@flatten_options
def priview(
    tables: Tables = None,
    epsilons: Epsilons = None,
    seeds: Seeds = 3,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="Methods beside the baselines.", rich_help_panel=WHAT)
    ] = None,
    *,
    lab: Lab,
) -> None:
    """PriView beside direct noise, Fourier coefficients and other methods, on random 3- and 4-way marginals."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab import priview as experiment
        from weft_lab.tables import open_table

        own, folder = experiment.BINARY, lab.data_folder
        names = ["nltcs", own] if tables is None else words(tables)
        opened = [experiment.binary_table() if name == own else open_table(name, folder=folder) for name in names]
        budgets = experiment.EPSILONS if epsilons is None else numbers(epsilons)
        beside = experiment.METHODS if methods is None else words(methods)
        return experiment.priview(opened, budgets, seeds, beside, listener)

    lab.tell("priview", made)


@flatten_options
def itemsets(
    epsilons: Epsilons = None,
    seeds: Seeds = 3,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Sets that are looked for.", rich_help_panel=WHAT)] = 100,
    *,
    lab: Lab,
) -> None:
    """Frequent item sets of 100,000 made-up baskets: what is missed, and how far counts are off."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab import itemsets as experiment

        budgets = experiment.EPSILONS if epsilons is None else numbers(epsilons)
        return experiment.itemsets(budgets, seeds, top, listener)

    lab.tell("itemsets", made, note="")
