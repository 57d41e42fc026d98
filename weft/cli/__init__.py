"""The command line. Commands import heavy libraries when they run, so that `weft --help` is fast."""

import sys
from functools import cached_property
from importlib.metadata import entry_points
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from weft.cli import (
    analysis_commands,
    budget_commands,
    demo_command,
    evidence_command,
    fit_commands,
    methods_command,
    model_commands,
    plan_command,
    report_commands,
    schema_commands,
    studio_command,
)
from weft.cli.terminal import PrintableGroup

EXIT_CODES = """\b
[bold]Exit codes[/bold]
  0 success              5 not allowed by the budget
  1 refused by Weft      6 not a model file, or damaged
  2 invalid usage        7 the output cannot be written
  3 invalid schema       8 the model would be too large
  4 unreadable data     70 a bug in Weft
  130 interrupted (Ctrl-C), 143 ended by SIGTERM, 129 by SIGHUP

[bold]Start here[/bold]:  weft demo
"""

COMMANDS = "weft.commands"
"""Entry-point group of distributions that add commands, such as `weft bench` of weft-lab."""


class WeftGroup(PrintableGroup):
    """Weft's own commands and those that other distributions add."""

    @cached_property
    def _added(self) -> dict[str, Any]:
        found = sorted(entry_points(group=COMMANDS), key=lambda point: point.name)
        commands = {point.name: typer.main.get_command(point.load()) for point in found}
        for name, command in commands.items():
            command.name = name
        return commands

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *self._added]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with this name, or None."""
        return super().get_command(ctx, cmd_name) or self._added.get(cmd_name)


app = typer.Typer(
    name="weft",
    cls=WeftGroup,
    help="Create differentially private synthetic tables, with a guarantee that anyone can check.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    # Rich tracebacks show local variables, which may hold private rows.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo_command.demo)
app.command("studio")(studio_command.studio)
app.command("plan")(plan_command.plan)
app.command("synth", help=fit_commands.HELP)(fit_commands.synth)
app.command("fit")(fit_commands.fit)
app.command("sample")(fit_commands.sample)
app.command("resume")(fit_commands.resume)
app.command("query")(model_commands.query)
app.command("replicates")(analysis_commands.replicates)
app.command("analyse")(analysis_commands.analyse)
app.command("report")(report_commands.report)
app.command("verify")(model_commands.verify)
app.command("evidence")(evidence_command.evidence)
app.command("ledger")(model_commands.ledger)
app.command("methods")(methods_command.methods)
app.add_typer(budget_commands.app, name="budget")
app.add_typer(schema_commands.app, name="schema")


def _print_version(asked: bool) -> None:
    if asked:
        from weft import __version__

        typer.echo(f"weft {__version__}")
        raise typer.Exit


@app.callback()
def _weft(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Create differentially private synthetic tables, with a guarantee that anyone can check."""


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # an unencodable character must not fail a run that has spent budget
    app(prog_name="weft")
