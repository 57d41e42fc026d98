"""`weft report`: HTML pages on the quality of synthetic tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import shared_options as o
from weft.cli.database_commands import describes_several_tables
from weft.cli.failure import guard_command
from weft.cli.fit_options import check_files
from weft.cli.shared_options import TextFile, UsageError, flatten_options, panel_option
from weft.cli.terminal import Terminal
from weft.errors import DataError, OutputError
from weft.io.formats import get_ending, list_writable_endings, replace_ending
from weft.progress import Listener, report_stage

if TYPE_CHECKING:
    from weft.evaluation.report import Report
    from weft.io.dialect import Dialect
    from weft.schema.database import Database
    from weft.synthesis.database_model import FittedDatabase
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
    str, panel_option(o.OUTPUT, "NAME.html; NAME.json is written next to it.", "--output", "-o", metavar="FILE")
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
      weft report data/ made/ --schema hospital.toml -o report/

    For related tables, REAL and SYNTH are folders: a page compares each table with the
    columns of its parent and the numbers of its children, another pairs of siblings or
    of consecutive rows. For histories, pass the --model; -o is a folder.
    """
    terminal = screen.terminal()
    with guard_command(terminal):
        page = Path(output)
        if schema is not None and describes_several_tables(schema):
            if releasable or model:
                raise UsageError(
                    "reports on related tables compare with the private ones: leave out --model, --releasable"
                )
            from weft.schema.database import Database

            _report_tables(terminal, (Path(reference), Path(synthetic)), page, Database.load(schema))
            return
        if model is not None and not releasable and (histories := _load_histories(model)):
            _report_tables(terminal, (Path(reference), Path(synthetic)), page, histories.database, histories)
            return
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


def _report_tables(
    terminal: Terminal,
    sides: tuple[Path, Path],
    folder: Path,
    database: Database,
    histories: FittedDatabase | None = None,
) -> None:
    """Write the pages on related tables, or on histories of a model, and one that links to them, to a folder."""
    from weft.cli import summary
    from weft.evaluation.report import write
    from weft.evaluation.report.database_report import (
        name_pairs,
        read_histories,
        read_tables,
        related_reports,
        render_index,
    )
    from weft.io.atomic_files import stage_files

    if folder.suffix:
        raise OutputError(f"reports on related tables are several pages: name a folder with -o, not {folder}")
    files = [{"rows": side} if histories else _find_files(database, side) for side in sides]
    named = [table.name for table in database.private]
    named += [name_pairs(table) for table in database.private[1:]]
    pages = {name: folder / f"{name.replace(', ', '-').replace(' ', '-')}.html" for name in named}
    inputs = {f"the table {name}": path for each in files for name, path in each.items()}
    folder.mkdir(parents=True, exist_ok=True)
    check_files(inputs, {f"the page {name}": path for name, path in pages.items()})
    written: dict[str, Path] = {}
    with terminal.progress() as listener:
        with report_stage(listener, "read"):
            if histories:
                real, made = (read_histories(histories, side) for side in sides)
            else:
                real, made = read_tables(database.private, files[0]), read_tables(database.tables, files[1])
        figures = {}
        for name, report in related_reports(database, real, made, listener):
            write(report, pages[name])
            written[name], figures[name] = pages[name], {h.name: h.value for h in report.headlines}
        with stage_files(folder / "index.html") as (file,):
            file.write_text(render_index(database, real, made, written), encoding="utf-8")
    shown = {folder / "index.html": "links to the pages"} | {path: name for name, path in written.items()}
    terminal.answer({"edition": "private", "headlines": figures, "files": [str(path) for path in shown]})
    if not terminal.quiet:
        terminal.show(
            summary.render_headline(f"A report on {len(real)} related tables, PRIVATE: it was computed from real rows"),
            *summary.render_files(shown),
        )


def _find_files(database: Database, folder: Path) -> dict[str, Path]:
    """Return the file of each table in a folder."""
    if not folder.is_dir():
        raise DataError(f"{folder}: a folder with one file for each table is needed")
    listed = sorted(path for path in folder.iterdir() if path.is_file() and get_ending(path) in list_writable_endings())
    return {path.name.partition(".")[0]: path for path in listed if path.name.partition(".")[0] in database}


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


def _load_histories(model: str) -> FittedDatabase | None:
    """Return the model of a single table of histories; None for another model."""
    from weft.synthesis.model_file import load_any_model

    o.check_model_file(Path(model))
    fitted: Any = load_any_model(Path(model))
    return fitted if getattr(fitted, "joined", ()) else None


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
