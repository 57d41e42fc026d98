"""`weft bench`: the laboratory. Experiments of the papers by name, and commands for all else that is measured."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from weft_lab.commands import baskets, data, every, laboratory, marginals, papers, suite

DEFAULT = "experiment"
"""The command that stands for every name that is not a command: an experiment of a paper."""


class Laboratory(TyperGroup):
    """A group in which whatever is no command is an experiment's name, or its options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command first, unless another is named or help is asked for."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=Laboratory,
    add_completion=False,
    rich_markup_mode="rich",
    help="""Repeat the experiments of the papers and every figure of the README.

    \b
    [bold]Examples[/bold]
      weft bench --list
      weft bench data fetch adult_raw
      weft bench privsyn-figure6 --data adult.parquet --epsilons 0.5,2 --seeds 3
      weft bench privsyn-figure6 --help
      weft bench weave --tables adult --figure adult.svg
    """,
)
app.command(DEFAULT, hidden=True)(papers.experiment)
app.command("all")(every.every)
app.command("weave")(laboratory.weave)
app.command("weave-suite")(suite.weave_suite)
app.command("parities")(suite.parities)
app.command("learning")(suite.learning)
app.command("accuracy")(laboratory.accuracy)
app.command("ablations")(laboratory.ablations)
app.command("structure")(laboratory.structure)
app.command("raw")(laboratory.raw)
app.command("related")(laboratory.related)
app.command("histories")(laboratory.histories)
app.command("coverage")(laboratory.coverage)
app.command("orderings")(laboratory.orderings)
app.command("plan")(laboratory.plan)
app.command("priview")(baskets.priview)
app.command("itemsets")(baskets.itemsets)
app.command("bsg-paper")(laboratory.bsg_paper)
app.command("fire")(marginals.fire)
app.command("mechanisms")(marginals.mechanisms)
app.command("timings")(laboratory.timings)
app.add_typer(data.app, name="data")
