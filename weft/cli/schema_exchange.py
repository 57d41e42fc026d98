"""`weft schema import` and `weft schema export`: schemas from and to other metadata formats."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.terminal import Terminal
from weft.errors import OutputError

Format = Literal["frictionless", "csvw", "croissant"]


def import_schema(
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="SDV, Frictionless or CSVW JSON, or a data dictionary as CSV.")
    ],
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The schema; - for stdout.")] = "-",
    table: Annotated[str | None, typer.Option(metavar="NAME", help="Table to import, if there are several.")] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace an existing file.")] = False,
    debug: o.Debug = False,
) -> None:
    """Create a schema from existing metadata. No row is read.

    Reads SDV metadata, Frictionless schemas and packages, CSVW, and data dictionaries as
    CSV (column, description, type, values). Facts that the metadata does not state are left out.

    \b
    [bold]Examples[/bold]
      weft schema import dictionary.csv -o stays.toml
      weft schema import datapackage.json --table stays -o stays.toml
    """
    terminal = Terminal(debug=debug, data_on_stdout=output == "-")
    with guard_command(terminal):
        from weft.drafting.exchange import read_metadata

        text, form = read_metadata(Path(source), table)
        _write_output(terminal, text, output, source, force)
        terminal.show(f"[bold green]✓[/bold green] read as {form}; next: weft schema check {output}")


def export_schema(
    schema: Annotated[str, typer.Argument(metavar="SCHEMA", help="A schema file.")],
    to: Annotated[Format, typer.Option(metavar="FORMAT", help="frictionless, csvw or croissant.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The metadata; - for stdout.")] = "-",
    table: Annotated[
        str | None, typer.Option(metavar="FILE", help="File name of the table. Default: the schema's name with .csv.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace an existing file.")] = False,
    debug: o.Debug = False,
) -> None:
    """Export a schema as metadata for other programs, to accompany a release.

    \b
    [bold]Examples[/bold]
      weft schema export stays.toml --to frictionless --table made.csv -o datapackage.json
      weft schema export stays.toml --to croissant --table made.csv -o croissant.json
    """
    terminal = Terminal(debug=debug, data_on_stdout=output == "-")
    with guard_command(terminal):
        from weft.drafting.exchange import EXPORTS
        from weft.schema import Schema

        read = Schema.load(schema)
        made = EXPORTS[to](read, table or f"{Path(schema).stem}.csv")
        _write_output(
            terminal, json.dumps(made, indent=1, ensure_ascii=False, default=str) + "\n", output, schema, force
        )
        if read.from_data_facts():
            terminal.warn("this file has facts that the schema read from private rows: review the schema first")


def _write_output(terminal: Terminal, text: str, output: str, source: str, force: bool) -> None:
    """Write a text to stdout or to a file; replace an existing file only with --force."""
    if output == "-":
        sys.stdout.buffer.write(text.encode())
        return
    from weft.cli.fit_options import check_files
    from weft.io.atomic_files import stage_files

    out = Path(output)
    check_files({"the input file": Path(source)}, {"the output file": out})
    if out.is_file() and not force:
        raise OutputError(f"{out} already exists. Choose another name, or pass --force.")
    with stage_files(out) as (file,):
        file.write_text(text, encoding="utf-8")
    terminal.show(f"[bold green]✓[/bold green] {out} written")
