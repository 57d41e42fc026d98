"""PostgreSQL reader: one table, in one read-only transaction, in the types that the database declares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from weft.errors import DataError
from weft.io.adbc import Snapshot, explain_database_errors, import_driver, snapshot_of
from weft.io.reader import Batches, Reader
from weft.io.table_addresses import PostgresAddress, quote_literal, quote_name
from weft.io.text_to_types import convert_text_column
from weft.schema import Schema
from weft.values.storage import write_floats
from weft.values.text_numbers import read_floats

_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_ROW = 28  # minimum bytes of a stored row: tuple header and line pointer
_TABLES = ("r", "p", "m")  # ordinary tables, partitioned tables and materialized views: their rows are stored


def open_postgres(address: str, schema: Schema | None, batch_rows: int) -> Reader:
    """Open `//host/database?table=name`.

    Types declared by the database are public. No Arrow type covers the unbounded range of a `numeric` column, so it is
    read as text and converted to the schema's type.
    """
    place = PostgresAddress.of(address)
    snapshot = snapshot_of(place.name, lambda: begin_postgres(place))
    found = _read_column_types(snapshot, place)
    asked = {field.name: _select_expression(field) for field in found}
    numeric = {field.name for field in found if _is_numeric(field)}
    arrow = pa.schema([(field.name, _choose_type(field, schema)) for field in found])

    def start(columns: Sequence[str]) -> Batches:
        names = list(columns) or found.names[:1]
        query = f"SELECT {', '.join(asked[name] for name in names)} FROM {place.quoted_table}"  # noqa: S608
        for batch in snapshot.batches(query, batch_rows):
            read = [
                _read_numeric(_unwrap_extension(column), name, schema, place.name)
                if name in numeric
                else _unwrap_extension(column)
                for name, column in zip(names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(read, names=names), None

    return Reader(place.name, arrow, start, most_rows=_most_rows(snapshot, place), ordered=False)


def connect_postgres(place: PostgresAddress, *, autocommit: bool) -> Any:
    """Connect as libpq does: user and password come from the environment or from libpq's files."""
    dbapi = import_driver("postgresql", "postgres")
    try:
        with explain_database_errors(place.name):
            return dbapi.connect(place.uri, autocommit=autocommit)
    except DataError:
        raise DataError(
            f"{place.name}: the database cannot be reached, or refuses this user. Check host, port and database name; "
            "set the user with PGUSER, and the password with PGPASSWORD, ~/.pgpass or PGSERVICE"
        ) from None


def begin_postgres(place: PostgresAddress) -> Snapshot:
    """Begin a snapshot of the database's current state."""
    return Snapshot(connect_postgres(place, autocommit=True), place.name, _BEGIN)


def postgres_columns(snapshot: Snapshot, place: PostgresAddress) -> list[str]:
    """Return the column names of a table; DataError if it does not exist or is not a stored table."""
    return list(_read_column_types(snapshot, place).names)


def _read_column_types(snapshot: Snapshot, place: PostgresAddress) -> pa.Schema:
    """Return the columns of a table; DataError if it does not exist or is not a stored table."""
    table = quote_literal(place.quoted_table)
    kinds = snapshot.ask(f"SELECT relkind::text FROM pg_class WHERE oid = to_regclass({table})")  # noqa: S608
    if not kinds:
        raise DataError(f"{place.name}: no such table; check its name, and its schema as in ?table=SCHEMA.TABLE")
    if kinds[0][0] not in _TABLES:
        raise DataError(
            f"{place.name} is a view or a foreign table: its rows may combine several others, or change between "
            "passes. Create a table or a materialized view from it and name that: its rows are then what is protected"
        )
    return snapshot.types(f"SELECT * FROM {place.quoted_table}")  # noqa: S608 (a name, quoted)


def _most_rows(snapshot: Snapshot, place: PostgresAddress) -> int | None:
    """Return the maximum number of rows in the pages of a table and its partitions; None unless stored as heap."""
    sizes = (
        f"WITH RECURSIVE parts (part) AS (SELECT to_regclass({quote_literal(place.quoted_table)})::oid UNION "  # noqa: S608
        "SELECT inhrelid FROM pg_inherits JOIN parts ON inhparent = part) "
        "SELECT sum(pg_relation_size(part))::bigint, bool_and(relkind = 'p' OR coalesce(amname = 'heap', false)) "
        "FROM parts JOIN pg_class c ON c.oid = part LEFT JOIN pg_am a ON a.oid = relam"
    )
    ((octets, plain),) = snapshot.ask(sizes)
    return int(octets or 0) // _ROW if plain else None


def _is_numeric(field: pa.Field) -> bool:
    return _own_type(field) == "numeric"


def _own_type(field: pa.Field) -> str:
    told = field.metadata or {}
    return str(told.get(b"POSTGRESQL:type", told.get(b"ADBC:postgresql:typname", b"")).decode())


def _is_plain_type(arrow: pa.DataType) -> bool:
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string, pa.types.is_date)
    return any(is_kind(arrow) for is_kind in (*known, pa.types.is_timestamp, pa.types.is_time))


def _select_expression(field: pa.Field) -> str:
    name = quote_name(field.name)
    if pa.types.is_date(field.type) or pa.types.is_timestamp(field.type):
        return f"CASE WHEN isfinite({name}) THEN {name} END AS {name}"  # Arrow has no infinite date: missing
    if _is_plain_type(field.type) and _own_type(field) != "bpchar":
        return name
    return f"{name}::text AS {name}"  # also removes the padding of char(n)


def _choose_type(field: pa.Field, schema: Schema | None) -> pa.DataType:
    if _is_numeric(field):
        known = schema is not None and field.name in schema
        return schema.column(field.name).arrow_type() if schema is not None and known else pa.float64()
    return field.type if _is_plain_type(field.type) else pa.string()


def _unwrap_extension(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _read_numeric(words: pa.Array, name: str, schema: Schema | None, source: str) -> pa.Array:
    if schema is not None and name in schema:
        return convert_text_column(words, schema.column(name), source)
    floats, unreadable = read_floats(words)
    return write_floats(floats, unreadable | (floats != floats), pa.float64(), nan=False)
