"""Addresses of tables in databases, taken apart: which of their parts may be told, and which none may see."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weft.errors import SourceError

_POSTGRES = re.compile(r"//(?:(?P<user>[^@/?]*)@)?(?P<host>[^@/?]*)(?:/(?P<database>[^@/?]*))?(?:\?(?P<rest>.*))?")

_ALLOWED = (
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "gssencmode", "channel_binding"),
    *("connect_timeout", "application_name", "target_session_attrs"),
)
"""Settings of libpq that may stand in an address: none of them tells who somebody is."""

_SECRETS = re.compile(r"[a-z0-9+.-]+://[^/]*:[^/]*@", re.IGNORECASE)

_NO_SECRETS = (
    "the address of a database must hold no password: others can read it in the list of processes and in the shell's "
    "history. Put the password into PGPASSWORD, ~/.pgpass or a service file (PGSERVICE), and leave it out here"
)


def quote_name(name: str) -> str:
    """Return a name as SQL writes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _parse_settings(rest: str, prefix: str) -> dict[str, str]:
    """Return what stands behind the question mark of an address."""
    found = {}
    for part in filter(None, rest.split("&")):
        key, _, value = part.partition("=")
        found[key] = urllib.parse.unquote(value)
        if key == "query":
            raise SourceError(
                f"{prefix}: a query cannot be checked to make each row of one row. Make a table of it (CREATE TABLE "
                "... AS SELECT ...) and name that with ?table=NAME: its rows are then what is protected"
            )
    return found


@dataclass(frozen=True)
class PostgresAddress:
    """A table of PostgreSQL: `//[user@]host[:port]/database?table=[schema.]name`."""

    user: str
    place: str
    """Host and database, as they stand in the address."""
    table: tuple[str, ...]
    """Its name, after that of its schema if that was given."""
    settings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, address: str) -> PostgresAddress:
        """Take an address apart; SourceError, which repeats nothing of it, if it holds a password or is none."""
        found = _POSTGRES.fullmatch(address)
        user = (found["user"] or "") if found else ""
        if ":" in user or (found is None and "@" in address) or re.search(r"[?&]\w*password=", address):
            raise SourceError(f"postgresql: {_NO_SECRETS}")
        if found is None:
            raise SourceError("postgresql: an address is written postgresql://HOST/DATABASE?table=NAME")
        settings = _parse_settings(found["rest"] or "", "postgresql")
        table = tuple(settings.pop("table", "").split("."))
        if not all(table) or len(table) > 2:
            raise SourceError(
                "postgresql: the address does not say what to read; add ?table=NAME or ?table=SCHEMA.NAME"
            )
        if unknown := sorted(set(settings) - set(_ALLOWED)):
            raise SourceError(
                f"postgresql: {unknown[0]} cannot be set in an address; use the variables of PostgreSQL's programs "
                "(PGUSER, PGOPTIONS, PGSERVICE)"
            )
        return cls(user, f"{found['host']}/{found['database'] or ''}", table, tuple(settings.items()))

    @property
    def name(self) -> str:
        """What messages and records call it."""
        return f"postgresql://{self.place}?table={'.'.join(self.table)}"

    @property
    def uri(self) -> str:
        """What libpq is told; the password it finds by itself."""
        settings = urllib.parse.urlencode(dict(self.settings), quote_via=urllib.parse.quote)
        return f"postgresql://{self.user + '@' if self.user else ''}{self.place}{'?' + settings if settings else ''}"

    @property
    def quoted_table(self) -> str:
        """The table as SQL writes it."""
        return ".".join(map(quote_name, self.table))


@dataclass(frozen=True)
class SqliteAddress:
    """A table of SQLite: `path?table=name`."""

    path: str
    table: str

    @classmethod
    def of(cls, address: str) -> SqliteAddress:
        """Take an address apart; SourceError if it names no file or no table."""
        path, _, rest = address.rpartition("?")
        settings = _parse_settings(rest, "sqlite")
        table = settings.pop("table", "")
        if not path or not table or settings:
            raise SourceError("sqlite: an address is written sqlite:FILE?table=NAME")
        return cls(path, table)

    @property
    def name(self) -> str:
        """What messages and records call it."""
        return f"sqlite:{self.path}?table={self.table}"

    def files(self) -> Iterator[Path]:
        """Yield the database, and the files that SQLite keeps beside it."""
        for end in ("", "-wal", "-journal", "-shm"):
            yield Path(self.path + end)


@dataclass(frozen=True)
class SparkAddress:
    """A table that Spark reads: `parquet:PATH` or `table:NAME`."""

    form: str
    place: str

    @classmethod
    def of(cls, address: str) -> SparkAddress:
        """Take an address apart; SourceError, which repeats nothing of it, if it holds a password or is none."""
        form, _, place = address.partition(":")
        if _SECRETS.match(place):
            raise SourceError(
                "spark: an address must hold no password: others can read it in the list of processes. Give it to "
                "Spark in its settings (spark-defaults.conf), and leave it out here"
            )
        if form not in ("parquet", "table") or not place:
            raise SourceError(
                "spark: an address is written spark:parquet:PATH, with a path as Spark reads it, or spark:table:NAME"
            )
        return cls(form, place)

    @property
    def name(self) -> str:
        """What messages and records call it."""
        return f"spark:{self.form}:{self.place}"

    def files(self) -> Iterator[str | Path]:
        """Yield the files, folder or pattern that are read, if they are on this machine."""
        if self.form == "parquet" and ("://" not in self.place or self.place.startswith("file:")):
            own = self.place.startswith("file:")
            yield urllib.parse.unquote(urllib.parse.urlparse(self.place).path) if own else self.place
