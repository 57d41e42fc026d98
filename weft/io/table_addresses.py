"""Parse the addresses of database tables, and separate their public parts from credentials."""

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
"""libpq settings that are allowed in an address: none of them is a credential or identifies a user."""

_SECRETS = re.compile(r"[a-z0-9+.-]+://[^/]*:[^/]*@", re.IGNORECASE)

_NO_SECRETS = (
    "the address of a database must contain no password: others can read it in the process list and in the shell "
    "history. Put the password into PGPASSWORD, ~/.pgpass or a service file (PGSERVICE), and leave it out here"
)


def quote_name(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """Return a text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _parse_settings(rest: str, prefix: str) -> dict[str, str]:
    found = {}
    for part in filter(None, rest.split("&")):
        key, _, value = part.partition("=")
        found[key] = urllib.parse.unquote(value)
        if key == "query":
            raise SourceError(
                f"{prefix}: a query cannot be validated to compute each row from one row. Create a table from it "
                "(CREATE TABLE ... AS SELECT ...) and name that with ?table=NAME: its rows are then what is protected"
            )
    return found


@dataclass(frozen=True)
class PostgresAddress:
    """Address of a PostgreSQL table: `//[user@]host[:port]/database?table=[schema.]name`."""

    user: str
    place: str
    """Host and database, as in the address."""
    table: tuple[str, ...]
    """Table name, preceded by its schema if given."""
    settings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, address: str) -> PostgresAddress:
        """Parse an address; SourceError, which quotes nothing of it, if it is invalid or contains a password."""
        found = _POSTGRES.fullmatch(address)
        user = (found["user"] or "") if found else ""
        if ":" in user or (found is None and "@" in address) or re.search(r"[?&]\w*password=", address):
            raise SourceError(f"postgresql: {_NO_SECRETS}")
        if found is None:
            raise SourceError("postgresql: an address is written postgresql://HOST/DATABASE?table=NAME")
        settings = _parse_settings(found["rest"] or "", "postgresql")
        table = tuple(settings.pop("table", "").split("."))
        if not all(table) or len(table) > 2:
            raise SourceError("postgresql: the address does not name a table; add ?table=NAME or ?table=SCHEMA.NAME")
        if unknown := sorted(set(settings) - set(_ALLOWED)):
            raise SourceError(f"postgresql: {unknown[0]} cannot be in an address; use PGUSER, PGOPTIONS or PGSERVICE")
        return cls(user, f"{found['host']}/{found['database'] or ''}", table, tuple(settings.items()))

    @property
    def name(self) -> str:
        """Name of the table in messages and records, without credentials."""
        return f"postgresql://{self.place}?table={'.'.join(self.table)}"

    @property
    def uri(self) -> str:
        """Connection URI for libpq, which looks up the password itself."""
        settings = urllib.parse.urlencode(dict(self.settings), quote_via=urllib.parse.quote)
        return f"postgresql://{self.user + '@' if self.user else ''}{self.place}{'?' + settings if settings else ''}"

    @property
    def quoted_table(self) -> str:
        """The table name as quoted SQL identifiers."""
        return ".".join(map(quote_name, self.table))


@dataclass(frozen=True)
class SqliteAddress:
    """Address of an SQLite table: `path?table=name`."""

    path: str
    table: str

    @classmethod
    def of(cls, address: str) -> SqliteAddress:
        """Parse an address; SourceError if it names no file or no table."""
        path, _, rest = address.rpartition("?")
        settings = _parse_settings(rest, "sqlite")
        table = settings.pop("table", "")
        if not path or not table or settings:
            raise SourceError("sqlite: an address is written sqlite:FILE?table=NAME")
        return cls(path, table)

    @property
    def name(self) -> str:
        """Name of the table in messages and records, without credentials."""
        return f"sqlite:{self.path}?table={self.table}"

    def files(self) -> Iterator[Path]:
        """Yield the database file and SQLite's auxiliary files."""
        for end in ("", "-wal", "-journal", "-shm"):
            yield Path(self.path + end)


@dataclass(frozen=True)
class SparkAddress:
    """Address of a table that Spark reads: `parquet:PATH` or `table:NAME`."""

    form: str
    place: str

    @classmethod
    def of(cls, address: str) -> SparkAddress:
        """Parse an address; SourceError, which quotes nothing of it, if it is invalid or contains a password."""
        form, _, place = address.partition(":")
        if _SECRETS.match(place):
            raise SourceError(
                "spark: an address must contain no password: others can read it in the process list. Put it into "
                "Spark's configuration (spark-defaults.conf), and leave it out here"
            )
        if form not in ("parquet", "table") or not place:
            raise SourceError("spark: an address is written spark:parquet:PATH, with a Spark path, or spark:table:NAME")
        return cls(form, place)

    @property
    def name(self) -> str:
        """Name of the table in messages and records, without credentials."""
        return f"spark:{self.form}:{self.place}"

    def files(self) -> Iterator[str | Path]:
        """Yield the files, folder or pattern that are read, if they are local."""
        if self.form == "parquet" and ("://" not in self.place or self.place.startswith("file:")):
            own = self.place.startswith("file:")
            yield urllib.parse.unquote(urllib.parse.urlparse(self.place).path) if own else self.place
