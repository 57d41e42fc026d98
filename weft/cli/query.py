"""`weft query`: counts from a model, with how far each may be off, at no further cost."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as o
from weft.cli.failure import guard
from weft.cli.fitting import check_files
from weft.cli.sets import spread
from weft.cli.terminal import hang_up
from weft.progress import stage

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.answers import Counts

SHOWN = 60
"""Cells that the screen shows; CSV and JSON have all."""
BAR = 20


@spread
def query(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model file made by `weft fit`, or by `weft synth --model`.")
    ],
    columns: Annotated[
        list[str] | None, typer.Argument(metavar="[COLUMN]...", help="What to count by. Default: all rows together.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Count only rows such as sex=F, age>=65, ward=a|b; may be given several times. As in `weft sample`.",
        ),
    ] = None,
    bins: Annotated[
        int, typer.Option("--bins", min=2, metavar="N", help="Most bins of a column with many numbers or dates.")
    ] = 20,
    as_csv: Annotated[
        str | None,
        typer.Option(
            "--csv", metavar="FILE", help="Write the counts to a file; - for stdout.", rich_help_panel=o.OUTPUT
        ),
    ] = None,
    *,
    screen: o.Screen,
) -> None:
    """Count rows by some columns, with a range for each count. Costs no budget.

    Columns that were counted together, with noise, are answered from the
    released tables; others by what the model expects. A line below the counts
    says which it was, and what the range covers.

    \b
    [bold]Examples[/bold]
      weft query stays.weft
      weft query stays.weft age sex
      weft query stays.weft ward --where "age>=65"
      weft query stays.weft cost --bins 8 --csv cost.csv
    """
    out = None if as_csv in (None, "-") else Path(str(as_csv))
    terminal = screen.terminal(data_on_stdout=as_csv == "-")
    with guard(terminal):
        if screen.as_json and as_csv == "-":
            raise o.UsageError("--json and --csv - both want stdout: give one of them")
        check_files({"the model": Path(model)}, {} if out is None else {"the counts": out})
        o.check_model_file(Path(model))
        with terminal.progress() as listener:
            with stage(listener, "load"):
                from weft.synthesizer import load

                synthesizer = load(model)
            with stage(listener, "count"):
                found = synthesizer.query(*(columns or []), where=where or None, bins=bins)
        terminal.warn_stamps(found.stamps, always=as_csv == "-")  # before lines that `head` may cut off
        if as_csv is not None:
            _write(found, out)
        terminal.answer(found.to_dict() | {"files": [str(out)] if out else []})
        if as_csv != "-":
            terminal.show(*_shown(found, out))


def _write(found: Counts, out: Path | None) -> None:
    """Write the counts as CSV, whole or not at all."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    table = found.table
    writer.writerow(table.column_names)
    writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    if out is None:
        try:
            sys.stdout.write(text.getvalue())
            sys.stdout.flush()
        except BrokenPipeError:
            hang_up(sys.stdout)
        return
    from weft.release.atomic import staged

    with staged(out) as (draft,):
        draft.write_text(text.getvalue(), encoding="utf-8")


def _shown(found: Counts, out: Path | None) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from weft.answers.words import FREE
    from weft.release.statement import VOID, void

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in found.columns or ("",):
        grid.add_column(Text(name))
    for head in ("rows", "±", "95% range"):
        grid.add_column(head, justify="right")
    grid.add_column("")
    top = max(float(found.count.max()), 1e-300)
    for place, cell in enumerate(found):
        if place == SHOWN:
            break
        bar = "█" * round(BAR * cell.count / top) or "▏"
        spread = f"{cell.low:,.0f} to {cell.high:,.0f}"
        values = [Text(value) for value in cell.values or ("all rows",)]
        grid.add_row(*values, f"{cell.count:,.0f}", f"{cell.standard_error:,.0f}", spread, bar)
    parts: list[RenderableType] = [Padding(Text(text, style="bold red"), 0) for text in found.stamps]
    if found.where:
        parts.append(Padding(Text(f"Rows with {' and '.join(found.where)}"), 0))
    parts.append(grid)
    if len(found) > SHOWN:
        parts.append(Text(f"... and {len(found) - SHOWN:,} more; --csv FILE writes all of them."))
    free = f"{VOID} {FREE}" if void(found.stamps) else FREE
    parts += ["", Padding(Text(found.meaning), 0), Padding(Text(free), 0)]
    return [*parts, Text(f"The counts: {out}")] if out else parts
