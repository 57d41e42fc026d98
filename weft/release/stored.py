"""A released table of a database, read back to be compared with its card."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from weft.errors import WeftError
from weft.files import beside
from weft.reading.addresses import kind_of_address
from weft.reading.lines import digest, in_order, preparing
from weft.reading.located import SqliteAddress
from weft.reading.postgres import begin_postgres, postgres_columns
from weft.reading.sqlite import begin_sqlite, sqlite_columns
from weft.release.tables import DatabaseTable

_LINES = 1 << 16  # read at a time


@dataclass(frozen=True)
class Stored:
    """What a database holds."""

    columns: list[str]
    rows: int
    sha256: str


def stored_table(name: str) -> DatabaseTable | None:
    """Return the table that a card names; None if it names a file. DataError if no release can be there."""
    return None if kind_of_address(name) is None else DatabaseTable.of(name)


def may_be_opened(table: DatabaseTable, folder: Path) -> bool:
    """Whether a card may have its table opened: a file in its own folder.

    A card may come from anybody. A server that it names would be sent the user's name and password.
    """
    if not isinstance(table.address, SqliteAddress):
        return False
    return (folder / table.address.path).resolve().is_relative_to(folder.resolve())


def read_back(table: DatabaseTable, folder: Path) -> Stored:
    """Read a table in one transaction; the name of a file is taken from this folder on.

    DataError if it is not there or cannot be reached.
    """
    address = table.address
    if isinstance(address, SqliteAddress):
        address = replace(address, path=str(folder / address.path))
        snapshot = begin_sqlite(address)
        columns = sqlite_columns(snapshot, address)
    else:
        snapshot = begin_postgres(address)
        columns = postgres_columns(snapshot, address)
    try:
        for statement in preparing(address):
            snapshot.run(statement)
        return Stored(columns, *digest(snapshot.batches(in_order(address, columns), _LINES)))
    finally:
        snapshot.close()


def card_of_table(table: DatabaseTable, ending: str) -> Path:
    """Return the card of a table, which lies in the current folder; WeftError if it is not there."""
    card = beside(table.place, ending)
    if not card.is_file():
        raise WeftError(
            f"{table.name}: there is no card ({card.name}) in this folder. Cards of tables in databases lie where the "
            "command was run: go there, or name the card"
        )
    return card
