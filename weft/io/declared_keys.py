"""Tables of a database with their declared keys and foreign keys, from its catalogue; no row is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.errors import DataError, SourceError
from weft.io.postgres import begin_postgres
from weft.io.sqlite import begin_sqlite
from weft.io.table_addresses import PostgresAddress, SqliteAddress, quote_literal

_ANY = "?table=any"  # completes the address of a database, whose parsers expect a table

_POSTGRES_KEYS = """
SELECT child.relname, k.contype::text, own.attname, parent.relname, target.attname
FROM pg_constraint k JOIN pg_class child ON child.oid = k.conrelid
JOIN pg_attribute own ON own.attrelid = child.oid AND own.attnum = k.conkey[1]
LEFT JOIN pg_class parent ON parent.oid = k.confrelid
LEFT JOIN pg_attribute target ON target.attrelid = parent.oid AND target.attnum = k.confkey[1]
WHERE child.relnamespace = current_schema()::regnamespace AND k.contype IN ('p', 'f') AND cardinality(k.conkey) = 1
"""
_POSTGRES_TABLES = (
    "SELECT relname FROM pg_class "
    "WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') ORDER BY 1"
)


@dataclass(frozen=True)
class DeclaredKeys:
    """Single-column keys of one table."""

    key: str | None = None
    links: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    """Foreign keys: the table and column that a column refers to; a column None is the key of that table."""


def list_declared_keys(address: str) -> dict[str, DeclaredKeys]:
    """Return the tables of a database, such as `sqlite:town.sqlite`, with their declared keys."""
    kind, _, place = address.partition(":")
    if kind == "sqlite":
        return _ask_sqlite(place)
    if kind == "duckdb":
        return _ask_duckdb(place)
    if kind == "postgresql":
        return _ask_postgres(place)
    raise SourceError(f"{kind}: tables can be listed in a PostgreSQL, SQLite or DuckDB database only; name one table")


def _ask_sqlite(place: str) -> dict[str, DeclaredKeys]:
    snapshot = begin_sqlite(SqliteAddress.of(place + _ANY))
    names = snapshot.ask("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY 1")
    found = []
    for (name,) in names:
        quoted = quote_literal(name)
        keys = snapshot.ask(f"SELECT name FROM pragma_table_info({quoted}) WHERE pk > 0")  # noqa: S608 (a name, quoted)
        found += [(name, "p", key, None, None) for (key,) in keys if len(keys) == 1]
        listed = snapshot.ask(f'SELECT id, "from", "table", "to" FROM pragma_foreign_key_list({quoted})')  # noqa: S608
        numbers = [number for number, *_ in listed]
        found += [(name, "f", own, table, to) for number, own, table, to in listed if numbers.count(number) == 1]
    return _collect((name for (name,) in names), found)


def _ask_duckdb(place: str) -> dict[str, DeclaredKeys]:
    try:
        import duckdb
    except ImportError:
        raise DataError("a duckdb: source needs the duckdb package: pip install 'weft[duckdb]'") from None
    try:
        with duckdb.connect(place, read_only=True) as connection:
            names = connection.sql("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
            keys = connection.sql(
                "SELECT table_name, lower(constraint_type[1]), constraint_column_names, referenced_table, "
                "referenced_column_names FROM duckdb_constraints() "
                "WHERE constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY')"
            ).fetchall()
    except duckdb.Error:
        raise DataError(f"duckdb:{place}: the database cannot be opened; check the path") from None
    found = [(table, kind, own[0], parent, (to or [None])[0]) for table, kind, own, parent, to in keys if len(own) == 1]
    return _collect((name for (name,) in names), found)


def _ask_postgres(place: str) -> dict[str, DeclaredKeys]:
    snapshot = begin_postgres(PostgresAddress.of(place + _ANY))
    return _collect((name for (name,) in snapshot.ask(_POSTGRES_TABLES)), snapshot.ask(_POSTGRES_KEYS))


def _collect(names: Iterable[str], found: Iterable[tuple[Any, ...]]) -> dict[str, DeclaredKeys]:
    listed = list(found)
    return {
        name: DeclaredKeys(
            next((own for table, kind, own, *_ in listed if table == name and kind == "p"), None),
            {own: (parent, to) for table, kind, own, parent, to in listed if table == name and kind == "f"},
        )
        for name in names
    }
