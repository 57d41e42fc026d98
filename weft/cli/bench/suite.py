"""`weft bench weave-suite`: weave on many kinds of tables, in a half for choosing settings and a half for reporting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weft.cli.bench.listing import WHAT, Lab
from weft.cli.sets import spread

if TYPE_CHECKING:
    from weft.bench.sheet import Sheet
    from weft.progress import Listener


@spread
def weave_suite(
    half: Annotated[
        Literal["both", "chosen", "reported"],
        typer.Option(help="Settings are chosen on one half; the other is only reported.", rich_help_panel=WHAT),
    ] = "both",
    ablation: Annotated[
        bool, typer.Option("--ablation", metavar="", help="Change one setting at a time instead.", rich_help_panel=WHAT)
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
        from weft.bench.suite import HALVES, Suite, results
        from weft.bench.suite import ablation as changed

        suites = [Suite(each, lab.data_folder, tables) for each in HALVES if half in ("both", each)]
        if ablation:
            yield changed(suites, seeds, listener)
        else:
            for suite in suites:
                yield results(suite, seeds, listener)

    lab.tell("weave-suite", made)
