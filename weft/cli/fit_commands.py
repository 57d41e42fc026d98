"""`weft synth`, `weft fit`, `weft sample` and `weft resume`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import shared_options as o
from weft.cli.database_commands import (
    describes_several_tables,
    fit_related_tables,
    is_related_model,
    sample_database,
    states_time,
    synth_database,
    synth_history,
)
from weft.cli.discovered_schema import found_beside, keep_found, show_discovered_columns
from weft.cli.failure import guard_command
from weft.cli.fit_options import (
    FitOptions,
    ask_who_is_protected,
    check_files,
    check_request,
    check_size,
    fit_table,
    is_incomplete,
    journal_beside,
)
from weft.cli.output_files import (
    OutputSpec,
    Overwrite,
    check_table,
    collect_warnings,
    confirm_overwrite,
    file_purposes,
    place_of,
    print_summary,
    release_files,
    release_rows,
    resolve_destination,
)
from weft.cli.shared_options import flatten_options, panel_option
from weft.cli.terminal import Terminal
from weft.display import format_count
from weft.progress import report_stage

if TYPE_CHECKING:
    from weft.synthesis.synthesizer import Synthesizer


HELP = """Make a differentially private synthetic copy of a table.

Writes the table and its card (NAME.card.md, NAME.card.json), all or nothing.
Every charge is first logged in a PRIVATE journal (NAME.ledger.jsonl).
Without a schema, discovery finds the contents of the columns privately, for a
share of the budget (--discover), and writes them to NAME.schema.toml.

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
  weft synth patients.csv stays.csv -s hospital.toml -e 1 -o made/
  weft synth patients.csv stays.csv --root patients --key patients.id \\
    --link stays.patient -e 1 -o made/
  weft synth panel.csv --unit person --time year -e 1 -o made.csv

\b
[bold]Records derived from private rows[/bold] (method bsg)
  weft synth in.csv -s in.toml -e 1 -m bsg -n 500 --option omega=9 -o out.csv
Each record keeps some columns of a seed, a private row that passed a privacy
test; its other omega columns are sampled. The table is differentially private,
except with guarantee=deniability:
  weft synth in.csv -s in.toml -e 1 -m bsg -n 500 --option omega=9-11 \\
    --option guarantee=deniability --option k=50 -o out.csv
