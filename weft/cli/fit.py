"""`weft fit`: learn a private table once, to sample from later."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as o
from weft.cli import textfiles as t
from weft.cli.failure import guard
from weft.cli.finding import found_beside, keep_found, shown
from weft.cli.fitting import Request, journal_beside
from weft.cli.releasing import file_purposes, warnings
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


def fit(
    source: o.Input,
    output: ModelOut,
    epsilon: o.Epsilon,
    schema: o.SchemaFile = None,
    delta: o.Delta = 1e-5,
    method: o.Method = None,
    option: o.Options = None,
    rows: RowsLater = None,
    neighbours: o.Neighbours = "add-remove",
    discover: o.Discover = 0.1,
    unit: o.Unit = None,
    one_row_per_person: o.OneRow = False,
    rows_per_unit: o.RowsPerUnit = None,
    journal: o.Journal = None,
    budget: o.LifetimeBudget = None,
    seed: o.Seed = None,
    noise_seed: o.NoiseSeed = None,
    engine: o.Engine = "auto",
    separator: t.Separator = None,
    encoding: t.Encoding = None,
    decimal: t.Decimal = None,
    quote: t.Quote = None,
    header: t.Header = None,
    missing: t.Missing = None,
    trust_data_for_schema: o.TrustDataForSchema = False,
    insecure: o.Insecure = False,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    debug: o.Debug = False,
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
    terminal = Terminal(as_json, quiet, debug)
    spending = journal_beside(model, journal)
    with guard(terminal, spending, model) as rescue:
        request = Request(
            source=source if len(source) > 1 else source[0],
            dialect=t.dialect_of(separator, encoding, decimal, quote, header, missing),
            schema=schema,
            epsilon=epsilon,
            delta=delta,
            journal=spending,
            budget_file=None if budget is None else Path(budget),
            method=method,
            options=o.parse_options(option),
            rows=rows,
            neighbours=neighbours,
            discover=discover,
            who=o.who_is_protected(schema, unit, one_row_per_person, rows_per_unit),
            engine=engine,
            seed=seed,
            noise_seed=noise_seed,
            trust_data_for_schema=trust_data_for_schema,
            insecure=insecure,
        )
        found = found_beside(model) if request.incomplete else None
        request.check(terminal, {"the model": model} | ({"the schema that is found": found} if found else {}))
        request = request.asked(terminal)
        with terminal.progress() as listener:
            synthesizer = request.fit(listener, rescue.hold)
            synthesizer.save(model)
            rescue.safe()
            found = keep_found(synthesizer, found, source)
        _tell(terminal, synthesizer, model, spending, found, verbose)


def _tell(
    terminal: Terminal, synthesizer: Synthesizer, model: Path, spending: Path, found: Path | None, verbose: bool
) -> None:
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
        *summary.apart(fitted),
        *summary.files(file_purposes(None, spending, model, found)),
        summary.heading("Try next"),
        summary.commands(f"weft sample {model} -o synthetic.csv"),
    )
