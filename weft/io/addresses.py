"""Registry of sources that are named by an address, `prefix:rest`.

Opening, drafting, recording and output validation use it. Libraries are imported only when a table is opened.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from weft.errors import DataError
from weft.io.table_addresses import PostgresAddress, SparkAddress, SqliteAddress

if TYPE_CHECKING:
    from weft.io.reader import Reader
    from weft.schema import Schema

Opener = Callable[[str, "Schema | None", int], "Reader"]
"""Function that opens an address (without its prefix) with a schema and `batch_rows`; no row is read yet."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
QUERY = re.compile(r"\s*(select|from|with)\b", re.IGNORECASE)
_WORDS = re.compile(r"""'((?:[^']|'')*)'|"((?:[^"]|"")*)"|([^\s,;()'"]+)""")


@dataclass(frozen=True)
class Kind:
    """A kind of addressable source."""

    open: Opener
    name: Callable[[str], str]
    """Name of an address in messages and records, without user and password. DataError if it is invalid."""
    reads: Callable[[str], Iterable[str | Path]] = lambda address: ()
    """Input files of a table, which no output may replace: paths, or patterns as strings."""
    queries: bool = False
    """Whether an address may be a query, which can read files that its text does not name."""
    written: bool = False
    """Whether its cells are text that the schema interprets."""


def kind_of_address(source: Any) -> tuple[Kind, str] | None:
    """Return the kind of an address, and the address without its prefix; None for a file or an object.

    DataError for an address of an unknown kind, which is not quoted because it may contain a password.
    """
    if not isinstance(source, str):
        return None
    prefix, colon, address = source.partition(":")
    if colon and prefix in KINDS:
        return KINDS[prefix], address
    if _SCHEME.match(source):
        raise DataError(f"cannot read this kind of address; use one of {', '.join(f'{each}:' for each in KINDS)}")
    return None


def without_credentials(source: str) -> str | None:
    """Return the name of an address in records; None if the source is not an address."""
    found = kind_of_address(source)
    return None if found is None else found[0].name(found[1])


def files_of_duckdb(address: str) -> Iterator[str | Path]:
    """Yield the database file, and every word of the query; words that name no file are harmless."""
    query = address
    if not QUERY.match(address):
        path, _, question = address.partition("?")
        if path:
            yield Path(path)
            yield Path(f"{path}.wal")
        query = question.partition("=")[2]
    for found in _WORDS.finditer(query):
        single, double, bare = found.groups()
        word = single.replace("''", "'") if single else double.replace('""', '"') if double else bare
        if word:
            word = os.path.expanduser(word.removeprefix("file://"))  # noqa: PTH111 (a word need not be a path)
            # Only words such as 'd/*.csv' are patterns: '*' and '%' occur in any query. Folders are not read.
            yield word if glob.has_magic(word) and ("." in word or "/" in word) else Path(word)


def _load_opener(module: str, function: str) -> Opener:
    """Return a function that imports its library when it is called."""
    return lambda *asked: cast("Opener", getattr(import_module(module), function))(*asked)


_POSTGRES = Kind(_load_opener("weft.io.postgres", "open_postgres"), lambda address: PostgresAddress.of(address).name)

KINDS: dict[str, Kind] = {
    "duckdb": Kind(
        _load_opener("weft.io.duckdb_source", "open_duckdb"),
        lambda address: f"duckdb:{address}",
        files_of_duckdb,
        queries=True,
    ),
    "sqlite": Kind(
        _load_opener("weft.io.sqlite", "open_sqlite"),
        lambda address: SqliteAddress.of(address).name,
        lambda address: SqliteAddress.of(address).files(),
        written=True,
    ),
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
    "spark": Kind(
        _load_opener("weft.io.spark_source", "open_spark"),
        lambda address: SparkAddress.of(address).name,
        lambda address: SparkAddress.of(address).files(),
    ),
}
