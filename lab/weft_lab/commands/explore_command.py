"""`weft explore`: the columns of a public sample, and how strongly pairs of them are related."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.fit_options import check_files
from weft.cli.shared_options import flatten_options
from weft.progress import report_stage

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft_lab.exploration import Exploration


app = typer.Typer(add_completion=False)

SHOWN = 25
"""Maximum pairs on the screen; the page and the JSON contain all."""
VALUES = 5
BAR = 24

MEANING = (
    "InDif: the share of rows that would have to change for two columns to be independent. Chance: the approximate "
    "InDif of independent columns with the same number of rows."
)


@app.command()
@flatten_options
def explore(
    table: Annotated[str, typer.Argument(metavar="PUBLIC_TABLE", help="A public table: CSV, Parquet or another file.")],
    schema: Annotated[
        str | None,
        typer.Option("--schema", "-s", metavar="FILE", help="Schema of the table. Default: drafted from the rows."),
    ] = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Also write an HTML page.", rich_help_panel=o.OUTPUT)
    ] = None,
    *,
    screen: o.Screen,
) -> None:
    """Show the columns of a public sample and how strongly pairs of them are related.

    For public data only: results have no noise, and nothing is charged. Choosing
    what to measure from exact private results would break the guarantee.

    \b
    [bold]Examples[/bold]
      weft explore last-years-release.csv
      weft explore sample.parquet --schema table.toml --html sample.html
    """
    terminal = screen.terminal()
    with guard_command(terminal):
        out = None if html is None else Path(html)
        inputs = {"the table": Path(table), "the schema": None if schema is None else Path(schema)}
        check_files(inputs, {} if out is None else {"the page": out})
        with terminal.progress() as listener, report_stage(listener, "look"):
            from weft.drafting.draft import draft_source
            from weft.evaluation.report.editions import read_coded
            from weft.schema import Schema
            from weft_lab.exploration import ONLY_PUBLIC
            from weft_lab.exploration import explore_columns as look

            known = Schema.from_toml(draft_source(table)) if schema is None else Schema.load(schema)
            coded = read_coded(Path(table), known)
            found = look(coded.codec, coded.records)
        if out is not None:
            from weft.io.atomic_files import stage_files
            from weft_lab.exploration import render_exploration_page

            with stage_files(out) as (draft,):
                draft.write_text(render_exploration_page(found, Path(table).name), encoding="utf-8")
        if screen.quiet or screen.as_json:
            terminal.warn(ONLY_PUBLIC)
        terminal.answer(found.to_dict() | {"files": [str(out)] if out else []})
        terminal.show(*_render_exploration(found, out))


def _render_exploration(found: Exploration, out: Path | None) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    from weft_lab.exploration import ONLY_PUBLIC

    parts: list[RenderableType] = [Padding(Text(ONLY_PUBLIC, style="bold red"), 0), "", _render_columns(found), ""]
    if found.pairs:
        parts += [_render_pairs(found), ""]
        parts.append(Padding(Text(MEANING), 0))
    if len(found.pairs) > SHOWN:
        parts.append(Text(f"... and {len(found.pairs) - SHOWN:,} more pairs; --html FILE shows all of them."))
    return [*parts, Text(f"The page: {out}")] if out else parts


def _render_columns(found: Exploration) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("column")
    grid.add_column("values or bins", justify="right")
    grid.add_column("largest shares")
    for column in found.columns:
        ranked = sorted(zip(column.shares, column.labels, strict=True), key=lambda pair: -pair[0])[:VALUES]
        told = ", ".join(f"{label} {share:.0%}" for share, label in ranked)
        grid.add_row(Text(column.name), f"{column.codes:,}", Text(told))
    return grid


def _render_pairs(found: Exploration) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("pair")
    for head in ("InDif", "chance", "cells"):
        grid.add_column(head, justify="right")
    grid.add_column("")
    top = max(pair.indif for pair in found.pairs) or 1.0
    for pair in found.pairs[:SHOWN]:
        bar = "█" * round(BAR * pair.indif / top)
        cells = f"{pair.cells:,}"
        grid.add_row(Text(" and ".join(pair.columns)), f"{pair.indif:.1%}", f"{pair.chance:.1%}", cells, bar)
    return grid
