"""Add a table, and the table page: preview and privacy unit."""

from __future__ import annotations

import io
from typing import Annotated, Any

import pyarrow.csv
from fastapi import APIRouter, Form, UploadFile
from fastapi.responses import HTMLResponse, Response

from weft.curator import PrivateTable
from weft.errors import DataError, WeftError
from weft.hospital import hospital, hospital_schema
from weft.studio.app import Studio, TheStudio, TheTable, redirect_to
from weft.studio.column_editor import first_schema, set_protected_column
from weft.studio.workspace import Table, write_small_file
from weft.synthesis.discovery import possible_units

router = APIRouter()
PREVIEW = 12
"""Rows in the private preview."""
DEMO_ROWS = 5_000
_MAX_CELL_LENGTH = 60


@router.post("/tables")
def add(studio: TheStudio, file: UploadFile | None = None, source: Annotated[str, Form()] = "") -> Response:
    """Add a table: an uploaded file, or a path or address."""
    try:
        if file is not None and file.filename:
            table = studio.desk.take_in(file.filename, file.file)
        elif source.strip():
            table = studio.desk.point_at(source.strip())
        else:
            raise DataError("choose a file, or enter its path")
        try:
            names = [name for name in PrivateTable(table.source).first_rows(1).schema.names if name]
            if not names:
                raise DataError("the file has no column names: they are expected in its first line")
            write_small_file(table.schema, first_schema(names))
        except (WeftError, OSError):
            studio.desk.remove(table)
            raise
    except WeftError as error:
        return studio.page("home", 400, tables=studio.desk.tables(), table=None, step=None, wrong=str(error))
    return redirect_to(f"/t/{table.id}")


@router.post("/tables/demo")
def demo(studio: TheStudio) -> Response:
    """Add the table of a fictional hospital, with its public schema."""
    packed = io.BytesIO()
    pyarrow.csv.write_csv(hospital(rows=DEMO_ROWS), packed)
    packed.seek(0)
    table = studio.desk.take_in("fictional-hospital.csv", packed).change(rows=DEMO_ROWS)
    write_small_file(table.schema, hospital_schema())
    return redirect_to(f"/t/{table.id}")


@router.get("/t/{table}")
def table_page(studio: TheStudio, table: TheTable) -> HTMLResponse:
    """Show the preview of a table, and ask who is protected."""
    return studio.page("table", table=table, step="", **_inspect_table(studio, table), wrong="")


@router.post("/t/{table}/who")
def who(
    studio: TheStudio,
    table: TheTable,
    unit: Annotated[str, Form()] = "",
    column: Annotated[str, Form()] = "",
    rows_per_unit: Annotated[int, Form(ge=1, le=10_000)] = 5,
) -> Response:
    """Save who is protected, which only the user can state."""
    if unit not in ("rows", "column") or (unit == "column" and not column):
        told = "choose the column that identifies the person, or that every row belongs to a different person"
        return studio.page("table", 400, table=table, step="", **_inspect_table(studio, table), wrong=told)
    chosen: str | bool = column if unit == "column" else False
    text = set_protected_column(table.schema.read_text(encoding="utf-8"), chosen, rows_per_unit)
    write_small_file(table.schema, text)
    table.change(unit=chosen, rows_per_unit=rows_per_unit)
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
