"""`weft synth`: from a private table to a released one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options as o
from weft.cli import textfiles as t
from weft.cli.failure import guard
from weft.cli.finding import found_beside, keep_found
from weft.cli.fitting import Request, journal_beside
from weft.cli.releasing import release, release_files, report
from weft.cli.terminal import Terminal

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


def synth(
    source: o.Input,
    output: o.Out,
    epsilon: o.Epsilon,
    schema: o.SchemaFile = None,
    delta: o.Delta = 1e-5,
    method: o.Method = None,
    rows: o.Rows = None,
    option: o.Options = None,
    neighbours: o.Neighbours = "add-remove",
    discover: o.Discover = 0.1,
    unit: o.Unit = None,
    one_row_per_person: o.OneRow = False,
    rows_per_unit: o.RowsPerUnit = None,
    model: ModelKept = None,
    journal: o.Journal = None,
    budget: o.LifetimeBudget = None,
    seed: o.Seed = None,
    noise_seed: o.NoiseSeed = None,
    engine: o.Engine = "auto",
    formulas: o.Formulas = "keep",
    metadata: Metadata = None,
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
    """Make a differentially private synthetic copy of a table."""
    out = None if output == "-" else Path(output)
    terminal = Terminal(as_json, quiet, debug, data_on_stdout=out is None)
    kept = None if model is None else Path(model)
    spending = journal_beside(out, journal)
    beside = [form.strip() for form in (metadata or "").split(",") if form.strip()]
    with guard(terminal, spending, kept) as rescue:
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
        found = found_beside(out) if request.incomplete else None
        written = {"the model": kept, "the schema that is found": found}
        request.check(terminal, release_files(out, beside) | {what: path for what, path in written.items() if path})
        request = request.asked(terminal)
        with terminal.progress() as listener:
            synthesizer = request.fit(listener, rescue.hold)
            if kept is not None:
                # Before the rows: what was paid for is then safe, whatever happens to them.
                synthesizer.save(kept)
                rescue.safe()
            found = keep_found(synthesizer, found, source)
            if out is not None:
                card = release(synthesizer, out, rows, seed, formulas, listener, metadata=beside)
        if out is None:
            card = release(synthesizer, None, rows, seed, formulas)
        rescue.safe()
        report(
            terminal,
            synthesizer,
            card,
            out,
            journal=spending,
            model=kept,
            found=found,
            verbose=verbose,
            metadata=beside,
        )
