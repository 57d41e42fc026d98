"""Interface of file formats, for reading, drafting, verification, writing and checkpoints.

Formats have one of three base classes: a `TypedFormat` declares the types of its columns, a `TextFormat` is text in a
declared dialect, and a `CellFormat` has cells that are read one by one as objects.

Privacy: a format reads each row independently. No row determines how another row is split, typed or kept.
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
"""Whether text that spreadsheets run as formulas is kept or escaped. The default keeps it: a release has exactly the
schema's values, and escaping would change them."""

Sink = Path | IO[bytes]
Write = Callable[[pa.Table], Any]
"""Function that writes a block of rows."""

_DRAFT_ROWS = 1 << 17  # read at a time for a draft
_UNPACKED = 6  # estimated compression ratio of text files


@dataclass(frozen=True)
class Opening:
    """Arguments for opening files."""

    schema: Schema
    dialect: Dialect
    batch_rows: int


@dataclass(frozen=True)
class FileLayout:
    """Columns that a file declares; no row is read for it, except a first row that holds the names."""

    names: list[str] | None
    """Column names; None for a file without rows that declares them nowhere else."""
    types: pa.Schema | None = None
    """The columns with their types, if the file declares them."""
    rows: int | None = None
    """The number of rows, if the file declares it. Private."""


@dataclass(frozen=True)
class WriteOptions:
    """Options for writing a table."""

    ending: str
    formulas: Formulas = "keep"
    schema: Schema | None = None
    """Schema with the number formats of the columns."""


class Format(ABC):
    """A file format. Each subclass has one instance, which is listed in the registry."""

    name: ClassVar[str]
    endings: ClassVar[tuple[str, ...]]
    """Endings of file names, in lower case; the first one is the most common."""
    vague_endings: ClassVar[tuple[str, ...]] = ()
    """Endings that other kinds of files share: such a file is read only if it is named explicitly."""
    written_endings: ClassVar[tuple[str, ...]] = ()
    """Endings of files that can be written, compressed ones included; empty for a read-only format."""
    media_types: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Endings with their media types, for metadata."""
    magic: ClassVar[tuple[tuple[bytes, str], ...]] = ()
    """First bytes of files, with the description and the remedy that messages use."""
    dialect_options: ClassVar[tuple[str, ...]] = ()
    """The options of a `Dialect` that have an effect, in addition to `missing`."""
    is_text: ClassVar[bool] = False
    """Whether files are text, which may be compressed."""
    is_typed: ClassVar[bool] = False
    """Whether files declare the types of their columns; if not, cells are text that the schema interprets."""
    keeps_types: ClassVar[bool] = True
    """Whether a typed file keeps the type of each written column; if not, see `stored_type`."""
    names_in_first_line: ClassVar[bool] = False
    """Whether the first line holds the column names, so that a row could be mistaken for them."""
    escapes_formulas: ClassVar[bool] = False
    """Whether `formulas="escape"` has an effect."""

    def recognise(self, head: bytes) -> str | None:
        """Return the description of a file with these first bytes; None if it does not have this format."""
        return next((what for magic, what in self.magic if head.startswith(magic)), None)

    @abstractmethod
    def open(self, paths: Sequence[Path], opening: Opening) -> Reader:
        """Open files for reading in batches; no row is read yet."""

    @abstractmethod
    def read_whole(self, path: Path, dialect: Dialect = DEFAULT_DIALECT) -> pa.Table:
        """Read a whole file for a draft: in its declared types, or with all columns as text."""

    @abstractmethod
    def read_columns(self, path: Path, schema: Schema, dialect: Dialect = DEFAULT_DIALECT) -> pa.Schema:
        """Return the columns and types of a file, as a codec gets them; no row is read."""

    @abstractmethod
    def read_layout(self, path: Path) -> FileLayout:
        """Return the layout of a released file."""

    def stored_type(self, arrow_type: pa.DataType) -> pa.DataType:
        """Return the type that a file declares for a written column of this type."""
        return arrow_type

    def writer(self, sink: Sink, arrow: pa.Schema, options: WriteOptions) -> AbstractContextManager[Write]:
        """Begin a file; the context writes blocks of rows and closes the file. OutputError for a read-only format."""
        raise OutputError(f"{options.ending} files can only be read; write a .csv or .parquet file")


class TypedFormat(Format):
    """Files that declare the types of their columns, which synthetic rows share."""

    is_typed = True
    is_sound: ClassVar[bool] = False
    """Whether no row of an undamaged file can make reading fail."""

    @abstractmethod
    def read_layout(self, path: Path) -> FileLayout:
        """Return the columns and types of a file without metadata, and its number of rows if declared."""

    @abstractmethod
    def batches(self, path: Path, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read some columns in the types of the layout, at most `batch_rows` rows at a time."""

    def open(self, paths: Sequence[Path], opening: Opening) -> Reader:
        """Open files, whose columns and types must be the same."""
        stamps = stamp_files(paths)
        layouts = []
        for path in paths:
            with readable_file(path):
                layouts.append(self.read_layout(path))
            if not _get_declared_types(layouts[-1]).equals(_get_declared_types(layouts[0])):
                raise DataError(f"{path} has other columns or types than {paths[0]}; name files with the same columns")
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
    """Text in a declared dialect, optionally compressed; the schema declares the types."""

    is_text = True

    @abstractmethod
    def batches(self, stream: Stream, schema: Schema, dialect: Dialect) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file batch by batch, in the schema's types."""

    def explaining(self, path: Path, dialect: Dialect) -> AbstractContextManager[None]:
        """Return a context for reading a file, which may add detail to its errors."""
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
    """Files of cells with individual types: each cell is converted to CSV text, and read in the schema's type."""

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
    """Return the name of a table's files in messages."""
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and others"


def stamp_files(paths: Sequence[Path]) -> list[tuple[int, ...]]:
    """Return size, modification time and inode of each file."""
    stamps: list[tuple[int, ...]] = []
    for path in paths:
        with readable_file(path):
            status = path.stat()
            stamps.append((status.st_size, status.st_mtime_ns, status.st_ino))
    return stamps


def require_unchanged(paths: Sequence[Path], stamps: Sequence[tuple[int, ...]]) -> None:
    """Refuse files that differ from their stamps.

    Privacy: all queries must be about the same rows; a table that changes between two queries voids the guarantee.
    """
    for path, before, now in zip(paths, stamps, stamp_files(paths), strict=True):
        if before != now:
            raise DataError(f"{path} has changed since it was opened; start again from an unchanging copy")


def _get_declared_types(layout: FileLayout) -> pa.Schema:
    assert layout.types is not None, "a typed format declares its types"
    return layout.types
