"""`weft plan`: forecast the error of a release before any budget is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.fit_options import check_files
from weft.cli.shared_options import flatten_options, panel_option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.evaluation.database_forecast import DatabaseForecast
    from weft.evaluation.forecast import Plan

SCHEMAS = (".toml", ".json")
SHOWN = 12
"""Maximum columns on the screen; the page and the JSON contain all."""
BAR = 28


@flatten_options
def plan(
    table: Annotated[
        str, typer.Argument(metavar="SCHEMA", help="A schema (TOML or JSON), or a table together with --schema.")
    ],
    schema: o.SchemaFile = None,
    epsilon: o.Epsilon = 1.0,
    delta: o.Delta = 1e-5,
    rows: Annotated[
        int | None,
        typer.Option("--rows", "-n", min=1, metavar="N", help="Approximate number of rows. Default: 10,000."),
    ] = None,
    method: o.Method = None,
    option: o.Options = None,
    marginals: o.Marginals = None,
    target_error: Annotated[
        float | None,
        typer.Option("--target-error", metavar="SHARE", help="Find the epsilon for this error, for example 0.02."),
    ] = None,
    html: Annotated[str | None, panel_option(o.OUTPUT, "Also write an HTML page.", "--html", metavar="FILE")] = None,
    *,
    screen: o.Screen,
) -> None:
    """Forecast the error of a release before any budget is spent.

    No table is opened: the method runs on artificial rows with the schema's
    columns. State the approximate number of rows with --rows.

    \b
    [bold]Examples[/bold]
      weft plan stays.toml --rows 20000 --epsilon 1
      weft plan stays.toml --rows 20000 --target-error 0.02
      weft plan stays.toml --rows 20000 -e 0.5 --method mst --html plan.html
      weft plan hospital.toml --rows 5000    [dim]# related tables: 5,000 rows of the root[/dim]
    """
    terminal = screen.terminal()
    with guard_command(terminal):
        from weft.evaluation.forecast import ROWS
        from weft.evaluation.forecast import plan as planned
        from weft.schema.database import is_database_document
        from weft.synthesis.synthesizer import Synthesizer

        file = _schema_file(table, schema)
        out = None if html is None else Path(html)
        inputs = {"the schema": file, "the plan of marginals": None if marginals is None else Path(marginals)}
        check_files(inputs, {} if out is None else {"the page": out})
        if is_database_document(file):
            if out is not None:
                raise o.UsageError("--html: a plan of related tables has no page. Leave it out, or use --json")
            synthesizer = Synthesizer(
                epsilon, delta, method=method or "auto", **o.with_plan(o.parse_options(option), marginals)
            )
            with terminal.progress() as listener:
                related = synthesizer.plan(file, rows or ROWS, target_error=target_error, listener=listener)
            terminal.answer(related.to_dict() | {"files": []})
            terminal.show(*_render_related(related, rows is None))
            return
        with terminal.progress() as listener:
            made = planned(
                file,
                rows or ROWS,
                epsilon,
                delta,
                method=method or "auto",
                options=o.with_plan(o.parse_options(option), marginals),
                target_error=target_error,
                listener=listener,
            )
        if out is not None:
            _write_plan_page(made, out)
        terminal.answer(made.to_dict() | {"files": [str(out)] if out else []})
        terminal.show(*_render_plan(made, rows is None, out))


def _schema_file(table: str, schema: str | None) -> Path:
    """Return the path of the schema; a table is never opened."""
    if schema is not None:
        return Path(schema)
    if Path(table).suffix.lower() in SCHEMAS:
        return Path(table)
    raise o.UsageError(
        f"{table}: a plan requires a schema and opens no table. Pass --schema FILE; `weft schema draft {table} "
        "-o draft.toml` drafts one."
    )


def _write_plan_page(made: Plan, out: Path) -> None:
    from weft.evaluation.forecast import render_forecast_page
    from weft.io.atomic_files import stage_files

    with stage_files(out) as (draft,):
        draft.write_text(render_forecast_page(made), encoding="utf-8")


def _render_related(made: DatabaseForecast, assumed: bool) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    from weft.cli import summary
    from weft.display import format_percent
    from weft.evaluation.database_forecast import MEANING

    rows = []
    for name, table in made.tables.items():
        worst = max(table.columns, key=lambda column: table.columns[column], default=None)
        single = ["", ""]
        if worst is not None:
            single = [format_percent(table.mean), f"{format_percent(table.columns[worst])} ({worst})"]
        siblings = "" if table.siblings is None else format_percent(table.siblings)
        share = format_percent(table.share + table.share_siblings)
        rows.append((name, share, *single, format_percent(table.pairs), siblings))
    heads = "table", "budget", "columns", "worst", "pairs", "siblings"
    grid = summary.make_table(heads, rows, right=range(1, len(heads)), lined=False)
    head = f"Plan: related tables, epsilon {made.budget.epsilon:g}, {made.rows:,} rows of the root"
    parts: list[RenderableType] = [Text(head, style="bold")]
    if assumed:
        parts.append(
            Padding(Text(f"No number of rows was given: the plan assumes {made.rows:,}. Set it with --rows."), 0)
        )
    return [*parts, "", grid, "", Padding(Text(MEANING), 0)]


def _render_plan(made: Plan, assumed: bool, out: Path | None) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    from weft.evaluation.forecast import ERRORS, NOT_READ, describe_effort, describe_expectations

    def wrapped(text: str) -> RenderableType:
        return Padding(Text(text), 0)  # column names are never interpreted as markup

    head = f"Plan: method {made.method}, epsilon {made.epsilon:g}, {made.rows:,} rows"
    parts: list[RenderableType] = [Text(head, style="bold")]
    if assumed:
        parts.append(wrapped(f"No number of rows was given: the plan assumes {made.rows:,}. Set it with --rows."))
    parts += [
        "",
        *map(wrapped, describe_expectations(made)),
        "",
        _render_curve(made),
        "",
        _render_column_errors(made),
        "",
    ]
    parts += [wrapped(made.meaning), "", *map(wrapped, (describe_effort(made), ERRORS, NOT_READ))]
    return [*parts, Text(f"The page: {out}")] if out else parts


def _render_curve(made: Plan) -> RenderableType:
    from rich.table import Table

    from weft.display import format_percent

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for head, side in (("epsilon", "right"), ("columns", "right"), ("", "left"), ("pairs", "right"), ("", "left")):
        grid.add_column(head, justify=side)  # type: ignore[arg-type]
    top = max(max(point.columns, point.pairs) for point in made.curve) or 1.0
    for point in made.curve:
        cells = [f"{point.epsilon:g}"]
        for error in (point.columns, point.pairs):
            cells += [format_percent(error), "█" * max(round(BAR * error / top), 1)]
        grid.add_row(*cells, style="bold" if abs(point.epsilon - made.epsilon) < 1e-12 else "")
    return grid


def _render_column_errors(made: Plan) -> RenderableType:
    from weft.cli import summary
    from weft.display import format_percent

    errors = sorted(made.here.columns.items(), key=lambda pair: -pair[1])
    rows = [(name, f"{made.codes[name]:,}", format_percent(error)) for name, error in errors[:SHOWN]]
    if len(errors) > SHOWN:
        rows.append((f"and {len(errors) - SHOWN} more", "", f"below {format_percent(errors[SHOWN - 1][1])}"))
    return summary.make_table(("column", "values or bins", "expected error"), rows, right=(1, 2), lined=False)
