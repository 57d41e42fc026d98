"""SQLite reader: one table of a database file, in one read transaction.

Privacy: an SQLite column can hold values of any type, regardless of its declaration, and the driver infers the type of
a column from its first rows: one row could determine how all others are read. Therefore every cell is queried as text,
with a mark that makes even a column of nulls text, and is converted independently by the schema, like a CSV cell.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import DataError, SourceError
from weft.io.adbc import Snapshot, explain_database_errors, import_driver, snapshot_of
from weft.io.reader import Batches, Reader
from weft.io.table_addresses import SqliteAddress, quote_literal, quote_name
from weft.io.text_to_types import convert_text_column, csv_arrow_schema
from weft.schema import Schema

_ROW = 4  # minimum bytes of a stored row: cell pointer, payload length and header length
_BATCH = "adbc.sqlite.query.batch_rows"


def open_sqlite(address: str, schema: Schema | None, batch_rows: int) -> Reader:
    """Open `path?table=name`; without a schema, all columns are text."""
    place = SqliteAddress.of(address)
    snapshot = snapshot_of(place.name, lambda: begin_sqlite(place))
    names = sqlite_columns(snapshot, place)
    arrow = pa.schema([(name, pa.string()) for name in names]) if schema is None else csv_arrow_schema(schema, names)

    def start(columns: Sequence[str]) -> Batches:
        asked = list(columns) or names[:1]
        query = f"SELECT {', '.join(map(_mark_cell, asked))} FROM {quote_name(place.table)}"  # noqa: S608 (names, quoted)
        for batch in snapshot.batches(query, batch_rows, {_BATCH: str(batch_rows)}):
            read = [_unmark_cells(column) for column in batch.columns]
            if schema is not None:
                read = [
                    convert_text_column(column, schema.column(name), place.name)
                    for name, column in zip(asked, read, strict=True)
                ]
            yield pa.RecordBatch.from_arrays(read, names=asked), None

    ((octets,),) = snapshot.ask("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
    return Reader(place.name, arrow, start, most_rows=int(octets) // _ROW, ordered=False)


def begin_sqlite(place: SqliteAddress) -> Snapshot:
    """Begin a snapshot of the database's current state."""
    dbapi = import_driver("sqlite", "sqlite")
    if not Path(place.path).is_file():
        raise SourceError(f"{place.path}: no such file")
    with explain_database_errors(place.name):
        connection = dbapi.connect(f"file:{urllib.parse.quote(place.path)}?mode=ro", autocommit=True)
    return Snapshot(connection, place.name, "BEGIN")


def sqlite_columns(snapshot: Snapshot, place: SqliteAddress) -> list[str]:
    """Return the column names of a table; DataError if it does not exist, or is a view or a virtual table."""
    found = snapshot.ask(f"SELECT type, sql FROM sqlite_master WHERE lower(name) = lower({quote_literal(place.table)})")  # noqa: S608
    if not found:
        raise SourceError(f"{place.name}: no such table; check its name")
    kind, sql = found[0]
    if kind != "table" or str(sql).lower().split()[:2] == ["create", "virtual"]:
        raise DataError(
            f"{place.name} is a view or a virtual table, whose rows may combine several others. Create a table from it "
            "(CREATE TABLE ... AS SELECT ...) and name that: its rows are then what is protected"
        )
    # Hidden columns of code 1 belong to virtual tables; codes 2 and 3 are generated columns, computed from one row.
    listed = snapshot.ask(f"SELECT name FROM pragma_table_xinfo({quote_literal(place.table)}) WHERE hidden <> 1")  # noqa: S608
    return [str(name) for (name,) in listed]


def _mark_cell(name: str) -> str:
    """Return the SQL expression for a cell as text: "n" for null, else the value after a "v"."""
    cell = quote_name(name)
    # Seventeen digits distinguish all floats.
    number = f"'v' || printf('%!.17g', {cell})"
    return (
        f"CASE typeof({cell}) WHEN 'null' THEN 'n' WHEN 'real' THEN {number} ELSE 'v' || CAST({cell} AS TEXT) END "
        f"AS {cell}"
    )


def _unmark_cells(cells: pa.Array) -> pa.Array:
    octets = cells.cast(pa.binary())
    words = pc.binary_replace_slice(octets, 0, 1, b"")
    return pc.if_else(pc.equal(octets, b"n"), None, words).cast(pa.string(), safe=False)
