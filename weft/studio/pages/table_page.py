"""Add a table, and the table page: preview and privacy unit."""

from __future__ import annotations

import io
from typing import IO, Annotated, Any

import pyarrow.csv
from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.responses import HTMLResponse, Response

from weft.curator import PrivateTable
from weft.errors import DataError, SchemaError, WeftError
from weft.hospital import hospital, hospital_database, hospital_database_schema, hospital_schema
from weft.studio.app import Studio, TheStudio, TheTable, redirect_to
from weft.studio.column_editor import find_schema_fault, first_schema, set_protected_column
from weft.studio.related_schema import TALL, WIDE, change_links, guess_database, list_tables, read_root
from weft.studio.workspace import Table, write_small_file
from weft.synthesis.discovery import possible_units

router = APIRouter()
PREVIEW = 12
"""Rows in the private preview."""
DEMO_ROWS = 5_000
_MAX_CELL_LENGTH = 60


@router.post("/tables")
def add(
    studio: TheStudio,
    file: Annotated[list[UploadFile] | None, File()] = None,
    source: Annotated[str, Form()] = "",
    tables: Annotated[str, Form()] = "",
) -> Response:
    """Add a table, or several related ones: uploaded files, or a path or address."""
    files = {each.filename: each.file for each in file or () if each.filename}
    try:
        if files:
            table = studio.desk.take_in(files)
        elif source.strip():
            table = studio.desk.point_at(source.strip(), [each.strip() for each in tables.split(",") if each.strip()])
        else:
            raise DataError("choose a file, or enter its path")
        try:
            names = {name: _read_names(each) for name, each in table.sources().items()}
            columns = next(iter(names.values()))
            related = bool(table.facts.tables)
            write_small_file(table.schema, guess_database(names) if related else first_schema(columns))
            table.change(tables=names if related else {})
        except (WeftError, OSError):
            studio.desk.remove(table)
            raise
    except WeftError as error:
        return studio.page("home", 400, tables=studio.desk.tables(), table=None, step=None, wrong=str(error))
    return redirect_to(f"/t/{table.id}")


def _read_names(source: str) -> list[str]:
    names = [name for name in PrivateTable(source).column_names() if name]
    if not names:
        raise DataError("the file has no column names: they are expected in its first line")
    return names


@router.post("/tables/demo")
def demo(studio: TheStudio, related: Annotated[str, Form()] = "") -> Response:
    """Add the table of a fictional hospital, or three related ones, with the public schema."""
    made = hospital_database() if related else {"fictional-hospital": hospital(rows=DEMO_ROWS)}
    files: dict[str, IO[bytes]] = {f"{name}.csv": io.BytesIO() for name in made}
    for rows, packed in zip(made.values(), files.values(), strict=True):
        pyarrow.csv.write_csv(rows, packed)
        packed.seek(0)
    table = studio.desk.take_in(files).change(rows=DEMO_ROWS)
    if related:
        table = table.change(tables={name: rows.schema.names for name, rows in made.items()})
    write_small_file(table.schema, hospital_database_schema() if related else hospital_schema())
    return redirect_to(f"/t/{table.id}")


@router.get("/t/{table}")
def table_page(studio: TheStudio, table: TheTable) -> HTMLResponse:
    """Show the preview of a table, and ask who is protected; for related tables, show keys and links."""
    return _render_table_page(studio, table)


def _render_table_page(
    studio: Studio, table: Table, wrong: str = "", status: int = 200, text: str | None = None
) -> HTMLResponse:
    if not table.facts.tables:
        return studio.page("table", status, table=table, step="", **_inspect_table(studio, table), wrong=wrong)
    held = table.schema.read_text(encoding="utf-8") if text is None else text
    try:
        shown = list_tables(held, table.facts.tables)
    except SchemaError as error:
        shown, wrong = [], str(error)
    fault = "" if wrong else find_schema_fault(held, table.folder)
    root = read_root(held)
    size = max((each.left for each in shown), default=0) + WIDE, max((each.top for each in shown), default=0) + TALL
    return studio.page(
        "links", status, table=table, step="", tables=shown, root=root, wrong=wrong, fault=fault, text=held, size=size,
        wide=WIDE, tall=TALL,
    )  # fmt: skip


@router.post("/t/{table}/links")
async def links(studio: TheStudio, table: TheTable, request: Request) -> Response:
    """Save root, keys and links of related tables, or the whole schema file."""
    form = {key: str(value) for key, value in (await request.form()).items()}
    text = table.schema.read_text(encoding="utf-8")
    try:
        made = form["text"].replace("\r\n", "\n") if "text" in form else change_links(text, form)
    except SchemaError as error:
        return _render_table_page(studio, table, str(error), 400)
    if wrong := find_schema_fault(made, table.folder):
        return _render_table_page(studio, table, wrong, 400, made)
    write_small_file(table.schema, made)
    table.change(unit=read_root(made))
    return redirect_to(f"/t/{table.id}{form.get('then', '')}")


@router.post("/t/{table}/who")
def who(
    studio: TheStudio,
    table: TheTable,
    unit: Annotated[str, Form()] = "",
    column: Annotated[str, Form()] = "",
    rows_per_unit: Annotated[int, Form(ge=1, le=10_000)] = 5,
    time: Annotated[str, Form()] = "",
) -> Response:
    """Save who is protected, which only the user can state."""
    if unit not in ("rows", "column") or (unit == "column" and not column):
        told = "choose the column that identifies the person, or that every row belongs to a different person"
        return _render_table_page(studio, table, told, 400)
    chosen: str | bool = column if unit == "column" else False
    ordered = time if unit == "column" and time != column else ""
    text = set_protected_column(table.schema.read_text(encoding="utf-8"), chosen, rows_per_unit)
    write_small_file(table.schema, text)
    table.change(unit=chosen, rows_per_unit=rows_per_unit, time=ordered)
    return redirect_to(f"/t/{table.id}/columns")


@router.post("/t/{table}/remove")
def remove(studio: TheStudio, table: TheTable) -> Response:
    """Remove a table from the studio."""
    if studio.jobs.busy(table.folder):
        raise DataError("a run of this table is active: wait for it, or cancel it first")
    studio.desk.remove(table)
    return redirect_to("/")


def _inspect_table(studio: Studio, table: Table) -> dict[str, Any]:
    """Return the first rows and the columns that may identify a person; read once (PRIVATE)."""
    if table.id not in studio.looked:
        first = PrivateTable(table.source).first_rows(PREVIEW)
        rows = [[_shorten_cell(value) for value in row.values()] for row in first.to_pylist()]
        studio.looked[table.id] = {"names": first.schema.names, "rows": rows, "units": possible_units(table.source)}
    found: dict[str, Any] = studio.looked[table.id]
    return found


def _shorten_cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _MAX_CELL_LENGTH else f"{text[:_MAX_CELL_LENGTH]}..."
