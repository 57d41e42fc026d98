"""The columns page: facts about each column with their origin, and rules between columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.responses import HTMLResponse, Response

from weft.drafting.exchange import read_metadata
from weft.drafting.review import without_item
from weft.errors import SchemaError, WeftError
from weft.studio import column_editor as c
from weft.studio import command_text as spoken
from weft.studio.app import Studio, TheStudio, TheTable, redirect_to
from weft.studio.column_editor import fill_open_columns, list_fillable_columns
from weft.studio.workspace import Table, write_small_file

router = APIRouter()
DRAFT, FIND = "draft", "find"
MAX_CODE_BOOK = 1 << 24
"""Bytes of a code book that are read."""


@router.get("/t/{table}/columns")
def columns(studio: TheStudio, table: TheTable, taken: Literal["yes", ""] = "") -> HTMLResponse:
    """Show the columns."""
    return _render_columns_page(studio, table, taken=taken)


@router.post("/t/{table}/columns/edit")
async def edit(studio: TheStudio, table: TheTable, request: Request) -> Response:
    """Change the facts of one column."""
    form = {key: str(value) for key, value in (await request.form()).items()}
    column = form.pop("column", "")
    return _save_schema(studio, table, lambda text: c.change_column(text, column, form, table.folder), column, form)


@router.post("/t/{table}/columns/fact")
def fact(
    studio: TheStudio,
    table: TheTable,
    how: Annotated[Literal["public", "private"], Form()],
    column: Annotated[str, Form()] = "",
    name: Annotated[str, Form()] = "",
) -> Response:
    """Declare a fact read from the rows public, or leave it to discovery."""
    return _save_schema(studio, table, lambda text: c.settle_fact(text, column, name, how), column)


@router.post("/t/{table}/columns/rule")
def rule(studio: TheStudio, table: TheTable, rule: Annotated[str, Form()] = "") -> Response:
    """Add a rule."""
    return _save_schema(studio, table, lambda text: c.with_rule(text, rule, table.folder), "", rule=rule)


@router.post("/t/{table}/columns/guided")
def guided(
    studio: TheStudio,
    table: TheTable,
    kind: Annotated[Literal["order", "unique", "sum", "per_unit"], Form()],
    columns: Annotated[list[str] | None, Form()] = None,
    result: Annotated[str, Form()] = "",
) -> Response:
    """Add a rule from a form, or state the columns that stay the same for a person."""
    chosen = [name for name in columns or () if name]
    return _save_schema(studio, table, lambda text: c.with_guided_rule(text, kind, chosen, result, table.folder), "")


@router.post("/t/{table}/columns/unrule")
def unrule(studio: TheStudio, table: TheTable, index: Annotated[int, Form()]) -> Response:
    """Remove a rule."""
    return _save_schema(studio, table, lambda text: without_item(text, "rules", index), "")


@router.post("/t/{table}/columns/import")
def import_code_book(studio: TheStudio, table: TheTable, file: Annotated[UploadFile, File()]) -> Response:
    """Fill open columns from a code book or other metadata; no row is read, and what is stated stays."""

    def change(text: str) -> str:
        with TemporaryDirectory() as folder:
            place = Path(folder) / Path(file.filename or "code-book.csv").name
            place.write_bytes(file.file.read(MAX_CODE_BOOK))
            found, _ = read_metadata(place)
        if not list_fillable_columns(text, found):
            raise SchemaError("the code book describes no column that is still open: compare the names of the columns")
        return fill_open_columns(text, found)

    return _save_schema(studio, table, change, "")


@router.post("/t/{table}/columns/text")
def text(studio: TheStudio, table: TheTable, text: Annotated[str, Form()] = "") -> Response:
    """Replace the whole schema file."""
    typed = text.replace("\r\n", "\n")
    if wrong := c.find_schema_fault(typed, table.folder):
        return _render_columns_page(studio, table, wrong, 400, typed=typed)
    write_small_file(table.schema, typed)
    return redirect_to(f"/t/{table.id}/columns")


@router.post("/t/{table}/columns/draft")
def draft(studio: TheStudio, table: TheTable, ticket: Annotated[str, Form()]) -> Response:
    """Draft a schema from the rows, for review."""
    studio.start(table, table.job(DRAFT), spoken.write_draft_command(table), ticket)
    return redirect_to(f"/t/{table.id}/columns")


@router.post("/t/{table}/columns/find")
def find(
    studio: TheStudio, table: TheTable, ticket: Annotated[str, Form()], epsilon: Annotated[float, Form(gt=0, le=20)]
) -> Response:
    """Discover a schema privately, at a cost."""
    if table.facts.unit is None:
        raise SchemaError("state first who is protected, on the table page")
    studio.start(table, table.job(FIND), spoken.write_discovery_command(table, epsilon), ticket)
    return redirect_to(f"/t/{table.id}/columns")


@router.post("/t/{table}/columns/take")
def take(studio: TheStudio, table: TheTable, run: Annotated[str, Form()] = "") -> Response:
    """Use discovered facts, of a search or a run, for the open columns."""
    place = table.run(run) / spoken.FOUND_BY_RUN if run else table.folder / spoken.FOUND
    if not place.is_file():
        raise SchemaError("discovery found nothing there")
    made = fill_open_columns(table.schema.read_text(encoding="utf-8"), place.read_text(encoding="utf-8"))
    if wrong := c.find_schema_fault(made, table.folder):
        return _render_columns_page(studio, table, wrong, 400)
    write_small_file(table.schema, made)
    return redirect_to(f"/t/{table.id}/columns?taken=yes")


@router.get("/t/{table}/jobs/{name}")
def job(studio: TheStudio, table: TheTable, name: Literal["draft", "find", "plan"]) -> HTMLResponse:
    """Show the progress of a command, as a part of a page."""
    found = studio.jobs.job(table.job(name))
    return studio.page("progress", job=found, table=table, step="", cancel=f"/t/{table.id}/jobs/{name}/cancel")


@router.post("/t/{table}/jobs/{name}/cancel")
def cancel(studio: TheStudio, table: TheTable, name: Literal["draft", "find", "plan"]) -> Response:
    """Cancel a command of this table."""
    studio.jobs.cancel(table.job(name))
    return redirect_to(f"/t/{table.id}/{'budget' if name == 'plan' else 'columns'}")


def _save_schema(
    studio: Studio,
    table: Table,
    change: Callable[[str], str],
    column: str,
    form: Mapping[str, str] | None = None,
    **typed: str,
) -> Response:
    """Change the schema file; on an error, show it and keep both the file and the typed contents."""
    try:
        made = change(table.schema.read_text(encoding="utf-8"))
    except WeftError as error:
        told = re.sub(r"^line \d+: ", "", str(error))  # a form has no lines
        told = told.replace("range must be [lowest, highest]", "the smallest possible value must be below the largest")
        return _render_columns_page(studio, table, told, 400, column, form, **typed)
    write_small_file(table.schema, made)
    names = [each.name for each in c.list_shown_columns(table.schema.read_text(encoding="utf-8"))]
    place = names.index(column) if column in names else 0
    return redirect_to(f"/t/{table.id}/columns{f'#c-{place}' if column else ''}")


def _render_columns_page(
    studio: Studio,
    table: Table,
    wrong: str = "",
    status: int = 200,
    open_column: str = "",
    form: Mapping[str, str] | None = None,
    **typed: str,
) -> HTMLResponse:
    text = table.schema.read_text(encoding="utf-8")
    if isinstance(table.facts.unit, str) and c.get_protected_column(text) != table.facts.unit:  # drafts lack it
        text = c.set_protected_column(text, table.facts.unit, table.facts.rows_per_unit)
        write_small_file(table.schema, text)
    shown = c.list_shown_columns(text, open_column, form, table.folder)
    jobs = {name: studio.jobs.job(table.job(name)) for name in (DRAFT, FIND)}
    found = table.folder / spoken.FOUND
    return studio.page(
        "columns",
        status,
        table=table,
        step="columns",
        columns=shown,
        kinds=c.KINDS_SHOWN,
        rules=c.list_rules(text),
        text=typed.get("typed", text),
        rule=typed.get("rule", ""),
        fault=c.find_schema_fault(text, table.folder),
        wrong=wrong,
        open_column=open_column if any(column.name == open_column for column in shown) else "",
        jobs=jobs,
        found=list_fillable_columns(text, found.read_text(encoding="utf-8")) if found.is_file() else [],
        taken=typed.get("taken", ""),
        left=sum(fact.origin == "read" for column in shown for fact in column.facts),
        can_find=sum(fact.origin == "read" and fact.private for column in shown for fact in column.facts),
        said={"draft": spoken.write_draft_command(table), "find": spoken.write_discovery_command(table, 0.1)},
    )
