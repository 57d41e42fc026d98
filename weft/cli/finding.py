"""What was found privately: shown as a table, and written as a schema that says what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.terminal import Terminal
from weft.reading.addresses import without_credentials
from weft.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.cli.fitting import Request
    from weft.discovery import Discovered
    from weft.schema import Schema
    from weft.synthesizer import Synthesizer

ENDING = ".schema.toml"

HEADER = """\
# What was found privately about the columns of {name}, for epsilon {epsilon} at delta {delta}.
#
# The facts listed under "paid" are released answers: they may be shown to anybody, and later runs use this file at no
# further cost; what those cost adds to it. To improve a release, replace what is listed there by what you know without
# looking at the rows (a code book, a legal range), and say what else is known: docs/columns.md, docs/rules.md.

"""


def found_beside(out: Path | None) -> Path | None:
    """Return where the schema that was found is written: beside the output."""
    return None if out is None or not out.name else out.with_suffix(ENDING)


def write_found(schema: Schema, path: Path, source: str | list[str], stamps: Sequence[str] = ()) -> None:
    """Write a schema that was found, whole or not at all, under the stamps of its run.

    It may be given away: it names no folder of this machine.
    """
    from weft.privacy.accounting import at_most
    from weft.release.atomic import staged

    assert schema.discovery is not None
    cost = {key: at_most(value, 3) for key, value in schema.discovery.items()}
    text = (
        "".join(f"# {stamp}\n" for stamp in stamps)
        + HEADER.format(name=" ".join(_called(source).split()), **cost)
        + schema.to_toml()
    )
    with staged(path) as (file,):
        file.write_text(text, encoding="utf-8")


def keep_found(synthesizer: Synthesizer, path: Path | None, source: str | list[str]) -> Path | None:
    """Write what a run has found, if it had to; return the file."""
    found = getattr(synthesizer, "discovered_", None)
    if found is None or path is None:
        return None
    from weft.discovery import with_cost

    write_found(with_cost(found), path, source, found.stamps)
    return path


def shown(found: Discovered) -> RenderableType:
    """Show what was found of each column."""
    from rich import box
    from rich.markup import escape
    from rich.padding import Padding
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("column", no_wrap=True)
    table.add_column("found privately")
    for name, words in found.found.items():
        missing = ", may be missing" if found.schema.column(name).missing else ""
        table.add_row(escape(name), escape(f"{words}{missing}"))
    return Padding(table, (1, 0, 0, 2), expand=False)


def _named(source: str | list[str]) -> str:
    """Return what a table is called, without who reads it."""
    return without_credentials(source) or source if isinstance(source, str) else " ".join(source)


def _called(source: str | list[str]) -> str:
    """Return what a table is called by who does not know this machine: its file, or its address."""
    first = source if isinstance(source, str) else source[0]
    return (without_credentials(first) or Path(first).name) + ("" if first == source else " and others")


def paid_draft(terminal: Terminal, request: Request, out: Path) -> None:
    """Find privately what the columns of a table are, and write it as a schema."""
    from weft.cli import summary

    request.check(terminal, {"the schema": out})
    request = request.asked(terminal)
    with terminal.progress() as listener:
        synthesizer = request.synthesizer(listener)
        schema = synthesizer.find_schema(request.source, listener=listener, **request.who.settings)
        write_found(schema, out, request.source, synthesizer.discovered_.stamps)
    terminal.show(
        summary.headline(f"{out}: {counted(len(schema.columns), 'column')}, found privately"),
        shown(synthesizer.discovered_),
        *summary.files({out: "the schema: may be shown to anybody", request.journal: "what was spent: keep it"}),
        summary.heading("Try next"),
        summary.commands(f"weft synth {_named(request.source)} --schema {out} --epsilon 1 -o synthetic.csv"),
    )
