"""The result of discovery: shown as a table, and written as a schema that states its cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.terminal import Terminal
from weft.display import format_count
from weft.io.addresses import without_credentials

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.schema import Schema
    from weft.synthesis.discovery import Discovered
    from weft.synthesis.fit_request import FitRequest
    from weft.synthesis.synthesizer import Synthesizer

ENDING = ".schema.toml"

JOURNAL_PURPOSE = "PRIVATE: log of all charges; keep it"

HEADER = """\
# Schema of {name}, found privately at a cost of epsilon {epsilon} at delta {delta}.
#
# The facts listed under "paid" are released answers: they may be published, and later runs reuse them at no further
# privacy cost. The cost of those runs themselves adds to the one above. To improve a release, replace these facts by
# public knowledge (a code book, a legal range) that does not come from the rows, and add what else is publicly known:
# docs/columns.md, docs/rules.md.

"""


NAMES = "Column names are assumed to be public."


def found_beside(out: Path | None) -> Path | None:
    """Return the path of the discovered schema, next to the output."""
    return None if out is None or not out.name else out.with_suffix(ENDING)


def write_found(schema: Schema, path: Path, source: str | list[str], stamps: Sequence[str] = ()) -> None:
    """Write a discovered schema atomically, under the stamps of its run.

    It may be published: it contains no local paths.
    """
    from weft.io.atomic_files import stage_files
    from weft.privacy.conversions import at_most

    assert schema.discovery is not None
    cost = {key: at_most(value, 3) for key, value in schema.discovery.items()}
    text = (
        "".join(f"# {stamp}\n" for stamp in stamps)
        + HEADER.format(name=" ".join(_name_source_publicly(source).split()), **cost)
        + schema.to_toml()
    )
    with stage_files(path) as (file,):
        file.write_text(text, encoding="utf-8")


def keep_found(synthesizer: Synthesizer, path: Path | None, source: str | list[str]) -> Path | None:
    """Write the schema that a run has discovered, if any; return its path."""
    found = getattr(synthesizer, "discovered_", None)
    if found is None or path is None:
        return None
    from weft.synthesis.discovery import with_cost

    write_found(with_cost(found), path, source, found.stamps)
    return path


def show_discovered_columns(found: Discovered) -> RenderableType:
    """Show what discovery found, by column."""
    from rich.padding import Padding

    from weft.cli import summary

    rows = [
        (name, f"{words}{', may be missing' if found.schema.column(name).missing else ''}")
        for name, words in found.found.items()
    ]
    table = summary.make_table(("column", "found privately"), rows)
    table.caption, table.caption_justify = NAMES, "left"
    return Padding(table, (1, 0, 0, 2), expand=False)


def _name_source(source: str | list[str]) -> str:
    return without_credentials(source) or source if isinstance(source, str) else " ".join(source)


def _name_source_publicly(source: str | list[str]) -> str:
    """Return the name of a table without local folders: its file name, or its address."""
    first = source if isinstance(source, str) else source[0]
    return (without_credentials(first) or Path(first).name) + ("" if first == source else " and others")


def paid_draft(terminal: Terminal, request: FitRequest, out: Path, few_rows: bool) -> None:
    """Discover the schema of a table privately, and write it."""
    from weft.cli import summary
    from weft.cli.fit_options import ask_who_is_protected, check_request, check_size, prepare_fit

    check_request(request, terminal, {"the schema": out})
    request = ask_who_is_protected(request, terminal)
    check_size(request, terminal, few_rows=few_rows, share=1.0)
    with terminal.progress() as listener:
        request, synthesizer = prepare_fit(request, listener)
        schema = synthesizer.find_schema(
            request.source, unit=request.unit, rows_per_unit=request.rows_per_unit, listener=listener
        )
        write_found(schema, out, request.source, synthesizer.discovered_.stamps)
    terminal.show(
        summary.render_headline(f"{out}: {format_count(len(schema.columns), 'column')}, found privately"),
        show_discovered_columns(synthesizer.discovered_),
        *summary.render_files({out: "the schema; it may be published", Path(str(request.journal)): JOURNAL_PURPOSE}),
        summary.render_heading("Try next"),
        summary.render_commands(
            f"weft synth {_name_source(request.source)} --schema {out} --epsilon 1 -o synthetic.csv"
        ),
    )
