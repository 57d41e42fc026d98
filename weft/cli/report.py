"""`weft report`: how good a synthetic table is, as a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import options as o
from weft.cli.failure import guard
from weft.cli.fitting import check_files
from weft.cli.options import UsageError
from weft.cli.sets import spread
from weft.cli.terminal import Terminal
from weft.cli.textfiles import TextFile
from weft.errors import OutputError
from weft.files import beside
from weft.progress import Listener, stage

if TYPE_CHECKING:
    from weft.reading.dialect import Dialect
    from weft.release.modelfile import Fitted
    from weft.report import Report

SUFFIXES = (".html", ".htm")


Reference = Annotated[
    str,
    typer.Argument(
        metavar="REAL", help="The private table, in any format that is read. With --releasable: the model file."
    ),
]
Synthetic = Annotated[
    str,
    typer.Argument(
        metavar="SYNTH",
        help="The synthetic table, as it was released. With a model: a table that it made, its card beside it.",
    ),
]
ModelBehind = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="FILE", help="The model that made SYNTH: adds the guarantee, the ledger and noise bands."
    ),
]
Releasable = Annotated[
    bool,
    typer.Option(
        "--releasable",
        metavar="",
        help="Use the model file instead of the private table: free, and can be published.",
    ),
]
Page = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE", help="NAME.html; NAME.json comes with it.", rich_help_panel=o.OUTPUT
    ),
]


@spread
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

    Compared with the private table the report is PRIVATE: keep it with the table.
    With --releasable it is made from the model file alone and may go out with the data.
    Whatever is said of a model's guarantee is said only of a table with the model's card.

    \b
    [bold]Examples[/bold]
      weft report stays.csv synthetic.csv --schema stays.toml -o report.html
      weft report stays.csv synthetic.csv --model stays.weft -o report.html
      weft report --releasable stays.weft synthetic.csv -o report.html
    """
    terminal = screen.terminal()
    with guard(terminal):
        page = Path(output)
        _check(reference, synthetic, schema, model, page, releasable=releasable)
        with terminal.progress() as listener:
            if releasable:
                made = _releasable(reference, synthetic, listener)
            else:
                made = _private(reference, synthetic, schema, model, text.dialect, listener)
            with stage(listener, "draw"):
                from weft.report import write

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
            _tell(terminal, made, files)


def _check(
    reference: str, synthetic: str, schema: str | None, model: str | None, page: Path, *, releasable: bool
) -> None:
    """Refuse what could not be finished, before anything is read."""
    if releasable and (schema or model):
        raise UsageError("--releasable takes the schema from the model file: leave --schema and --model out.")
    if not (releasable or schema or model):
        raise UsageError("a schema is needed to read the tables: pass --schema FILE, or --model FILE for its own.")
    if page.suffix.lower() not in SUFFIXES:
        raise OutputError(f"cannot write {page}: name it .html; its twin will be .json.")
    given = {
        "the model" if releasable else "the private table": reference,
        "the synthetic table": synthetic,
        "its card": str(beside(Path(synthetic), ".card.json")) if Path(synthetic).name else None,
        "the schema": schema,
        "the model that made it": model,
    }
    check_files(
        {what: Path(name) for what, name in given.items() if name},
        {"the page": page, "its twin for machines": page.with_suffix(".json")},
    )


def _private(
    real: str, synthetic: str, schema: str | None, model: str | None, dialect: Dialect, listener: Listener
) -> Report:
    with stage(listener, "load"):
        from weft.report import private_report
        from weft.schema import Schema

        fitted = None if model is None else _load(model)
        known = None if schema is None else Schema.load(schema)
    return private_report(real, synthetic, known, fitted=fitted, dialect=dialect, listener=listener)


def _releasable(model: str, synthetic: str, listener: Listener) -> Report:
    with stage(listener, "load"):
        from weft.report import releasable_report

        fitted = _load(model)
    return releasable_report(fitted, synthetic, listener=listener)


def _load(model: str) -> Fitted:
    from weft.release import modelfile

    o.check_model_file(Path(model))
    return modelfile.load(Path(model))


def _tell(terminal: Terminal, made: Report, files: tuple[Path, Path]) -> None:
    from weft.cli import summary

    private = made.edition == "private"
    edition = "PRIVATE: it was computed from real rows" if private else "releasable: it may go out with the data"
    figures: dict[str, Any] = {headline.name.lower(): headline.figure for headline in made.headlines}
    terminal.show(
        summary.headline(f"A report on {made.rows:,} synthetic rows, {edition}"),
        *summary.stamps(made.stamps),
        summary.facts(figures),
        *summary.files({files[0]: "the page", files[1]: "the same figures, for machines"}),
    )