A record derived from a seed then shares the values it kept with at least k
rows; if no row passes, records are sampled in full. This is plausible
deniability, NOT differential privacy: the budget covers the model only.
Seeds may come from separate rows (--option "split=[0.5, 0.25, 0.25]"), and
another method's model may sample the columns (--option model=mst).
"""

ModelKept = Annotated[str | None, panel_option(o.OUTPUT, "Also save the model, to sample from later.", metavar="FILE")]
Metadata = Annotated[
    str | None,
    panel_option(
        o.OUTPUT,
        "Also write metadata for other programs to NAME.FORMAT.json: frictionless, csvw, croissant; separate "
        "several by commas.",
        metavar="FORMATS",
    ),
]


@flatten_options
def synth(
    options: FitOptions,
    output: o.Out,
    screen: o.Screen,
    rows: o.Rows = None,
    model: ModelKept = None,
    formulas: o.Formulas = "keep",
    metadata: Metadata = None,
    overwrite: Overwrite = False,
    verbose: o.Verbose = False,
) -> None:
    """Make a differentially private synthetic copy of a table."""
    terminal = screen.terminal(data_on_stdout=output == "-")
    several = options.keys.root is not None or describes_several_tables(options.schema)
    if several or options.protected.time is not None or states_time(options.schema):
        if formulas != "keep" or metadata:
            with guard_command(terminal):
                told = "--formulas and --metadata are not supported for related tables and histories: leave them out"
                raise o.UsageError(told)
        (synth_database if several else synth_history)(options, output, terminal, rows, model, overwrite)
        return
    with guard_command(terminal):
        out = resolve_destination(output)
    place = place_of(out)
    kept = None if model is None else Path(model)
    spending = journal_beside(place, options.journal)
    beside = [form.strip() for form in (metadata or "").split(",") if form.strip()]
    with guard_command(terminal, spending, kept) as rescue:
        request = options.request(spending)
        found = found_beside(place) if is_incomplete(request) else None
        named = None if found is None else str(found)
        wanted = OutputSpec(output, rows, request.seed, formulas, model, beside, str(spending), named, overwrite)
        wanted.check(out)
        check_request(request, terminal, wanted.files(out))
        confirm_overwrite(terminal, wanted.files(out), overwrite)
        request = replace(ask_who_is_protected(request, terminal), outputs=wanted.to_dict())
        check_size(request, terminal, few_rows=options.few_rows)
        with terminal.progress() as listener:
            synthesizer = fit_table(request, rows, listener, rescue.hold)
            card = wanted.make(synthesizer, out, request.source, listener, rescue)
        wanted.tell(terminal, synthesizer, card, out, rescue, verbose)


ModelOut = Annotated[str, panel_option(o.OUTPUT, "The model file.", "--output", "-o", metavar="FILE")]
RowsLater = Annotated[
    int | None,
    typer.Option(
        "--rows",
        "-n",
        min=1,
        metavar="N",
        help="Rows that may be sampled later, for methods that need it before the fit (bsg with omega).",
    ),
]


@flatten_options
def fit(
    options: FitOptions,
    output: ModelOut,
    screen: o.Screen,
    rows: RowsLater = None,
    overwrite: Overwrite = False,
    verbose: o.Verbose = False,
) -> None:
    """Fit a model to a private table, within a budget.

    The model file contains the noisy model, its schema and its ledger, and no private row.
    Sampling from it spends no budget, however often it is done.

    \b
    [bold]Examples[/bold]
      weft fit stays.csv --schema stays.toml --epsilon 1 -o stays.weft
      weft fit stays.csv -s stays.toml -e 1 --method independent -o stays.weft
      weft sample stays.weft -n 100000 -o synthetic.parquet
      weft fit stays.csv -s stays.toml -e 1 -m bsg -n 500 --option omega=9 -o seeds.weft
    """
    model = Path(output)
    terminal = screen.terminal()
    several = options.keys.root is not None or describes_several_tables(options.schema)
    if several or options.protected.time is not None or states_time(options.schema):
        fit_related_tables(options, model, terminal, overwrite)
        return
    spending = journal_beside(model, options.journal)
    with guard_command(terminal, spending, model) as rescue:
        request = options.request(spending)
        found = found_beside(model) if is_incomplete(request) else None
        targets = {"the model": model} | ({"the discovered schema": found} if found else {})
        check_request(request, terminal, targets)
        confirm_overwrite(terminal, targets, overwrite)
        noted = {
            "model": str(model.resolve()),
            "found": found and str(found.resolve()),
            "journal": str(spending.resolve()),
            "overwrite": overwrite,
        }
        request = replace(ask_who_is_protected(request, terminal), outputs=noted)
        check_size(request, terminal, few_rows=options.few_rows)
        with terminal.progress() as listener:
            synthesizer = fit_table(request, rows, listener, rescue.hold)
            synthesizer.save(model)
            rescue.safe()
            found = keep_found(synthesizer, found, request.source)
            tell_fit(terminal, synthesizer, model, spending, found, verbose)


def tell_fit(
    terminal: Terminal, synthesizer: Synthesizer, model: Path, spending: Path, found: Path | None, verbose: bool
) -> None:
    """Show what was fitted and what it cost."""
    from weft.cli import summary

    fitted = synthesizer.fitted_
    ledger = fitted.ledger
    warned = collect_warnings(fitted, spending)
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
        summary.render_headline(
            f"model of {format_count(len(fitted.schema.columns), 'column')}, method {fitted.method}"
        ),
        *summary.render_stamps(ledger.stamps),
        summary.render_facts(summary.describe_spending(fitted)),
        *([] if found is None else [show_discovered_columns(synthesizer.discovered_)]),
        *([summary.render_ledger_entries(ledger)] if verbose else []),
        *summary.render_noise_points(fitted),
        *summary.render_warnings(warned),
        *summary.describe_learned_relations(fitted),
        *summary.render_files(file_purposes(None, spending, model, found)),
        summary.render_heading("Try next"),
        summary.render_commands(f"weft sample {model} -o synthetic.csv"),
    )


Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Generate only rows that meet a condition, for example sex=F, age>=65, ward=a|b, ward!=c or 'income is "
        "missing'; repeatable. Without -n: the rows of a whole table that meet all conditions.",
    ),
]

OnSpark = Annotated[
    bool,
    typer.Option(
        "--spark",
        metavar="",
        help="Generate the rows on Spark's executors, as Parquet files in the new folder -o. The same seed gives the "
        "same files on any number of executors.",
    ),
]


@flatten_options
def sample(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model file made by `weft fit`, or by `weft synth --model`.")
    ],
    output: o.Out,
    rows: o.Rows = None,
    where: Where = None,
    seed: o.Seed = None,
    formulas: o.Formulas = "keep",
    spark: OnSpark = False,
    overwrite: Overwrite = False,
    memory: o.Memory = None,
    *,
    screen: o.Screen,
) -> None:
    """Generate synthetic rows from a model. Spends no budget, however often and however many.

    Rows are generated and written in blocks, so the table may be larger than memory.

    \b
    [bold]Examples[/bold]
      weft sample stays.weft -o synthetic.csv
      weft sample stays.weft -n 50000000 -o synthetic.parquet
      weft sample stays.weft -n 10 --seed 1 -o -
      weft sample stays.weft -n 500 --where "sex=F" --where "age>=65" -o old.csv
      weft sample stays.weft --where "ward=surgery|medicine" -o wards.csv
      weft sample stays.weft -n 1000000000 --spark -o made/

    With --where, every row meets all conditions, and the card states that the
    table is a part of a whole one.
    """
    terminal = screen.terminal(data_on_stdout=output == "-")
    with guard_command(terminal):
        if spark:
            if overwrite:
                raise o.UsageError("--spark writes to a new folder and replaces nothing: leave out --overwrite")
            _on_spark(terminal, Path(model), output, rows, where, seed, formulas)
            return
        if is_related_model(Path(model)):
            if formulas != "keep":
                raise o.UsageError("--formulas is not supported for related tables: leave it out")
            from weft.synthesis.synthesizer import load

            sample_database(load(model), output, terminal, (rows, where, seed), overwrite)
            return
        out = resolve_destination(output)
        check_files({"the model": Path(model)}, release_files(out))
        check_table(out)
        confirm_overwrite(terminal, release_files(out), overwrite)
        o.check_model_file(Path(model))
        with terminal.progress() as listener:
            with report_stage(listener, "load"):
                from weft.synthesis.synthesizer import load

                synthesizer = load(model).set_params(memory=memory)
            if out is not None:
                card = release_rows(synthesizer, out, rows, seed, formulas, listener, where)
        if out is None:
            card = release_rows(synthesizer, None, rows, seed, formulas, where=where)
        print_summary(terminal, synthesizer, card, out)


def _on_spark(
    terminal: Terminal,
    model: Path,
    output: str,
    rows: int | None,
    where: list[str] | None,
    seed: int | None,
    formulas: str,
) -> None:
    if where or formulas != "keep":
        raise o.UsageError("--spark generates whole tables as Parquet files: leave out --where and --formulas")
    from weft.io.output_tables import Dataset
    from weft.release.spark_release import publish_dataset
    from weft.synthesis.statement import default_rows

    dataset = Dataset.of(output)
    check_files({"the model": model}, release_files(dataset))
    o.check_model_file(model)
    with terminal.progress() as listener:
        with report_stage(listener, "load"):
            from weft.synthesis.synthesizer import load

            synthesizer = load(model)
        fitted = synthesizer.fitted_
        wanted = default_rows(fitted) if rows is None else rows
        card = publish_dataset(model, fitted, wanted, dataset, seed, listener)
    print_summary(terminal, synthesizer, card, dataset)


@flatten_options
def resume(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="The file NAME-....checkpoint next to the journal.")
    ],
    overwrite: Overwrite = False,
    verbose: o.Verbose = False,
    *,
    screen: o.Screen,
) -> None:
    """Finish a run that stopped after its last query, from its recorded measurements.

    No noise is drawn again, nothing is charged, and no private row is read: the
    run continues from its recorded measurements and writes its output files. A
    run that stopped before its last query, or before a measurement was recorded,
    is refused. Existing files are replaced only if the run itself was started
    with --overwrite, or with --overwrite here.

    \b
    [bold]Example[/bold]
      weft resume made-1f2e3d4c.checkpoint
    """
    path = Path(checkpoint)
    terminal = screen.terminal()
    with guard_command(terminal) as rescue:
        with terminal.progress() as listener:
            with report_stage(listener, "load"):
                from weft.synthesis.resume import finish_run, read_unfinished, remove_checkpoint

            run = read_unfinished(path)
            if not run.wanted:
                raise o.UsageError(
                    f"{path} was written by a Python program: finish it in Python (weft.synthesis.resume)"
                )
            overwrite |= bool(run.wanted.get("overwrite"))
            if "output" not in run.wanted:
                model, found = Path(run.wanted["model"]), run.wanted["found"]
                check_files({"the checkpoint": path}, {"the model": model})
                confirm_overwrite(terminal, {"the model": model}, overwrite)
                synthesizer = finish_run(run, listener)
                synthesizer.save(model)
                kept = keep_found(synthesizer, found and Path(found), str(run.header["source"]))
                remove_checkpoint(path)
            else:
                wanted = OutputSpec.from_dict(run.wanted)
                out = resolve_destination(wanted.output)
                wanted.check(out)
                check_files({"the checkpoint": path}, wanted.files(out))
                confirm_overwrite(terminal, wanted.files(out), overwrite)
                synthesizer = finish_run(run, listener)
                card = wanted.make(synthesizer, out, str(run.header["source"]), listener, rescue)
        if "output" not in run.wanted:
            tell_fit(terminal, synthesizer, model, Path(run.wanted["journal"]), kept, verbose)
            return
        wanted.tell(terminal, synthesizer, card, out, rescue, verbose)
        remove_checkpoint(path)
