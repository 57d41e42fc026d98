"""What a file format states and does: one object serves reading, drafting, verification, writing and checkpoints.

Three bases hold what formats have in common. A `TypedFormat` declares the types of its columns, a `TextFormat` is text
in a declared dialect, and a `CellFormat` has cells that are read one by one as objects.

Privacy: a format reads each row independently of the others. No row decides how another one is split, typed or kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

import pyarrow as pa

from weft.errors import DataError, OutputError
from weft.io.byte_stream import Stream, open_text_stream
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.io.file_faults import readable_file
from weft.io.formats import get_compression
from weft.io.reader import Batches, Reader
from weft.io.text_to_types import csv_arrow_schema
from weft.schema import Schema

Formulas = Literal["keep", "escape"]
"""What to do with text that spreadsheets take for formulas. It is kept by default: a release has the values that the
schema says it has, and a program that reads it finds them; to escape them is to release other values."""

Sink = Path | IO[bytes]
"""Where a table is written to: a file, or bytes that are passed on."""

Write = Callable[[pa.Table], Any]
"""Writes a block of rows."""

_DRAFT_ROWS = 1 << 17  # read at a time for a draft
_UNPACKED = 6  # how much larger a packed text file roughly is, unpacked


@dataclass(frozen=True)
class Opening:
    """What is declared before files are read."""

    schema: Schema
    dialect: Dialect
    batch_rows: int


@dataclass(frozen=True)
class FileLayout:
    """What a file states of its columns; no row is read for it, but where the first one holds the names."""

    names: list[str] | None
    """Names of the columns; None for a file without rows that states them nowhere else."""
    types: pa.Schema | None = None
    """The columns with their types, where the file declares them."""
    rows: int | None = None
    """The number of rows, where the file declares it. Private."""


@dataclass(frozen=True)
class WriteOptions:
    """How a table is written."""

    ending: str
    """The ending of the file's name."""
    formulas: Formulas = "keep"
    schema: Schema | None = None
    """What is known of the columns: how their numbers are written in text."""


class Format(ABC):
    """A file format. A subclass states what it is, and has one instance, which the registry names."""

    name: ClassVar[str]
    """Its name in the registry."""
    endings: ClassVar[tuple[str, ...]]
    """How the names of its files end, in small letters; the first one is the usual one."""
    vague_endings: ClassVar[tuple[str, ...]] = ()
    """Endings that files of another content have too: such a file is read only if it is named itself."""
    written_endings: ClassVar[tuple[str, ...]] = ()
    """Endings of the files that can be written, with those of compressed ones; none for a format that is only read."""
    media_types: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Endings with their media types, for metadata."""
    magic: ClassVar[tuple[tuple[bytes, str], ...]] = ()
    """First bytes of a file, and what a message calls such a file, with the remedy."""
    dialect_options: ClassVar[tuple[str, ...]] = ()
    """The options of a `Dialect` that have an effect, besides markers of missing values."""
    is_text: ClassVar[bool] = False
    """Whether files are text, which may be compressed."""
    is_typed: ClassVar[bool] = False
    """Whether files declare the types of their columns; if not, cells are text until a schema says what they mean."""
    keeps_types: ClassVar[bool] = True
    """Whether a typed file declares for each column the very type that was written; else `stored_type` says which."""
    names_in_first_line: ClassVar[bool] = False
    """Whether the names of the columns stand in the first line, where a row might stand instead."""
    escapes_formulas: ClassVar[bool] = False
    """Whether `formulas="escape"` changes what is written."""

    def recognise(self, head: bytes) -> str | None:
        """Return what a message calls a file with these first bytes; None if it is not of this format."""
        return next((what for magic, what in self.magic if head.startswith(magic)), None)

    @abstractmethod
    def open(self, paths: Sequence[Path], opening: Opening) -> Reader:
        """Open files for reading in batches of their types; no row is read yet."""

    @abstractmethod
    def read_whole(self, path: Path, dialect: Dialect = DEFAULT_DIALECT) -> pa.Table:
        """Read a whole file for a draft: in the declared types, or all columns as the text that is written there."""

    @abstractmethod
    def read_columns(self, path: Path, schema: Schema, dialect: Dialect = DEFAULT_DIALECT) -> pa.Schema:
        """Return the columns and types of a file as a codec sees them; no row is read."""

    @abstractmethod
    def read_layout(self, path: Path) -> FileLayout:
        """Return what a released file states of its columns."""

    def stored_type(self, arrow_type: pa.DataType) -> pa.DataType:
        """Return the type that a file declares for a column of this type once it is written."""
        return arrow_type

    def writer(self, sink: Sink, arrow: pa.Schema, options: WriteOptions) -> AbstractContextManager[Write]:
        """Begin a file of these columns: blocks of rows are written as they come, and the file ends with the context.

        Raises
        ------
        OutputError
            If files of this format are only read.
        """
        raise OutputError(f"{options.ending} files are only read; write a .csv or .parquet file")


class TypedFormat(Format):
    """Files that declare the types of their columns, which are those of the rows that are made."""

    is_typed = True
    is_sound: ClassVar[bool] = False
    """Whether no row can make reading fail, in a file that is not damaged."""

    @abstractmethod
    def read_layout(self, path: Path) -> FileLayout:
        """Return the columns and types of a file, and its number of rows where that is known, without notes."""

    @abstractmethod
    def batches(self, path: Path, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read some columns, at most so many rows at a time, in the types of the layout."""

    def open(self, paths: Sequence[Path], opening: Opening) -> Reader:
        """Open files, whose columns and types must be the same."""
        stamps = stamp_files(paths)
        layouts = []
        for path in paths:
            with readable_file(path):
                layouts.append(self.read_layout(path))
            if not _get_declared_types(layouts[-1]).equals(_get_declared_types(layouts[0])):
                raise DataError(f"{path} has other columns or types than {paths[0]}; give files of one layout")
        counts = [each.rows for each in layouts if each.rows is not None]
        rows = sum(counts) if len(counts) == len(paths) else None

        def start(columns: Sequence[str]) -> Batches:
            require_unchanged(paths, stamps)
            seen = 0
            for path in paths:
                with readable_file(path):
                    for batch in self.batches(path, columns, opening.batch_rows):
                        seen += batch.num_rows
                        yield batch, seen / rows if rows else None
            require_unchanged(paths, stamps)

        size = None if rows is not None else sum(stamp[0] for stamp in stamps)
        return Reader(name_of(paths), _get_declared_types(layouts[0]), start, rows=rows, size=size, sound=self.is_sound)

    def read_whole(self, path: Path, dialect: Dialect = DEFAULT_DIALECT) -> pa.Table:
        """Read a whole file in its types."""
        with readable_file(path):
            arrow = _get_declared_types(self.read_layout(path))
            return pa.Table.from_batches(self.batches(path, arrow.names, _DRAFT_ROWS), arrow)

    def read_columns(self, path: Path, schema: Schema, dialect: Dialect = DEFAULT_DIALECT) -> pa.Schema:
        """Return the columns and types that a file declares."""
        with readable_file(path):
            return _get_declared_types(self.read_layout(path))


