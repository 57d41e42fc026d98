"""The command line. Everything heavy is imported inside the commands, so that `weft --help` is quick."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from weft.cli import (
    audit,
    bench,
    budget,
    demo,
    explore,
    fit,
    itemsets,
    ledger,
    marginals,
    methods,
    plan,
    query,
    report,
    resume,
    sample,
    schema,
    studio,
    synth,
    verify,
)

EXIT_CODES = """\b
[bold]Exit codes[/bold]
  0 done                 5 the budget does not allow it
  1 refused by Weft      6 not a model file, or a damaged one
  2 wrong usage          7 the output cannot be written
  3 wrong schema         8 the model would be too large
  4 unreadable data     70 a bug in Weft
  130 interrupted (Ctrl-C), 143 ended by SIGTERM, 129 by SIGHUP

[bold]Start here[/bold]:  weft demo
"""

app = typer.Typer(
    name="weft",
    help="Differentially private synthetic tables, with a guarantee that a stranger can check.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    # A pretty traceback would show local variables, which may hold private rows.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("studio")(studio.studio)
app.command("plan")(plan.plan)
app.command("synth", help=synth.HELP)(synth.synth)
app.command("fit")(fit.fit)
app.command("sample")(sample.sample)
app.command("resume")(resume.resume)
app.command("query")(query.query)
app.command("itemsets")(itemsets.itemsets)
app.command("explore")(explore.explore)
app.command("report")(report.report)
app.add_typer(bench.app, name="bench")
app.command("verify")(verify.verify)
app.command("audit")(audit.audit)
app.command("ledger")(ledger.ledger)
app.command("methods")(methods.methods)
app.add_typer(budget.app, name="budget")
app.add_typer(schema.app, name="schema")
app.add_typer(marginals.app, name="marginals")


def _version(asked: bool) -> None:
    if asked:
        from weft import __version__

        typer.echo(f"weft {__version__}")
        raise typer.Exit


@app.callback()
def _weft(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Differentially private synthetic tables, with a guarantee that a stranger can check."""


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our signs must not fail a paid run
    app(prog_name="weft")
