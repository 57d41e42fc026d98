"""Release outputs other than a file: a new database table, or a folder of Parquet files written by Spark."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.display import format_count
from weft.errors import DataError, OutputError
from weft.io.addresses import kind_of_address
from weft.io.atomic_files import check_appendable
from weft.io.formats import get_ending, table_endings
from weft.io.output_paths import same_file
from weft.io.table_addresses import PostgresAddress, SqliteAddress, quote_literal
from weft.progress import Listener, ignore_event, report_stage

if TYPE_CHECKING:
    import pyarrow as pa

_BUDGET = {"entries", "head"}  # tables of a lifetime budget (weft.privacy.hash_chain)


@dataclass(frozen=True)
class DatabaseTable:
    """A database table to be created."""

    address: SqliteAddress | PostgresAddress

    @classmethod
    def of(cls, output: str) -> DatabaseTable | None:
        """Return the table that an output names; None if it names a file. OutputError if it cannot be written."""
        try:
            if kind_of_address(output) is None:
                return None
            prefix, _, address = output.partition(":")
            if prefix in ("postgresql", "postgres"):
                return cls(PostgresAddress.of(address))
            if prefix == "sqlite":
                return cls(SqliteAddress.of(address))
            raise OutputError(f"cannot write a table to {prefix}: addresses; write a .parquet file")
        except DataError as fault:
            raise OutputError(str(fault)) from None

    @property
    def name(self) -> str:
        """Name of the table in messages and the card, without the user."""
        return self.address.name

    @property
    def place(self) -> Path:
        """Path, in the current folder and without ending, of the files that accompany the table."""
        table = self.address.table
        own = table if isinstance(table, str) else table[-1]
        return Path("".join(sign if sign.isalnum() or sign in "_-" else "_" for sign in own))

    def check(self, files: Iterable[Path]) -> None:
        """Refuse a table that exists, cannot be created, or whose database is one of the accompanying `files`."""
        if isinstance(self.address, SqliteAddress):
            if any(same_file(Path(self.address.path), file) for file in files):
                raise OutputError(f"cannot write {self.name}: another file of this command has its name. Rename one.")
            self._check_file(Path(self.address.path), self.address.table)
            return
        table = self.address.quoted_table
        schema = quote_literal(self.address.table[0]) if len(self.address.table) > 1 else "current_schema()"
        allowing = f"SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = {schema}"  # noqa: S608
        with self._connected() as connection:
            there = _fetch_value(connection, f"SELECT to_regclass({quote_literal(table)}) IS NOT NULL")
            allowed = _fetch_value(connection, f"SELECT coalesce(({allowing}), false)")
        if there:
            raise self._taken()
        if not allowed:
            raise OutputError(f"cannot write {self.name}: this user may not create tables. Ask for the CREATE right.")

    def _check_file(self, path: Path, table: str) -> None:
        check_appendable(path)
        if not path.is_file():
            if path.exists():
                raise OutputError(f"cannot write {self.name}: {path} is no plain file. Choose another name.")
            return
        with self._connected() as connection:
            found = _fetch_value(connection, "SELECT lower(group_concat(name, char(10))) FROM sqlite_master") or ""
        names = set(str(found).split("\n"))
        if names >= _BUDGET:
            raise OutputError(f"cannot write {self.name}: the database is a lifetime budget. Choose another one.")
        if table.lower() in names:
            raise self._taken()

    def _taken(self) -> OutputError:
        return OutputError(f"cannot write {self.name}: the table already exists. Choose another name, or drop it.")

    @contextmanager
    def written(self, tables: Iterable[pa.Table], listener: Listener = ignore_event) -> Iterator[tuple[int, str]]:
        """Write blocks of rows as they arrive, and yield their number and the hash of the stored table
        (`weft.io.adbc`). The rows are committed if the context succeeds; otherwise none is kept."""
        new = Path(self.address.path) if isinstance(self.address, SqliteAddress) else None
        new = None if new is None or new.exists() else new
        done = False
        try:
            with self._connected() as connection, report_stage(listener, "write") as work:
                rows = 0
                for number, block in enumerate(tables):
                    self._append(connection, block, first=number == 0)
                    rows += block.num_rows
                    work.advance(note=format_count(rows, "row"))
                yield rows, self._hash(connection, block.column_names)
                connection.commit()
                done = True
        finally:
            if new is not None and not done:
                new.unlink(missing_ok=True)

    def _append(self, connection: Any, block: pa.Table, first: bool) -> None:
        table = self.address.table
        target: dict[str, Any] = {"table_name": table if isinstance(table, str) else table[-1]}
        if not isinstance(table, str) and len(table) > 1:
            target["db_schema_name"] = table[0]
        with connection.cursor() as cursor:
            plain = _convert_for_driver(block, texts=isinstance(self.address, SqliteAddress))
            cursor.adbc_ingest(data=plain, mode="create" if first else "append", **target)

    def _hash(self, connection: Any, columns: Sequence[str]) -> str:
        # Imports Arrow, which --help does not need.
        from weft.io.adbc import digest_batches, in_order, list_setup_statements

        with connection.cursor() as cursor:
            for statement in list_setup_statements(self.address):
                cursor.execute(statement)
            cursor.execute(in_order(self.address, columns))
            with cursor.fetch_record_batch() as lines:
                return digest_batches(lines)[1]

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Connect for one transaction, rolled back unless committed; the database's own messages are dropped."""
        from weft.io.adbc import import_driver
        from weft.io.postgres import connect_postgres

        if isinstance(self.address, PostgresAddress):
            try:
                connection = connect_postgres(self.address, autocommit=False)
            except DataError as fault:
                raise OutputError(f"cannot write {fault}") from None
        else:
            dbapi = import_driver("sqlite", "sqlite")
            with self._told(dbapi.Error):
                connection = dbapi.connect(f"file:{urllib.parse.quote(self.address.path)}")
        import adbc_driver_manager

        try:
            with self._told(adbc_driver_manager.Error):
                yield connection
        finally:
            with suppress(adbc_driver_manager.Error):
                connection.rollback()
            connection.close()

    @contextmanager
    def _told(self, error: type[Exception]) -> Iterator[None]:
        try:
            yield
        except error:
            raise OutputError(
                f"cannot write {self.name}: the database refused it, or the connection was lost. Nothing was left "
                "behind; check that the database is running, and that this user may create tables there."
            ) from None


