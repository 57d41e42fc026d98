"""`weft bench data`: the tables that experiments name, where they are, and how to have them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.failure import guard_command
from weft.cli.shared_options import flatten_options
from weft.cli.terminal import Terminal
from weft_lab.commands.listing import Lab

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(
    rich_markup_mode="rich",
    invoke_without_command=True,
    help="The tables that experiments name: list, fetch and generate them.",
)


@app.callback()
@flatten_options
def data(
    context: typer.Context,
    check: Annotated[
        bool, typer.Option("--check", metavar="", help="Read what is here, and check its contents.")
    ] = False,
    *,
    lab: Lab,
) -> None:
    """The tables that experiments name: list, fetch and generate them.

    \b
    [bold]Examples[/bold]
      weft bench data
      weft bench data fetch adult_raw cps_tax
      weft bench data make wide_large
    """
    if context.invoked_subcommand is not None:
        return
    terminal = lab.screen.terminal()
    with guard_command(terminal):
        found = _found(lab.data_folder, check)
        terminal.answer({"tables": found})
        if not terminal.json:
            _show(terminal, found)


def _found(folder: str | None, check: bool) -> list[dict[str, Any]]:
    from weft_lab.datasets import datasets, locate
    from weft_lab.generated import GENERATED

    def state(name: str) -> dict[str, Any]:
        path = locate(name, folder)
        return {"name": name, "file": None if path is None else str(path)}

    known = [
        {
            **state(name),
            "about": f"{one.about}; {one.rows:,} x {one.columns}",
            "had_by": "fetch" if one.fetched else "hand",
            "source": one.source,
            "licence": one.licence,
        }
        for name, one in datasets().items()
    ]
    for one in known if check else []:
        one["contents"] = None if one["file"] is None else _matches(one["name"], Path(one["file"]))
    made = [
        {**state(name), "about": one.about, "had_by": "make", "source": "generated from a fixed seed", "licence": ""}
        for name, one in GENERATED.items()
    ]
    return [*known, *made]


def _matches(name: str, path: Path) -> bool:
    from weft.errors import DataError
    from weft_lab.datasets import datasets
    from weft_lab.fetch import check
    from weft_lab.tables import read

    sizes = datasets()[name].sizes
    try:
        table = read(path)
        check(name, table.select(list(sizes)) if sizes else table)
    except (DataError, KeyError):
        return False
    return True


def _show(terminal: Terminal, found: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from weft.cli import summary
    from weft_lab.datasets import cache_folder

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("table", style="bold cyan", no_wrap=True)
    for head in ("what it is", "where it is", "where it comes from"):
        table.add_column(head, overflow="fold")
    remedies = {"fetch": "weft bench data fetch", "make": "weft bench data make"}
    for one in found:
        absent = f"{remedies[one['had_by']]} {one['name']}" if one["had_by"] in remedies else "not here"
        wrong = "" if one.get("contents", True) in (True, None) else "\nNOT THE CONTENTS THAT IT SHOULD HAVE"
        table.add_row(one["name"], escape(one["about"]), escape(one["file"] or absent) + wrong, escape(one["source"]))
    terminal.show(
        table, summary.render_note(f"Fetched and generated tables go to {cache_folder()}, unless a folder is given.")
    )


Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Tables; `weft bench data` shows them.")]


@app.command()
@flatten_options
def fetch(names: Names, *, lab: Lab) -> None:
    """Fetch public tables, check their SHA-256 sums, and keep them as Parquet."""
    from weft_lab.fetch import fetch as fetched

    _each(lab.screen.terminal(), names, fetched, lab.data_folder, "fetched, and its contents are right")


@app.command()
@flatten_options
def make(names: Names, *, lab: Lab) -> None:
    """Generate tables, each from its fixed seed."""
    from weft_lab.fetch import make as made

    _each(lab.screen.terminal(), names, made, lab.data_folder, "generated")


def _each(
    terminal: Terminal, names: list[str], have: Callable[[str, Path | None], Path], folder: str | None, told: str
) -> None:
    from weft.cli import summary
    from weft.progress import report_stage

    with guard_command(terminal):
        files: dict[Path, str] = {}
        with terminal.progress() as listener, report_stage(listener, "tables", len(names)) as work:
            for name in names:
                files[have(name, None if folder is None else Path(folder))] = told
                work.advance(note=name)
        terminal.answer({"files": [str(path) for path in files]})
        terminal.show(*summary.render_files(files))
