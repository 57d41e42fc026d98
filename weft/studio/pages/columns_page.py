"""The columns page: facts about each column with their origin, and rules between columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, File, Form, Request, UploadFile
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
MAX_FIELDS = 100_000
"""Fields of all columns that are saved together."""


@dataclass(frozen=True)
class Columns:
    """The columns that a page shows: of the only table, or of one of several related tables."""

    studio: Studio
    table: Table
    of: str
    """Name of the related table; empty for a single one."""

    @property
    def place(self) -> str:
        """The page's address."""
        return f"/t/{self.table.id}/columns{f'?of={quote(self.of)}' if self.of else ''}"

    def read(self) -> str:
        """Return the schema of the table."""
        text = self.table.schema.read_text(encoding="utf-8")
        return c.extract_table(text, self.of, self.table.facts.tables[self.of]) if self.of else text

    def write(self, text: str) -> None:
        """Save the schema of the table."""
        if self.of:
            text = c.insert_table(self.table.schema.read_text(encoding="utf-8"), self.of, text)
            if wrong := c.find_schema_fault(text, self.table.folder):
                raise SchemaError(wrong)
        write_small_file(self.table.schema, text)


def get_columns(studio: TheStudio, table: TheTable, of: str = "") -> Columns:
    """Return the columns named in an address."""
    tables = table.facts.tables
    return Columns(studio, table, of if of in tables else next(iter(tables), ""))


TheColumns = Annotated[Columns, Depends(get_columns)]


@router.get("/t/{table}/columns")
def columns(shown: TheColumns, taken: Literal["yes", ""] = "", saved: int = 0, describe: str = "") -> HTMLResponse:
    """Show the columns, one of them with its form."""
    return _render_columns_page(shown, taken=taken, saved=saved, describe=describe)


@router.get("/t/{table}/columns/fields")
def fields(shown: TheColumns, column: str) -> HTMLResponse:
    """Show the form of one column, as a part of the page."""
    for each in c.list_shown_columns(shown.read(), shown.table.folder):
        if each.name == column:
            return shown.studio.page("fields", column=each, kinds=c.KINDS_SHOWN, fields=c.FIELDS)
    raise SchemaError("the table has no such column")


@router.post("/t/{table}/columns/edit")
async def edit(shown: TheColumns, request: Request) -> Response:
    """Save all columns that were changed, and settle the facts whose button was pressed."""
    forms: dict[str, dict[str, str]] = {}
    for key, value in (await request.form(max_fields=MAX_FIELDS)).items():
        column, _, name = key.rpartition(":")
        forms.setdefault(column, {})[name] = str(value)
    pressed = forms.pop("", {})
    text, errors = c.change_columns(shown.read(), forms, shown.table.folder)
    try:
        if settled := pressed.get("settle"):
            how, name, column = settled.split(" ", 2)
            text = c.settle_fact(text, column, name, "public" if how == "public" else "private")
        shown.write(text)
    except WeftError as error:
        return _render_columns_page(shown, c.describe_form_error(error), 400, forms, dict.fromkeys(forms, ""))
    if errors:
        return _render_columns_page(shown, "", 400, forms, errors)
    names = [each.name for each in c.list_shown_columns(text)]
    first = min((names.index(name) for name in ((column,) if settled else forms) if name in names), default=0)
    mark = f"{'&' if shown.of else '?'}saved={len(forms)}#c-{first}"
    return redirect_to(f"/t/{shown.table.id}/budget" if pressed.get("then") == "budget" else shown.place + mark)


@router.post("/t/{table}/columns/rule")
def rule(shown: TheColumns, rule: Annotated[str, Form()] = "") -> Response:
    """Add a rule."""
    return _save_schema(shown, lambda text: c.with_rule(text, rule, shown.table.folder), rule=rule)


@router.post("/t/{table}/columns/guided")
def guided(
    shown: TheColumns,
    kind: Annotated[Literal["order", "unique", "sum", "per_unit"], Form()],
    columns: Annotated[list[str] | None, Form()] = None,
    result: Annotated[str, Form()] = "",
) -> Response:
    """Add a rule from a form, or state the columns that stay the same for a person."""
    chosen = [name for name in columns or () if name]
    return _save_schema(shown, lambda text: c.with_guided_rule(text, kind, chosen, result, shown.table.folder))


