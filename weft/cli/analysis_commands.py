"""`weft replicates` and `weft analyse`: intervals for conclusions from a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.shared_options import flatten_options, panel_option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.evaluation.analysis import Analysis

Folder = Annotated[str, panel_option(o.OUTPUT, "Folder of the tables.", "--output", "-o", metavar="FOLDER")]


@flatten_options
def replicates(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file made by `weft fit` or `--model`.")],
    n: Annotated[int, typer.Option("-n", min=5, metavar="N", help="Number of replicates.")] = 20,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Rows of each, as of the release. Default: each has its own noisy number."
        ),
    ] = None,
    seed: Annotated[int, panel_option(o.RUN, "Seed of the simulation.", min=0, metavar="K")] = 0,
    processes: Annotated[int, panel_option(o.RUN, "Processes.", min=1, metavar="N")] = 2,
    output: Folder = "replicates",
    *,
    screen: o.Screen,
) -> None:
    """Repeat a release on simulated tables, to estimate its error. Spends no budget.

    Each replicate is a table drawn from the model, and that table released again by
    the same method with the same budget. `weft analyse` derives intervals from them.
    An interrupted run continues when the command is repeated. The tables hold nothing
    that the model does not, and may be published with it.

    \b
    [bold]Examples[/bold]
      weft replicates stays.weft -n 20 -o replicates
      weft analyse synthetic.csv --replicates replicates "mean(age) by ward"
    """
    terminal = screen.terminal()
    with guard_command(terminal):
        from weft.cli import summary
        from weft.display import format_count
        from weft.synthesis.replicates import DERIVED, make_replicates

        o.check_model_file(Path(model))
        folder = Path(output)
        with terminal.progress() as listener:
            made = make_replicates(Path(model), folder, n, seed=seed, rows=rows, processes=processes, listener=listener)
        terminal.answer({"folder": str(folder), "replicates": n, "made": len(made), "privacy_cost": 0})
        old = f" ({n - len(made)} were there before)" if len(made) < n else ""
        terminal.show(
            summary.render_headline(f"{format_count(n, 'replicate')} in {folder}{old}"), summary.render_note(DERIVED)
        )


@flatten_options
def analyse(
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="A released table, with its card beside it.")],
    statistic: Annotated[
        list[str],
        typer.Argument(
            metavar="STATISTIC...",
            help="mean(COLUMN), median(COLUMN), quantile(COLUMN, 0.9) or share(CONDITION), each with or without "
            "' by COLUMN'; or a regression, such as 'income ~ age + sex'.",
        ),
    ],
    replicates: Annotated[
        str, typer.Option("--replicates", metavar="FOLDER", help="Folder made by `weft replicates`.")
    ] = "replicates",
    target: Annotated[
        Literal["table", "population"],
        typer.Option(help="What the interval is for: the private table, or the population it was drawn from."),
    ] = "table",
    level: Annotated[float, typer.Option(min=0.5, max=0.999, metavar="P", help="Coverage of the intervals.")] = 0.95,
    *,
    screen: o.Screen,
) -> None:
    """Estimate statistics from a release, with intervals that include its noise. Spends no budget.

    A regression is linear if the left side is a column of numbers, and logistic if it
    is a column of two values or a condition. Values of a text column are compared with
    the first of them.

    \b
    [bold]Examples[/bold]
      weft analyse synthetic.csv "mean(age)" "share(ward = surgery)"
      weft analyse synthetic.csv "mean(cost) by sex" --target population
      weft analyse synthetic.csv --replicates replicates "cost ~ age + sex"
    """
    terminal = screen.terminal()
    with guard_command(terminal):
        from weft.evaluation.analysis import analyse as estimate
        from weft.progress import report_stage
        from weft.synthesis.replicates import Replicates

        with terminal.progress() as listener, report_stage(listener, "analyse"):
            made = Replicates.read(Path(replicates))
            found = [estimate(release, each, made, target=target, level=level) for each in statistic]
        terminal.answer({"analyses": [each.to_dict() for each in found]})
        for warning in dict.fromkeys(warning for each in found for warning in each.warnings):
            terminal.warn(warning)
        terminal.show(*(_render(each) for each in found), found[0].meaning)


def _render(found: Analysis) -> RenderableType:
    from rich.padding import Padding
    from rich.text import Text

    from weft.cli import summary

    rows = []
    for each in found.estimates:
        values = (f"{value:.5g}" for value in (each.released, each.estimate, each.standard_error))
        rows.append((each.name, *values, f"{each.low:.5g} to {each.high:.5g}"))
    heads = "", "in the release", "estimate", "standard error", f"{found.level:.0%} interval"
    table = summary.make_table(heads, rows, right=range(1, 5))
    table.title, table.title_justify = Text(found.statistic), "left"
    return Padding(table, (1, 0, 0, 0), expand=False)
