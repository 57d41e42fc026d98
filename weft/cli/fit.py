"""`weft fit`: learn a private table once, to sample from later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as o
from weft.cli.failure import guard
from weft.cli.finding import found_beside, keep_found, shown
from weft.cli.fitting import Asked, journal_beside
from weft.cli.releasing import file_purposes, warnings
from weft.cli.sets import spread
from weft.cli.terminal import Terminal
from weft.words import counted

if TYPE_CHECKING:
    from weft.synthesizer import Synthesizer


ModelOut = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="The model file.", rich_help_panel=o.OUTPUT)
]
RowsLater = Annotated[
    int | None,
    typer.Option(
        "--rows",
        "-n",
        min=1,
        metavar="N",
        help="Rows that may be sampled later, for a method that must know (bsg with omega).",
    ),
]


@spread
def fit(
    asked: Asked,
    output: ModelOut,
    screen: o.Screen,
    rows: RowsLater = None,
    verbose: o.Verbose = False,
) -> None:
    """Learn a model of a private table, within a budget.

    The model file holds the noisy model, its schema and its ledger: no private row.
    Sampling from it costs nothing more, however often it is done.

    \b
    [bold]Examples[/bold]
      weft fit stays.csv --schema stays.toml --epsilon 1 -o stays.weft
      weft fit stays.csv -s stays.toml -e 1 --method independent -o stays.weft
      weft sample stays.weft -n 100000 -o synthetic.parquet
      weft fit stays.csv -s stays.toml -e 1 -m bsg -n 500 --option omega=9 -o seeds.weft
    """
    model = Path(output)
    terminal = screen.terminal()
    spending = journal_beside(model, asked.journal)
    with guard(terminal, spending, model) as rescue:
        request = asked.request(spending, rows)
        found = found_beside(model) if request.incomplete else None
        request.check(terminal, {"the model": model} | ({"the schema that is found": found} if found else {}))
        noted = {
            "model": str(model.resolve()),
            "found": found and str(found.resolve()),
            "journal": str(spending.resolve()),
        }
        request = replace(request.asked(terminal), wanted=noted)
        with terminal.progress() as listener:
            synthesizer = request.fit(listener, rescue.hold)
            synthesizer.save(model)
            rescue.safe()
            found = keep_found(synthesizer, found, request.source)
            tell_fit(terminal, synthesizer, model, spending, found, verbose)


def tell_fit(
    terminal: Terminal, synthesizer: Synthesizer, model: Path, spending: Path, found: Path | None, verbose: bool
) -> None:
    """Say what was learned, and what it cost."""
    from weft.cli import summary

    fitted = synthesizer.fitted_
    ledger = fitted.ledger
    warned = warnings(fitted, spending)
    terminal.answer(
        {
            "method": {"name": fitted.method, "options": fitted.options},
            "stamps": list(ledger.stamps),
            "ledger": ledger.to_dict(),
            "warnings": warned,
            "files": [str(path) for path in (model, spending, found) if path],
        }
    )
    terminal.warn_stamps(ledger.stamps)
    terminal.warn_quietly(warned)
    terminal.show(
        summary.headline(f"model of {counted(len(fitted.schema.columns), 'column')}, method {fitted.method}"),
        *summary.stamps(ledger.stamps),
        summary.facts(summary.spending(fitted)),
        *([] if found is None else [shown(synthesizer.discovered_)]),
        *([summary.entries(ledger)] if verbose else []),
        *summary.points(fitted),
        *summary.warnings(warned),
        *summary.relations(fitted),
        *summary.files(file_purposes(None, spending, model, found)),
        summary.heading("Try next"),
        summary.commands(f"weft sample {model} -o synthetic.csv"),
    )