@router.post("/t/{table}/columns/unrule")
def unrule(shown: TheColumns, index: Annotated[int, Form()]) -> Response:
    """Remove a rule."""
    return _save_schema(shown, lambda text: without_item(text, "rules", index))


@router.post("/t/{table}/columns/import")
def import_code_book(shown: TheColumns, file: Annotated[UploadFile, File()]) -> Response:
    """Fill open columns from a code book or other metadata; no row is read, and what is stated stays."""

    def change(text: str) -> str:
        with TemporaryDirectory() as folder:
            place = Path(folder) / Path(file.filename or "code-book.csv").name
            place.write_bytes(file.file.read(MAX_CODE_BOOK))
            found, _ = read_metadata(place)
        if not list_fillable_columns(text, found):
            raise SchemaError("the code book describes no column that is still open: compare the names of the columns")
        return fill_open_columns(text, found)

    return _save_schema(shown, change)


@router.post("/t/{table}/columns/text")
def text(shown: TheColumns, text: Annotated[str, Form()] = "") -> Response:
    """Replace the whole schema file."""
    typed = text.replace("\r\n", "\n")
    if wrong := c.find_schema_fault(typed, shown.table.folder):
        return _render_columns_page(shown, wrong, 400, typed=typed)
    shown.write(typed)
    return redirect_to(shown.place)


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
def take(shown: TheColumns, run: Annotated[str, Form()] = "") -> Response:
    """Use discovered facts, of a search or a run, for the open columns."""
    table = shown.table
    place = table.run(run) / spoken.FOUND_BY_RUN if run else table.folder / spoken.FOUND
    if not place.is_file():
        raise SchemaError("discovery found nothing there")
    made = fill_open_columns(table.schema.read_text(encoding="utf-8"), place.read_text(encoding="utf-8"))
    if wrong := c.find_schema_fault(made, table.folder):
        return _render_columns_page(shown, wrong, 400)
    shown.write(made)
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


def _save_schema(shown: Columns, change: Callable[[str], str], rule: str = "") -> Response:
    """Change the schema; on an error, show it and keep both the file and the typed rule."""
    try:
        shown.write(change(shown.read()))
    except WeftError as error:
        return _render_columns_page(shown, c.describe_form_error(error), 400, rule=rule)
    return redirect_to(shown.place)


def _render_columns_page(
    shown: Columns,
    wrong: str = "",
    status: int = 200,
    forms: c.Forms = MappingProxyType({}),
    errors: Mapping[str, str] | None = None,
    **typed: Any,
) -> HTMLResponse:
    studio, table, text = shown.studio, shown.table, shown.read()
    if isinstance(table.facts.unit, str) and not shown.of and c.get_protected_column(text) != table.facts.unit:
        text = c.set_protected_column(text, table.facts.unit, table.facts.rows_per_unit)  # drafts lack it
        shown.write(text)
    listed = c.list_shown_columns(text, table.folder, forms, errors)
    left = [fact for column in listed for fact in column.facts if fact.origin == "read"]
    found = table.folder / spoken.FOUND
    return studio.page(
        "columns",
        status,
        table=table,
        step="columns",
        of=shown.of,
        place=shown.place,
        query=shown.place.partition("/columns")[2],
        columns=listed,
        kinds=c.KINDS_SHOWN,
        fields=c.FIELDS,
        rules=c.list_rules(text),
        fault=c.find_schema_fault(text, table.folder),
        wrong=wrong
        or next(
            (
                f'"{name}": {told}'
                for name, told in (errors or {}).items()
                if name not in {column.name for column in listed}
            ),
            "",
        ),
        jobs={name: studio.jobs.job(table.job(name)) for name in (DRAFT, FIND)},
        found=list_fillable_columns(text, found.read_text(encoding="utf-8")) if found.is_file() else [],
        left=len(left),
        can_find=any(fact.private for fact in left),
        said={"draft": spoken.write_draft_command(table), "find": spoken.write_discovery_command(table, 0.1)},
        **{"rule": "", "typed": text, "taken": "", "saved": 0, "describe": ""} | typed,
    )
