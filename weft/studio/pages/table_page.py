"""Add a table, and the table page: preview, privacy unit, and a first guess and a diagram of related tables."""

import io
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Annotated, Any

import pyarrow.csv
import tomli_w
from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.responses import HTMLResponse, Response

from weft.curator import PrivateTable
from weft.errors import DataError, SchemaError, WeftError
from weft.hospital import hospital, hospital_database, hospital_database_schema, hospital_schema
from weft.studio.app import Studio, TheStudio, TheTable, redirect_to
from weft.studio.column_editor import find_schema_fault, first_schema, list_foreign_keys, set_protected_column
from weft.studio.workspace import Table, write_small_file
from weft.synthesis.discovery import possible_units

router = APIRouter()
PREVIEW = 12
"""Rows in the private preview."""
DEMO_ROWS = 5_000
_MAX_CELL_LENGTH = 60
WIDE, TALL, APART = 190, 44, 90
"""Size of a box of the diagram, and the room between two boxes in a row."""

Names = Mapping[str, Sequence[str]]
"""The columns of each table."""


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


@dataclass(frozen=True)
class TableShown:
    """A table of the form."""

    name: str
    columns: Sequence[str]
    key: str
    link: str
    """Column that refers to the parent; empty for a root."""
    parent: str
    time: str
    most: str
    """Contribution bound; empty if it is not stated."""
    left: int = 0
    top: int = 0


def guess_database(tables: Names) -> str:
    """Return a first schema of related tables, from the names of tables and columns alone."""
    keys = {name: _guess_key(name, columns) for name, columns in tables.items()}
    parents = {name: list(_guess_parents(name, columns, keys)) for name, columns in tables.items()}
    used = {parent for found in parents.values() for _, parent in found}
    keys = {name: key if name in used else "" for name, key in keys.items()}  # a key that no table needs is a column
    form: dict[str, str] = {}
    for number, name in enumerate(tables):
        # Of several parents, the one that has most parents itself is the nearest.
        column, parent = max(parents[name], key=lambda found: len(parents[found[1]]), default=("", ""))
        form |= {f"key-{number}": keys[name], f"link-{number}": column, f"parent-{number}": parent}
    tops = [name for name in tables if keys[name] and not parents[name]]
    named = sorted(tops, key=lambda name: -sum(parent == name for each in parents.values() for _, parent in each))
    return change_links(tomli_w.dumps({"tables": {name: {} for name in tables}}), form | {"root": (*named, "")[0]})


def _guess_key(table: str, columns: Sequence[str]) -> str:
    one = table.lower().removesuffix("s")
    likely = ("id", table.lower(), one, *(f"{name}{end}" for name in (table.lower(), one) for end in ("_id", "id")))
    return next((column for column in columns if column.lower() in likely), "")


def _guess_parents(table: str, columns: Sequence[str], keys: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for other, key in keys.items():
        one = other.lower().removesuffix("s")
        likely = {other.lower(), one, f"{other.lower()}_id", f"{one}_id", *([] if key == "id" else [key.lower()])}
        column = next((each for each in columns if each.lower() in likely and each != keys[table]), None)
        if key and other != table and column is not None:
            yield column, other


def change_links(text: str, form: Mapping[str, str]) -> str:
    """Return the schema with root, keys, links, times and contribution bounds as in a form; the rest is kept."""
    document = _parse(text)
    document = {"root": form.get("root", ""), **{key: value for key, value in document.items() if key != "root"}}
    names = list(document["tables"])
    keys = {name: form.get(f"key-{number}", "") for number, name in enumerate(names)}
    for number, (name, entry) in enumerate(document["tables"].items()):
        public = [other for other in names if document["tables"][other].get("public")]
        links = {column: to for column, to in list_foreign_keys(entry).items() if to.partition(".")[0] in public}
        column, parent = form.get(f"link-{number}", ""), form.get(f"parent-{number}", "")
        most = form.get(f"most-{number}", "").strip()
        if bool(column) != bool(parent):
            raise SchemaError(f"{name}: choose both the column that refers to another table, and that table")
        if most and not most.isdigit():
            raise SchemaError(f"{name}: the maximum number of rows must be a whole number")
        if column and not keys[parent]:
            raise SchemaError(f"{name} refers to {parent}: choose the key of {parent}")
        facts = {
            "key": keys[name],
            "foreign_keys": links | ({column: f"{parent}.{keys[parent]}"} if column else {}),
            "max_children": int(most or 0) if column else 0,
            "time": form.get(f"time-{number}", ""),
        }
        kept = {key: value for key, value in entry.items() if key not in facts}
        document["tables"][name] = {key: value for key, value in facts.items() if value} | kept
    return tomli_w.dumps(document if document["root"] else {"tables": document["tables"]})


def list_tables(text: str, tables: Names) -> list[TableShown]:
    """Return the tables of a schema with their places in the diagram: each right of the table that it refers to."""
    entries = _parse(text)["tables"]
    links = {}
    for name, entry in entries.items():
        found = [(column, target.partition(".")[0]) for column, target in list_foreign_keys(entry).items()]
        links[name] = next((link for link in found if not entries.get(link[1], {}).get("public")), ("", ""))
    made, filled = [], dict[int, int]()
    for name, entry in entries.items():
        column, parent = links[name]
        depth, above = 0, parent
        while above and depth < len(entries):  # a cycle is refused, and drawn
            depth, above = depth + 1, links.get(above, ("", ""))[1]
        row = filled[depth] = filled.get(depth, -1) + 1
        place = depth * (WIDE + APART), row * (TALL + 26)
        most, time = str(entry.get("max_children", "")), entry.get("time", "")
        made.append(TableShown(name, tables.get(name, ()), entry.get("key", ""), column, parent, time, most, *place))
    return made


def read_root(text: str) -> str:
    """Return the column that identifies the person, as TABLE.COLUMN; empty if it is not chosen."""
    document = _parse(text)
    key = document["tables"].get(document.get("root"), {}).get("key")
    return f"{document['root']}.{key}" if key else ""


def _parse(text: str) -> dict[str, Any]:
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError):
        raise SchemaError("the schema is not TOML: correct it as a file, below") from None
    if not isinstance(document.get("tables"), dict):
        raise SchemaError("the schema needs sections such as [tables.patients]")
    return document
