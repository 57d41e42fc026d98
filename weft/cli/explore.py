"""`weft explore`: what a planner looks at on a public sample."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as o
from weft.cli.failure import guard
from weft.cli.fitting import check_files
from weft.cli.sets import spread
from weft.progress import stage

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.report.exploring import Exploration

SHOWN = 25
"""Pairs that the screen shows; the page and the JSON have all."""
VALUES = 5
BAR = 24

MEANING = (
    "InDif: the share of the rows that would have to move for two columns to be independent; beside it, about what "
    "chance alone shows in as many rows."
)


@spread
def explore(
    table: Annotated[str, typer.Argument(metavar="PUBLIC_TABLE", help="A public table: CSV, Parquet or another file.")],
    schema: Annotated[
        str | None,
        typer.Option("--schema", "-s", metavar="FILE", help="What its columns are. Default: drafted from the rows."),
    ] = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Draw it as a page too.", rich_help_panel=o.OUTPUT)
    ] = None,
    *,
    screen: o.Screen,
) -> None:
    """Look at the columns of a public sample, and at how strongly pairs of them are related.

    For public data only: nothing here has noise, and nothing is charged. Who
    chooses what to measure by looking at private rows has given them away.

    \b
    [bold]Examples[/bold]
      weft explore last-years-release.csv
      weft explore sample.parquet --schema table.toml --html sample.html
    """
    terminal = screen.terminal()
    with guard(terminal):
        out = None if html is None else Path(html)
        inputs = {"the table": Path(table), "the schema": None if schema is None else Path(schema)}
        check_files(inputs, {} if out is None else {"the page": out})
        with terminal.progress() as listener, stage(listener, "look"):
            from weft.drafting.files import draft_source
            from weft.report.exploring import ONLY_PUBLIC
            from weft.report.exploring import explore as look
            from weft.report.reading import read_coded
            from weft.schema import Schema

            known = Schema.from_toml(draft_source(table)) if schema is None else Schema.load(schema)
            coded = read_coded(Path(table), known)
            found = look(coded.codec, coded.records)
        if out is not None:
            from weft.release.atomic import staged
            from weft.report.exploring_page import page

            with staged(out) as (draft,):
                draft.write_text(page(found, Path(table).name), encoding="utf-8")
        if screen.quiet or screen.as_json:
            terminal.warn(ONLY_PUBLIC)
        terminal.answer(found.to_dict() | {"files": [str(out)] if out else []})
        terminal.show(*_shown(found, out))


def _shown(found: Exploration, out: Path | None) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    from weft.report.exploring import ONLY_PUBLIC

    parts: list[RenderableType] = [Padding(Text(ONLY_PUBLIC, style="bold red"), 0), "", _columns(found), ""]
    if found.pairs:
        parts += [_pairs(found), ""]
        parts.append(Padding(Text(MEANING), 0))
    if len(found.pairs) > SHOWN:
        parts.append(Text(f"... and {len(found.pairs) - SHOWN:,} more pairs; --html FILE draws all of them."))
    return [*parts, Text(f"The page: {out}")] if out else parts


def _columns(found: Exploration) -> RenderableType:
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


def _pairs(found: Exploration) -> RenderableType:
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
