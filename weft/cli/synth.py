"""`weft synth`: from a private table to a released one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options as o
from weft.cli.failure import guard
from weft.cli.finding import found_beside
from weft.cli.fitting import Asked, journal_beside
from weft.cli.releasing import destination, place_of
from weft.cli.sets import spread
from weft.cli.wanted import Wanted

HELP = """Make a differentially private synthetic copy of a table.

Writes the table with its card (NAME.card.md, NAME.card.json), all or nothing.
Spending is written down first, in a journal beside it (NAME.ledger.jsonl).
Without a schema, what the columns hold is found privately, for a share of the
budget (--discover), and written down in NAME.schema.toml.

\b
[bold]Examples[/bold]
  weft synth stays.csv --epsilon 1 -o synthetic.csv
  weft synth stays.csv -e 1 --unit patient -o synthetic.csv
  weft synth stays.csv --schema stays.toml --epsilon 1 -o synthetic.csv
  weft synth stays.parquet -s stays.toml -e 0.5 -n 5000 -o made.parquet
  weft synth stays.csv -s stays.toml -e 1 --model stays.weft -o made.csv
  weft synth stays.csv -s stays.toml -e 1 --formulas escape -o for-excel.csv
  weft synth stays.csv -s stays.toml -e 1 -o - | head
  weft synth 'postgresql://host/db?table=stays' -s stays.toml -e 1 -o made.csv

\b
[bold]Records grown from private rows[/bold] (method bsg)
  weft synth in.csv -s in.toml -e 1 -m bsg -n 500 --option omega=9 -o out.csv
Each record keeps some columns of a row that passed a privacy test, and has
its other omega columns drawn. The table is differentially private, unless:
  weft synth in.csv -s in.toml -e 1 -m bsg -n 500 --option omega=9-11 \\
    --option guarantee=deniability --option k=50 -o out.csv
A record grown from a seed then shares what it kept with at least k rows, and
where no row does, records are drawn whole: plausible deniability, NOT
differential privacy. The budget pays for the model alone.
Seeds may have rows of their own (--option "split=[0.5, 0.25, 0.25]"), and
another method's model may draw the columns (--option model=mst).
"""
"""What `weft synth --help` says before the options."""

ModelKept = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Keep the model too, to sample from later.", rich_help_panel=o.OUTPUT),
]
Metadata = Annotated[
    str | None,
    typer.Option(
        metavar="FORMATS",
        help="Describe the table for other programs, in NAME.FORMAT.json: frictionless, csvw, croissant.",
        rich_help_panel=o.OUTPUT,
    ),
]


@spread
def synth(
    asked: Asked,
    output: o.Out,
    screen: o.Screen,
    rows: o.Rows = None,
    model: ModelKept = None,
    formulas: o.Formulas = "keep",
    metadata: Metadata = None,
    verbose: o.Verbose = False,
) -> None:
    """Make a differentially private synthetic copy of a table."""
    terminal = screen.terminal(data_on_stdout=output == "-")
    with guard(terminal):
        out = destination(output)
    place = place_of(out)
    kept = None if model is None else Path(model)
    spending = journal_beside(place, asked.journal)
    beside = [form.strip() for form in (metadata or "").split(",") if form.strip()]
    with guard(terminal, spending, kept) as rescue:
        request = asked.request(spending, rows)
        found = found_beside(place) if request.incomplete else None
        named = None if found is None else str(found)
        wanted = Wanted(output, rows, request.seed, formulas, model, beside, str(spending), named)
        wanted.check(out)
        request.check(terminal, wanted.files(out))
        request = replace(request.asked(terminal), wanted=wanted.to_dict())
        with terminal.progress() as listener:
            synthesizer = request.fit(listener, rescue.hold)
            card = wanted.make(synthesizer, out, request.source, listener, rescue)
        wanted.tell(terminal, synthesizer, card, out, rescue, verbose)