def _fetch_value(connection: Any, question: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(question)
        return cursor.fetchone()[0]


def _convert_for_driver(block: pa.Table, texts: bool) -> pa.Table:
    """Return rows in types that the driver stores; with `texts`, dates and decimals are text."""
    import pyarrow as pa

    kinds = {field.name: _choose_stored_type(field.type, texts) for field in block.schema}
    return block.cast(pa.schema(kinds.items())) if len(kinds) == block.num_columns else block


def _choose_stored_type(arrow: pa.DataType, texts: bool) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_dictionary(arrow):
        return _choose_stored_type(arrow.value_type, texts)
    if pa.types.is_float16(arrow):
        return pa.float32()
    if pa.types.is_boolean(arrow) or pa.types.is_floating(arrow) or (pa.types.is_integer(arrow)):
        return pa.float64() if texts and pa.types.is_uint64(arrow) else arrow
    if not texts and pa.types.is_date(arrow):
        return pa.date32()
    if not texts and pa.types.is_timestamp(arrow):
        return pa.timestamp("us", arrow.tz)
    if not texts and pa.types.is_time(arrow):
        return pa.time64("us")
    if not texts and pa.types.is_decimal(arrow):
        return arrow
    return pa.string()


@dataclass(frozen=True)
class Dataset:
    """A folder of Parquet files, with its cards next to it."""

    folder: Path

    @classmethod
    def of(cls, output: str) -> Dataset:
        """Return the folder that an output names; OutputError if it is not a folder, or already exists."""
        if output == "-" or "://" in output or get_ending(output) in table_endings():
            raise OutputError("--spark writes Parquet files to a new folder that all executors share, as in -o made/")
        made = cls(Path(output))
        made.check()
        return made

    def __iter__(self) -> Iterator[Path]:
        return iter((self.folder, self.card, self.card_json))

    @property
    def card(self) -> Path:
        """Path of the human-readable card."""
        return self.folder.with_name(self.folder.name + ".card.md")

    @property
    def card_json(self) -> Path:
        """Path of the machine-readable card."""
        return self.folder.with_name(self.folder.name + ".card.json")

    def check(self) -> None:
        """Refuse a folder that already exists or cannot be created."""
        if self.folder.exists():
            raise OutputError(f"cannot write {self.folder}: it already exists. Choose another name, or remove it.")
        if not self.folder.parent.is_dir():
            raise OutputError(f"cannot write {self.folder}: the folder {self.folder.parent} does not exist.")
