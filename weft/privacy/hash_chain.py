"""Crash-safe, tamper-evident file of entries: SQLite, with each entry chained to the previous one by its hash.

Each entry is written in an exclusive transaction and is on disk when the transaction ends. It contains a hash of itself
and the previous entry, and the file stores the last hash: edited, removed or truncated entries are detected. This
protects against accidents and careless edits. An attacker who recomputes all hashes, or restores an old copy of the
file, cannot be detected from the file alone.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import DataError, OutputError

WAIT_SECONDS = 60.0
"""Time that an entry waits for another process to finish writing."""

_TABLES = """
CREATE TABLE entries (number INTEGER PRIMARY KEY, document TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE head (only INTEGER PRIMARY KEY CHECK (only = 1), number INTEGER NOT NULL, hash TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Entries:
    """All entries of a file, oldest first, with the hash of each."""

    documents: tuple[Mapping[str, Any], ...]
    hashes: tuple[str, ...]

    @property
    def head(self) -> str:
        """Hash of the last entry."""
        return self.hashes[-1]


class Chain:
    """A file of hash-chained entries."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Set the path; the file is opened at first use."""
        self.path = Path(path)

    def create(self, first: Mapping[str, Any]) -> None:
        """Create the file with its first entry; OutputError if it exists."""
        try:
            # O_EXCL first, so that two processes cannot create the same file.
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        except FileExistsError:
            # An empty file was left by a process that was killed before it wrote the first entry.
            if not self.path.is_file() or self.path.stat().st_size:
                raise OutputError(
                    f"{self.path} already exists, and its record of spending must be kept. Choose another name."
                ) from None
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror}") from None
        document = _serialise_entry(first)
        digest = _hash_link("", document)
        with self._opened() as connection:
            connection.executescript(f"BEGIN EXCLUSIVE;{_TABLES}")
            connection.execute("INSERT INTO entries VALUES (0, ?, ?)", (document, digest))
            connection.execute("INSERT INTO head VALUES (1, 0, ?)", (digest,))
            connection.execute("COMMIT")

    def read(self) -> Entries:
        """Return all entries; DataError if the file has another format or was tampered with."""
        with self._opened() as connection:
            connection.execute("BEGIN")  # one snapshot: no other run's entry may come between entries and head
            return self._read(connection)

    @contextmanager
    def transaction(self) -> Iterator[tuple[Entries, list[Mapping[str, Any]]]]:
        """Yield all entries and a list for new ones, written at the end under an exclusive lock; errors undo it."""
        new: list[Mapping[str, Any]] = []
        with self._opened() as connection:
            connection.execute("BEGIN EXCLUSIVE")
            try:
                entries = self._read(connection)
                yield entries, new
                number, digest = len(entries.hashes), entries.head
                for number, entry in enumerate(new, len(entries.hashes)):
                    document = _serialise_entry(entry)
                    digest = _hash_link(digest, document)
                    connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, document, digest))
                    connection.execute("UPDATE head SET number = ?, hash = ?", (number, digest))
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _read(self, connection: sqlite3.Connection) -> Entries:
        rows = connection.execute("SELECT number, document, hash FROM entries ORDER BY number").fetchall()
        head = connection.execute("SELECT number, hash FROM head").fetchall()
        previous = ""
        for place, (number, document, digest) in enumerate(rows):
            if number != place or digest != _hash_link(previous, document):
                raise self.damaged()
            previous = digest
        if not rows or head != [(len(rows) - 1, previous)]:
            raise self.damaged()
        try:
            documents = tuple(json.loads(document) for _, document, _ in rows)
        except ValueError:
            raise self.damaged() from None
        return Entries(documents, tuple(digest for _, _, digest in rows))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if not self.path.is_file():
            raise DataError(f"{self.path}: no such lifetime budget; create it with `weft budget create {self.path}`")
        try:
            with closing(
                sqlite3.connect(self.path.resolve(), timeout=WAIT_SECONDS, isolation_level=None)
            ) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")  # a crash of the machine must not lose an entry
                yield connection
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                raise self.damaged() from None
            why = "another run is using it" if "locked" in str(error) else "is the disk full, or the file read-only?"
            raise OutputError(f"cannot write to the lifetime budget {self.path}: {why}") from None
        except sqlite3.DatabaseError:
            raise self.damaged() from None

    def damaged(self) -> DataError:
        """Return the error for a file that cannot be trusted."""
        return DataError(
            f"{self.path} is not a lifetime budget, or its entries were edited or truncated: the amount spent is "
            "unknown. Restore it from a backup; without one, treat the table's budget as spent"
        )


def _serialise_entry(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _hash_link(previous: str, document: object) -> str:
    return hashlib.sha256(f"{previous}\n{document}".encode()).hexdigest()
