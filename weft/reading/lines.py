"""A table of a database as lines of text in one order, whatever order its rows lie in: what its hash is taken of.

The database writes and sorts the lines, so that a table of any size is hashed as it streams by. Equal rows are equal
lines, and different rows are different ones: text is quoted, and missing is not empty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import pyarrow as pa

from weft.reading.located import PostgresAddress, SqliteAddress, literal, quoted

SETTINGS = {"datestyle": "ISO, YMD", "intervalstyle": "iso_8601", "timezone": "UTC", "extra_float_digits": "1"}
"""What PostgreSQL writes values by; whoever reads a table back may have chosen otherwise."""


def preparing(address: SqliteAddress | PostgresAddress) -> list[str]:
    """Return the statements to run first, in the transaction that asks for the lines."""
    if isinstance(address, SqliteAddress):
        return []
    return [f"SET LOCAL {name} = {literal(value)}" for name, value in SETTINGS.items()]


def in_order(address: SqliteAddress | PostgresAddress, columns: Sequence[str]) -> str:
    """Return the query for a table's lines, in order; each ends its line."""
    if isinstance(address, SqliteAddress):
        cells = " || ',' || ".join(f"quote({quoted(name)})" for name in columns)
        return f"SELECT {cells} || char(10) AS line FROM {quoted(address.table)} ORDER BY 1"  # noqa: S608 (names, quoted)
    cells = ", ".join(f"r.{quoted(name)}" for name in columns)
    line = f'ROW({cells})::text COLLATE "C"'
    return f"SELECT {line} || chr(10) AS line FROM {address.quoted_table} r ORDER BY {line}"  # noqa: S608


def digest(batches: Iterable[pa.RecordBatch]) -> tuple[int, str]:
    """Return the number of lines and their SHA-256.

    >>> digest([pa.record_batch({"line": ["1,'a'\\n", "2,NULL\\n"]})])[0]
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
