"""`weft marginals`: draft and check plans of marginals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import shared_options as o
from weft.cli.discovered_schema import JOURNAL_PURPOSE
from weft.cli.failure import guard_command
from weft.cli.fit_options import Price, check_files, check_request, journal_beside, one_or_several, prepare_fit
from weft.cli.shared_options import TextFile, flatten_options
from weft.cli.terminal import Terminal
from weft.errors import OutputError
from weft.synthesis.fit_request import FitRequest

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode="rich", help="Draft and check plans of marginals (weft synth --marginals)."
)

SchemaArgument = Annotated[str, typer.Argument(metavar="SCHEMA", help="The schema of the table.")]


@app.command()
@flatten_options
def draft(
    schema: SchemaArgument,
    price: Price,
    text: TextFile,
    noise_seed: o.NoiseSeed = None,
    table: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="With --private: the private table.")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The plan, as TOML; - for stdout.")
    ] = "-",
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace an existing file.")] = False,
    debug: o.Debug = False,
) -> None:
    """Draft a plan of marginals from a schema, for a person to edit.

    With --private, the plan lists the most strongly dependent pairs of columns, by
    noisy scores that cost --epsilon. Such a plan may be published.

    \b
    [bold]Examples[/bold]
      weft marginals draft stays.toml -o plan.toml
      weft marginals draft stays.toml stays.csv --private --epsilon 0.2 -o plan.toml
      weft marginals check plan.toml stays.toml
      weft synth stays.csv -s stays.toml -e 1 -m dpsyn --marginals plan.toml -o made.csv
    """
    out = None if output == "-" else Path(output)
    terminal = Terminal(debug=debug, data_on_stdout=out is None)
    with guard_command(terminal, journal_beside(out, price.journal) if price.private else None):
        from weft.schema import Schema
        from weft_lab.plan_draft import draft_marginal_plan, write_plan_draft

        request = None
        if price.private or price.epsilon is not None or table:
            if not table:
                raise o.UsageError("--private requires TABLE, whose pairs of columns are scored")
            request = price.request(
                out,
                source=one_or_several(table),
                dialect=text.dialect,
                schema=schema,
                method="privsyn",
                noise_seed=noise_seed,
            )
        if out is not None and out.exists() and not force:
            raise OutputError(f"{out} already exists and may have been edited. Choose another name, or pass --force.")
        written = {} if out is None else {"the plan": out}
        if request is None:
            check_files({"the schema": Path(schema)}, written)
            _write_plan_text(write_plan_draft(draft_marginal_plan(Schema.load(schema))), out)
        else:
            check_request(request, terminal, written)
            _draft_from_scores(terminal, request, schema, Path(output))


def _draft_from_scores(terminal: Terminal, request: FitRequest, schema: str, out: Path) -> None:
    """Score all pairs of columns with noise, and write a plan of those above the noise."""
    from weft.cli import summary
    from weft.schema import Schema
    from weft.synthesis.fit_plan import stamps_of
    from weft_lab.plan_draft import draft_marginal_plan, write_plan_draft

    with terminal.progress() as listener:
        from weft_lab.plan_draft import dependent_pairs

        request, _ = prepare_fit(request, listener)
        pairs = dependent_pairs(request, listener)
        stamps = stamps_of(request.noise_seed is None, ())
        _write_plan_text(
            write_plan_draft(draft_marginal_plan(Schema.load(schema), pairs), (request.epsilon, request.delta), stamps),
            out,
        )
    if not pairs:
        terminal.warn("no pair of columns has a score above the noise: raise --epsilon, or add marginals by hand.")
    told = "the plan" if stamps else "the plan; it may be published"
    terminal.show(
        *summary.render_stamps(stamps), *summary.render_files({out: told, Path(str(request.journal)): JOURNAL_PURPOSE})
    )


@app.command()
@flatten_options
def check(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="The plan of marginals.")],
    schema: SchemaArgument,
    epsilon: Annotated[
        float, typer.Option("--epsilon", "-e", help="Budget for which the plan is checked.", rich_help_panel=o.PRIVACY)
    ] = 1.0,
    delta: o.Delta = 1e-5,
    *,
    screen: o.Screen,
) -> None:
    """Check a plan of marginals against a schema, and show what it would measure. No row is read."""
    terminal = screen.terminal()
    with guard_command(terminal):
        from weft.cli import summary
        from weft.display import format_count
        from weft.encoding import Codec
        from weft.io.text_to_types import csv_arrow_schema
        from weft.privacy import find_accounting
        from weft.schema import Schema
        from weft.synthesis.marginal_plan import MarginalPlan, compile_plan, extend_schema
        from weft.synthesis.marginal_plan.compiled_plan import accounting_of

        held = MarginalPlan.load(plan).at(epsilon)
        known = extend_schema(Schema.load(schema), held)
        codec = Codec(known, csv_arrow_schema(known))
        made = compile_plan(held, codec)
        seen = made.arrangement.domain(codec.domain)
        bins = made.arrangement.bins
        sizes = {name: int(bins[name].max()) + 1 if name in bins else seen.size(name) for name in seen}
        marginals = made.options["marginals"]
        largest = max((_count_cells(sizes, names) for names in marginals), default=0)
        facts = {
            "measured": f"{format_count(len(marginals), 'marginal')}, the largest with at most {largest:,} cells",
            "columns": f"{format_count(len(seen), 'attribute')}, {len(made.arrangement.patterns)} of them for values "
            "that are missing together; "
            f"{len(made.arrangement.fills)} more are filled in, {len(made.arrangement.learned)} of them by a "
            "learned map",
            "noise": find_accounting(accounting_of(held, known, epsilon, delta)).counts.title,
        }
        terminal.answer({"epsilon": epsilon, "marginals": marginals, **facts})
        if not screen.as_json:
            terminal.show(
                summary.render_headline(f"{plan} is valid at epsilon {epsilon:g}"), summary.render_facts(facts)
            )


def _count_cells(sizes: dict[str, int], names: list[str]) -> int:
    made = 1
    for name in names:
        made *= sizes[name]
    return made


def _write_plan_text(text: str, out: Path | None) -> None:
    from weft.io.atomic_files import stage_files

    if out is None:
        typer.echo(text, nl=False)
        return
    with stage_files(out) as (file,):
        file.write_text(text, encoding="utf-8")
