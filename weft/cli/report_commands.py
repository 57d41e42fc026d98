"""`weft report` and `weft explore`: HTML pages on the quality of synthetic tables and on public samples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.fit_options import check_files
from weft.cli.shared_options import TextFile, UsageError, flatten_options
from weft.cli.terminal import Terminal
from weft.errors import OutputError
from weft.io.formats import replace_ending
from weft.progress import Listener, report_stage

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.evaluation.report import Report
    from weft.evaluation.report.exploration import Exploration
    from weft.io.dialect import Dialect
    from weft.synthesis.fitted import Fitted


SUFFIXES = (".html", ".htm")


Reference = Annotated[
    str,
    typer.Argument(
        metavar="REAL", help="The private table, in any supported format. With --releasable: the model file."
    ),
]
Synthetic = Annotated[
    str,
    typer.Argument(
        metavar="SYNTH",
        help="The synthetic table as released. With a model: a table generated from it, with its card next to it.",
    ),
]
ModelBehind = Annotated[
    str | None,
    typer.Option("--model", metavar="FILE", help="Model that generated SYNTH: adds guarantee, ledger and noise bands."),
]
Releasable = Annotated[
    bool,
    typer.Option(
        "--releasable",
        metavar="",
        help="Use the model file instead of the private table. The report costs no budget and may be published.",
    ),
]
Page = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE", help="NAME.html; NAME.json is written next to it.", rich_help_panel=o.OUTPUT
    ),
]


@flatten_options
def report(
    reference: Reference,
    synthetic: Synthetic,
    text: TextFile,
    screen: o.Screen,
    schema: o.SchemaFile = None,
    model: ModelBehind = None,
    releasable: Releasable = False,
    output: Page = "report.html",
) -> None:
    """Report how good a synthetic table is: one page with charts, and the same figures as JSON.

    A report that compares with the private table is PRIVATE: keep it with the table.
    With --releasable, the report uses the model file alone and may be published with the data.
    It states a model's guarantee only for a table that has the model's card.

    \b
    [bold]Examples[/bold]
      weft report stays.csv synthetic.csv --schema stays.toml -o report.html
      weft report stays.csv synthetic.csv --model stays.weft -o report.html
      weft report --releasable stays.weft synthetic.csv -o report.html
    """
    terminal = screen.terminal()
    with guard_command(terminal):
        page = Path(output)
        _validate_arguments(reference, synthetic, schema, model, page, releasable=releasable)
        with terminal.progress() as listener:
            if releasable:
                made = _make_releasable_report(reference, synthetic, listener)
            else:
                made = _make_private_report(reference, synthetic, schema, model, text.dialect, listener)
            with report_stage(listener, "draw"):
                from weft.evaluation.report import write

                files = write(made, page)
        terminal.answer(
            {
                "edition": made.edition,
                "headlines": {headline.name: headline.value for headline in made.headlines},
                "stamps": list(made.stamps),
                "files": [str(path) for path in files],
            }
        )
        terminal.warn_stamps(made.stamps)
        if not (screen.as_json or screen.quiet):
            _print_report(terminal, made, files)


def _validate_arguments(
    reference: str, synthetic: str, schema: str | None, model: str | None, page: Path, *, releasable: bool
) -> None:
    if releasable and (schema or model):
        raise UsageError("--releasable takes the schema from the model file: leave out --schema and --model.")
    if not (releasable or schema or model):
        raise UsageError("a schema is required to read the tables: pass --schema FILE or --model FILE.")
    if page.suffix.lower() not in SUFFIXES:
        raise OutputError(f"cannot write {page}: the name must end in .html; the figures go to .json next to it.")
    given = {
        "the model" if releasable else "the private table": reference,
        "the synthetic table": synthetic,
        "its card": str(replace_ending(Path(synthetic), ".card.json")) if Path(synthetic).name else None,
        "the schema": schema,
        "the model that made it": model,
    }
    check_files(
        {what: Path(name) for what, name in given.items() if name},
        {"the page": page, "the figures as JSON": page.with_suffix(".json")},
    )


def _make_private_report(
    real: str, synthetic: str, schema: str | None, model: str | None, dialect: Dialect, listener: Listener
) -> Report:
    with report_stage(listener, "load"):
        from weft.evaluation.report import private_report
        from weft.schema import Schema

        fitted = None if model is None else _load_model(model)
        known = None if schema is None else Schema.load(schema)
    return private_report(real, synthetic, known, fitted=fitted, dialect=dialect, listener=listener)


def _make_releasable_report(model: str, synthetic: str, listener: Listener) -> Report:
    with report_stage(listener, "load"):
        from weft.evaluation.report import releasable_report

        fitted = _load_model(model)
    return releasable_report(fitted, synthetic, listener=listener)


def _load_model(model: str) -> Fitted:
    from weft.synthesis import model_file as modelfile

    o.check_model_file(Path(model))
    return modelfile.load_model(Path(model))


def _print_report(terminal: Terminal, made: Report, files: tuple[Path, Path]) -> None:
    from weft.cli import summary

    private = made.edition == "private"
    edition = "PRIVATE: it was computed from real rows" if private else "releasable: it may be published with the data"
    figures: dict[str, Any] = {headline.name.lower(): headline.figure for headline in made.headlines}
    terminal.show(
        summary.render_headline(f"A report on {made.rows:,} synthetic rows, {edition}"),
        *summary.render_stamps(made.stamps),
        summary.render_facts(figures),
        *summary.render_files({files[0]: "the page", files[1]: "the same figures as JSON"}),
    )


SHOWN = 25
"""Maximum pairs on the screen; the page and the JSON contain all."""
VALUES = 5
BAR = 24

MEANING = (
    "InDif: the share of rows that would have to change for two columns to be independent. Chance: the approximate "
    "InDif of independent columns with the same number of rows."
)


@flatten_options
def explore(
    table: Annotated[str, typer.Argument(metavar="PUBLIC_TABLE", help="A public table: CSV, Parquet or another file.")],
    schema: Annotated[
        str | None,
        typer.Option("--schema", "-s", metavar="FILE", help="Schema of the table. Default: drafted from the rows."),
    ] = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Also write an HTML page.", rich_help_panel=o.OUTPUT)
    ] = None,
    *,
    screen: o.Screen,
) -> None:
    """Show the columns of a public sample and how strongly pairs of them are related.

    For public data only: results have no noise, and nothing is charged. Choosing
    what to measure from exact private results would break the guarantee.

    \b
    [bold]Examples[/bold]
      weft explore last-years-release.csv
      weft explore sample.parquet --schema table.toml --html sample.html
    """
    terminal = screen.terminal()
    with guard_command(terminal):
        out = None if html is None else Path(html)
        inputs = {"the table": Path(table), "the schema": None if schema is None else Path(schema)}
        check_files(inputs, {} if out is None else {"the page": out})
        with terminal.progress() as listener, report_stage(listener, "look"):
            from weft.drafting.draft_sources import draft_source
            from weft.evaluation.report.editions import read_coded
            from weft.evaluation.report.exploration import ONLY_PUBLIC
            from weft.evaluation.report.exploration import explore_columns as look
            from weft.schema import Schema

            known = Schema.from_toml(draft_source(table)) if schema is None else Schema.load(schema)
            coded = read_coded(Path(table), known)
            found = look(coded.codec, coded.records)
        if out is not None:
            from weft.evaluation.report.exploration import render_exploration_page
            from weft.io.atomic_files import stage_files

            with stage_files(out) as (draft,):
                draft.write_text(render_exploration_page(found, Path(table).name), encoding="utf-8")
        if screen.quiet or screen.as_json:
            terminal.warn(ONLY_PUBLIC)
        terminal.answer(found.to_dict() | {"files": [str(out)] if out else []})
        terminal.show(*_render_exploration(found, out))


def _render_exploration(found: Exploration, out: Path | None) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    from weft.evaluation.report.exploration import ONLY_PUBLIC

    parts: list[RenderableType] = [Padding(Text(ONLY_PUBLIC, style="bold red"), 0), "", _render_columns(found), ""]
    if found.pairs:
        parts += [_render_pairs(found), ""]
        parts.append(Padding(Text(MEANING), 0))
    if len(found.pairs) > SHOWN:
        parts.append(Text(f"... and {len(found.pairs) - SHOWN:,} more pairs; --html FILE shows all of them."))
    return [*parts, Text(f"The page: {out}")] if out else parts


def _render_columns(found: Exploration) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("column")
    grid.add_column("values or bins", justify="right")
    grid.add_column("largest shares")
    for column in found.columns:
        ranked = sorted(zip(column.shares, column.labels, strict=True), key=lambda pair: -pair[0])[:VALUES]
        told = ", ".join(f"{label} {share:.0%}" for share, label in ranked)
        grid.add_row(Text(column.name), f"{column.codes:,}", Text(told))
    return grid


def _render_pairs(found: Exploration) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("pair")
    for head in ("InDif", "chance", "cells"):
        grid.add_column(head, justify="right")
    grid.add_column("")
    top = max(pair.indif for pair in found.pairs) or 1.0
    for pair in found.pairs[:SHOWN]:
        bar = "█" * round(BAR * pair.indif / top)
        cells = f"{pair.cells:,}"
        grid.add_row(Text(" and ".join(pair.columns)), f"{pair.indif:.1%}", f"{pair.chance:.1%}", cells, bar)
    return grid
