"""What the commands of the laboratory share: how sheets and the list of experiments are shown, lists with commas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.shared_options import UsageError
from weft.cli.terminal import Terminal

if TYPE_CHECKING:
    from weft.progress import Listener
    from weft_lab.sheet import Sheet

WHAT = "What to run"
PRIVATE = "Computed from real rows: PRIVATE, unless the table is public."

DataFolder = Annotated[
    str | None,
    typer.Option(
        "--data-folder",
        metavar="FOLDER",
        help="Where tables are looked for first. Default: the one that WEFT_DATA names, if any.",
        rich_help_panel=WHAT,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Lab:
    """What every command of the laboratory takes."""

    data_folder: DataFolder = None
    screen: o.Screen

    def tell(self, name: str, made: Callable[[Listener], Iterator[Sheet]], note: str = PRIVATE) -> None:
        """Show the sheets of an experiment as they come, and answer with all of them."""
        from weft.cli import summary

        sheets = []
        terminal = self.screen.terminal()
        with guard_command(terminal):
            with terminal.progress() as listener:
                for sheet in made(listener):
                    sheets.append(asdict(sheet))
                    show_sheet(terminal, sheet)
            if note:
                terminal.show(summary.render_note(note))
            terminal.answer({"experiment": name, "sheets": sheets})


def words(text: str) -> list[str]:
    """Split a list with commas."""
    return [part for part in text.split(",") if part]


def numbers(text: str, option: str = "--epsilons") -> list[float]:
    """Read numbers with commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} {text}: write numbers with commas, such as 0.2,0.8,3.2") from None


def show_sheet(terminal: Terminal, sheet: Sheet) -> None:
    """Show a table of words, and the sentences below it."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"\n{escape(sheet.title)}", title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    for number, head in enumerate(sheet.columns):
        prose = number == 0 or len(sheet.columns) == 2
        table.add_column(escape(head), justify="left" if prose else "right", overflow="fold")
    for row in sheet.rows:
        table.add_row(*(escape(cell) for cell in row))
    terminal.show(table, *(Text(f"  {note}") for note in sheet.notes))


def show(terminal: Terminal, context: typer.Context) -> None:
    """List every experiment with one line each: those of the papers, then the laboratory's own commands."""
    from weft_lab.catalogue import EXPERIMENTS

    answer: dict[str, Any] = {
        name: {"paper": known.paper, "about": known.about, "lines": known.ready().lines}
        for name, known in EXPERIMENTS.items()
    }
    group: Any = context.parent.command if context.parent is not None else None
    own = {
        name: {"paper": "Weft", "about": command.get_short_help_str(200), "lines": []}
        for name, command in (group.commands if group is not None else {}).items()
        if not command.hidden
    }
    answer |= own
    terminal.answer(answer)
    if not terminal.json:
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("experiment", style="bold cyan", no_wrap=True)
        table.add_column("what it compares")
        table.add_column("published in")
        for name, known in answer.items():
            table.add_row(name, escape(known["about"]), escape(known["paper"]))
        terminal.show(table)