class TextFormat(Format):
    """Text in a declared dialect, perhaps compressed; types are the schema's."""

    is_text = True

    @abstractmethod
    def batches(self, stream: Stream, schema: Schema, dialect: Dialect) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file batch by batch, in the schema's types."""

    def explaining(self, path: Path, dialect: Dialect) -> AbstractContextManager[None]:
        """Return the context in which a file is read, which may say more of what is wrong with it."""
        return nullcontext()

    def open_as(self, paths: Sequence[Path], opening: Opening, arrow: pa.Schema) -> Reader:
        """Open files of these columns and types."""
        stamps = stamp_files(paths)
        sizes = [size for size, *_ in stamps]
        unpacked = [n * _UNPACKED if get_compression(path) else n for path, n in zip(paths, sizes, strict=True)]
        dialect = opening.dialect

        def start(_columns: Sequence[str]) -> Batches:
            require_unchanged(paths, stamps)
            before = 0
            for path, size in zip(paths, sizes, strict=True):
                with readable_file(path), self.explaining(path, dialect), open_text_stream(path, dialect) as stream:
                    for batch in self.batches(stream, opening.schema, dialect):
                        yield batch, (before + min(stream.tell(), size)) / max(sum(sizes), 1)
                before += size
            require_unchanged(paths, stamps)

        return Reader(name_of(paths), arrow, start, size=sum(unpacked))


class CellFormat(Format):
    """Files of cells, each of its own type: each is written down as CSV has it, and read in the schema's type."""

    @abstractmethod
    def read_names(self, path: Path, dialect: Dialect = DEFAULT_DIALECT, schema: Schema | None = None) -> list[str]:
        """Return the names of the columns."""

    @abstractmethod
    def batches(self, path: Path, schema: Schema, dialect: Dialect = DEFAULT_DIALECT) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file batch by batch, in the schema's types."""

    def open(self, paths: Sequence[Path], opening: Opening) -> Reader:
        """Open files of one layout."""
        stamps = stamp_files(paths)
        arrow = self.read_columns(paths[0], opening.schema, opening.dialect)

        def start(_columns: Sequence[str]) -> Batches:
            require_unchanged(paths, stamps)
            for done, path in enumerate(paths, 1):
                with readable_file(path):
                    for batch in self.batches(path, opening.schema, opening.dialect):
                        yield batch, done / len(paths)
            require_unchanged(paths, stamps)

        return Reader(name_of(paths), arrow, start, size=sum(size for size, *_ in stamps))

    def read_columns(self, path: Path, schema: Schema, dialect: Dialect = DEFAULT_DIALECT) -> pa.Schema:
        """Return the columns that a file names, in the schema's types."""
        with readable_file(path):
            return csv_arrow_schema(schema, self.read_names(path, dialect, schema))

    def read_layout(self, path: Path) -> FileLayout:
        """Return the names of the columns."""
        return FileLayout(self.read_names(path))


def name_of(paths: Sequence[Path]) -> str:
    """Return what messages call files that are one table."""
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and others"


def stamp_files(paths: Sequence[Path]) -> list[tuple[int, ...]]:
    """Return size, time and inode of each file."""
    stamps: list[tuple[int, ...]] = []
    for path in paths:
        with readable_file(path):
            status = path.stat()
            stamps.append((status.st_size, status.st_mtime_ns, status.st_ino))
    return stamps


def require_unchanged(paths: Sequence[Path], stamps: Sequence[tuple[int, ...]]) -> None:
    """Refuse files that differ from their stamps.

    Privacy: every answer must be about the same rows; a table that changes between two queries voids the argument.
    """
    for path, before, now in zip(paths, stamps, stamp_files(paths), strict=True):
        if before != now:
            raise DataError(f"{path} has changed since it was opened; start again from a copy that stays still")


def _get_declared_types(layout: FileLayout) -> pa.Schema:
    assert layout.types is not None, "a typed format declares its types"
    return layout.types
