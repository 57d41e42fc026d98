"""Read databases through ADBC: all passes share one connection and one read-only transaction.

All queries must see the same rows. A database may be written to while it is read, so all passes are made in one
transaction that shows its state when the table was first opened. A fit opens a table several times, with successive
schemas: inside `hold_snapshots`, each address has one snapshot.
"""

from __future__ import annotations

import hashlib
import importlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Protocol

import pyarrow as pa

from weft.errors import DataError
from weft.io.table_addresses import PostgresAddress, SqliteAddress, quote_literal, quote_name

_HELD: ContextVar[dict[str, Snapshot] | None] = ContextVar("snapshots", default=None)
_OPEN: ContextVar[list[Closing] | None] = ContextVar("open", default=None)


class Closing(Protocol):
    """Resource that is held while a table is queried."""

    def close(self) -> None:
        """Release the resource."""
        ...


def import_driver(database: str, extra: str) -> Any:
    """Return the ADBC driver of a database; DataError that names the extra if it is not installed."""
    try:
        return importlib.import_module(f"adbc_driver_{database}.dbapi")
    except ImportError:
        raise DataError(f"this table needs the ADBC driver of its database: pip install 'weft[{extra}]'") from None


class Snapshot:
    """State of a database at one moment; it ends with `close` or when it is garbage-collected."""

    def __init__(self, connection: Any, name: str, begin: str) -> None:
        self.name = name
        self._connection = connection
        self._end = weakref.finalize(self, _close_quietly, connection)
        try:
            self.run(begin)
        except BaseException:
            self.close()
            raise

    def run(self, statement: str) -> None:
        """Run a statement that returns no rows."""
        with explain_database_errors(self.name), self._connection.cursor() as cursor:
            cursor.execute(statement)

    def types(self, query: str) -> pa.Schema:
        """Return the column names and types of a query's result; no row is read."""
        with explain_database_errors(self.name), self._connection.cursor() as cursor:
            return cursor.adbc_execute_schema(query)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return the result of a query on the database's catalogue, not on the rows of its tables."""
        with explain_database_errors(self.name), self._connection.cursor() as cursor:
            cursor.execute(query)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    def batches(
        self, query: str, batch_rows: int, options: Mapping[str, str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, at most `batch_rows` at a time."""
        with explain_database_errors(self.name), self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**(options or {}))
            cursor.execute(query)
            with cursor.fetch_record_batch() as rows:
                for batch in rows:
                    for at in range(0, batch.num_rows, batch_rows):
                        yield batch.slice(at, batch_rows)

    def close(self) -> None:
        """End the transaction and the connection."""
        self._end()


def _close_quietly(connection: Any) -> None:
    with suppress(Exception):
        connection.close()


def snapshot_of(name: str, make: Callable[[], Snapshot]) -> Snapshot:
    """Return the held snapshot of an address, or a new one."""
    held = _HELD.get()
    if held is None:
        return make()
    if name not in held:
        held[name] = make()
    return held[name]


@contextmanager
def hold_snapshots() -> Iterator[None]:
    """Open each database only once inside this context, so that all queries see the same rows."""
    if _HELD.get() is not None:
        yield
        return
    held: dict[str, Snapshot] = {}
    open_: list[Closing] = []
    token, other = _HELD.set(held), _OPEN.set(open_)
    try:
        yield
    finally:
        _HELD.reset(token)
        _OPEN.reset(other)
        for each in (*open_, *held.values()):
            each.close()


def hold_open(kept: Closing) -> bool:
    """Close a resource when `hold_snapshots` ends; False if no such context is active: the caller must close it."""
    open_ = _OPEN.get()
    if open_ is None:
        return False
    open_.append(kept)
    return True


@contextmanager
def explain_database_errors(name: str) -> Iterator[None]:
    """Translate database errors. The database's own text is dropped: it quotes values, users and queries."""
    import adbc_driver_manager

    try:
        yield
    except adbc_driver_manager.Error as error:
        raise DataError(f"{name}: {_explain_sql_state(getattr(error, 'sqlstate', None) or '')}") from None
    except (OSError, pa.ArrowException):
        raise DataError(f"{name}: {_BROKEN}") from None


_BROKEN = (
    "the database could not finish reading, or the connection was lost. Nothing was computed from the rows read so "
    "far; check that the database is running, and start again"
)


def _explain_sql_state(state: str) -> str:
    for codes, reason in {
        ("42P01", "3F000"): "no such table; check its name, and its schema as in ?table=SCHEMA.TABLE",
        ("42501",): "no permission to read this; ask for the right to SELECT from the table",
        ("28",): "the database refuses this user; set PGUSER, and PGPASSWORD or ~/.pgpass",
        ("3D",): "no such database; check its name",
    }.items():
        if state.startswith(codes):
            return reason
    return _BROKEN


# The hash of a database table is computed over its rows as sorted lines of text, independent of their stored order.

SETTINGS = {"datestyle": "ISO, YMD", "intervalstyle": "iso_8601", "timezone": "UTC", "extra_float_digits": "1"}
"""Settings that determine how PostgreSQL writes values as text, fixed because sessions may differ in them."""


def list_setup_statements(address: SqliteAddress | PostgresAddress) -> list[str]:
    """Return the statements to run first, in the transaction that queries the lines."""
    if isinstance(address, SqliteAddress):
        return []
    return [f"SET LOCAL {name} = {quote_literal(value)}" for name, value in SETTINGS.items()]


def in_order(address: SqliteAddress | PostgresAddress, columns: Sequence[str]) -> str:
    """Return the query for a table's sorted lines, each with a trailing line break."""
    if isinstance(address, SqliteAddress):
        cells = " || ',' || ".join(f"quote({quote_name(name)})" for name in columns)
        return f"SELECT {cells} || char(10) AS line FROM {quote_name(address.table)} ORDER BY 1"  # noqa: S608 (names, quoted)
    cells = ", ".join(f"r.{quote_name(name)}" for name in columns)
    line = f'ROW({cells})::text COLLATE "C"'
    return f"SELECT {line} || chr(10) AS line FROM {address.quoted_table} r ORDER BY {line}"  # noqa: S608


def digest_batches(batches: Iterable[pa.RecordBatch]) -> tuple[int, str]:
    """Return the number of lines and their SHA-256.

    >>> digest_batches([pa.record_batch({"line": ["1,'a'\\n", "2,NULL\\n"]})])[0]
    2
    """
    found, rows = hashlib.sha256(), 0
    for batch in batches:
        lines = batch.column(0).cast(pa.large_binary())
        _, ends, octets = lines.buffers()
        bounds = memoryview(ends).cast("q")
        if octets is not None:
            found.update(memoryview(octets)[bounds[lines.offset] : bounds[lines.offset + len(lines)]])
        rows += len(lines)
    return rows, found.hexdigest()
