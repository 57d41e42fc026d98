"""A reader of DuckDB: a table of a database file, or a query over files. A row of the result is a row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from weft.errors import DataError
from weft.reading.queries import check_query
from weft.reading.reader import Batches, Reader
from weft.schema import Schema

_QUERY = re.compile(r"\s*(select|from|with)\b", re.IGNORECASE)


def open_duckdb(address: str, _schema: Schema | None, batch_rows: int) -> Reader:
    """Open `path.db?table=name`, `path.db?query=SELECT ...`, or a bare `SELECT ... FROM 'files*.parquet'`.

    A database file is opened read-only and stays open, so its rows cannot change between passes. A query must read each
    row by itself (`weft.reading.queries`), from files that stay still.
    """
    path, query, whole = _parse(address)
    name = f"duckdb:{path or 'query'}"
    try:
        import duckdb
    except ImportError:
        raise DataError("a duckdb: source needs the duckdb package: pip install 'weft[duckdb]'") from None

    with _explained(name, duckdb):
        connection = duckdb.connect(path, read_only=True) if path else duckdb.connect()
        connection.execute("SET python_enable_replacements = false")  # a name in a query is no Python variable
        check_query(connection, name, query)
        arrow = connection.cursor().sql(query).limit(0).to_arrow_table().schema
        # A table knows how many rows it has; those of a query would have to be made to be counted.
        found = connection.cursor().execute(f"SELECT count(*) {query}").fetchone() if whole else None
        rows = None if found is None else int(found[0])

    def start(columns: Sequence[str]) -> Batches:
        seen = 0
        with _explained(name, duckdb):
            asked = connection.cursor().sql(query).select(*map(_quoted, columns))
            for batch in asked.to_arrow_reader(batch_rows):
                seen += batch.num_rows
                yield batch, seen / rows if rows else None

    return Reader(name, arrow, start, rows=rows, ordered=False)


def _parse(address: str) -> tuple[str, str, bool]:
    """Return the database, the query, and whether that is for a whole table."""
    if _QUERY.match(address):
        return "", address.strip().rstrip(";"), False
    path, _, question = address.partition("?")
    key, _, value = question.partition("=")
    if key == "table" and value:
        return path, "FROM " + ".".join(map(_quoted, value.split("."))), True
    if key == "query" and value:
        return path, value.strip().rstrip(";"), False
    raise DataError(f"duckdb:{path} does not say what to read; add ?table=NAME or ?query=SELECT ...")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _explained(name: str, duckdb: Any) -> Iterator[None]:
    """Say what kind of thing went wrong. DuckDB's own text is dropped: it quotes values and rows."""
    try:
        yield
    except duckdb.IOException:
        raise DataError(f"{name}: the database or a file of the query cannot be opened; check the path") from None
    except duckdb.CatalogException:
        raise DataError(f"{name}: no such table, view or function; check its name") from None
    except (duckdb.ParserException, duckdb.BinderException):
        raise DataError(f"{name}: DuckDB does not understand the query; try it in DuckDB first") from None
    except (duckdb.Error, pa.ArrowException):
        raise DataError(f"{name}: DuckDB could not finish reading; try the query in DuckDB") from None
