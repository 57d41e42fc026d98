"""The laboratory's commands for PriView and for item sets: `weft bench priview`, `weft bench itemsets`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as o
from weft.cli.bench.laboratory import Epsilons, Seeds, Tables
from weft.cli.bench.listing import WHAT, DataFolder, numbers, tell, words
from weft.cli.terminal import Terminal

if TYPE_CHECKING:
    from weft.bench.sheet import Sheet
    from weft.progress import Listener


def priview(
    tables: Tables = None,
    epsilons: Epsilons = None,
    seeds: Seeds = 3,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="Methods beside the baselines.", rich_help_panel=WHAT)
    ] = None,
    data_folder: DataFolder = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """PriView beside direct noise, Fourier coefficients and other methods, on random 3- and 4-way marginals."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft.bench import open_table
        from weft.bench import priview as lab

        names = ["nltcs", lab.BINARY] if tables is None else words(tables)
        opened = [lab.binary_table() if name == lab.BINARY else open_table(name, folder=data_folder) for name in names]
        budgets = lab.EPSILONS if epsilons is None else numbers(epsilons)
        return lab.priview(opened, budgets, seeds, lab.METHODS if methods is None else words(methods), listener)

    tell(Terminal(as_json, quiet, debug), "priview", made)


def itemsets(
    epsilons: Epsilons = None,
    seeds: Seeds = 3,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Sets that are looked for.", rich_help_panel=WHAT)] = 100,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Frequent item sets of 100,000 made-up baskets: what is missed, and how far counts are off."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft.bench import itemsets as lab

        return lab.itemsets(lab.EPSILONS if epsilons is None else numbers(epsilons), seeds, top, listener)

    tell(Terminal(as_json, quiet, debug), "itemsets", made, note="")
