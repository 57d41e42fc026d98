"""`weft verify`: whether the files of a release belong together and say what follows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as o
from weft.cli.failure import guard
from weft.cli.sets import spread
from weft.cli.terminal import Terminal

if TYPE_CHECKING:
    from weft.release.verify import Findings


@spread
def verify(
    place: Annotated[
        str, typer.Argument(metavar="PLACE", help="A folder of releases, or a table or a card of one.")
    ] = ".",
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="The table's lifetime budget: does it still have the entries of the releases?"
        ),
    ] = None,
    *,
    screen: o.Screen,
) -> None:
    """Check releases against their cards: hashes, columns, ledger, guarantee, warnings; and that models load.

    A release that was interrupted while its files were put in place is finished first.
    Nothing private is needed or read. A card proves nothing about the private table:
    what is found is damage, careless editing, and files of different releases.

    \b
    [bold]Examples[/bold]
      weft verify released
      weft verify synthetic.csv
      weft verify 'sqlite:made.sqlite?table=stays'
      weft verify released --budget clinic.budget
      weft verify released --json
    """
    terminal = screen.terminal()
    with guard(terminal):
        from weft.release.verify import verify as checked

        found = checked(place, None if budget is None else Path(budget))
        terminal.answer(
            {
                "ok": not found.wrong,
                "checks": [
                    {"file": c.file, "what": c.what, "ok": c.wrong is None, "wrong": c.wrong} for c in found.checks
                ],
                "recovered": list(found.recovered),
                "unchecked": list(found.unchecked),
            }
        )
        if not (screen.as_json or screen.quiet):
            _tell(terminal, found)
        for check in found.wrong:
            terminal.fail(f"{check.file}: {check.wrong}")
        if found.wrong:
            raise typer.Exit(1)


def _tell(terminal: Terminal, found: Findings) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from weft.cli import summary

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("file", "what was checked", "holds"):
        table.add_column(name)
    for check in found.checks:
        holds = "[green]yes[/green]" if check.wrong is None else "[bold red]NO[/bold red]"
        table.add_row(escape(check.file), escape(check.what), holds)
    terminal.show(table)
    for did in found.recovered:
        terminal.show(summary.note(did))
    for name in found.unchecked:
        terminal.show(summary.note(f"{name}: no card is for it, so nothing is claimed of it"))
    if not found.wrong:
        terminal.show(summary.headline("everything that was checked holds"))
