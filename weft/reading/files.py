"""Readers of files, of every format: one file, several, a folder, a pattern, or standard input."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from weft.errors import DataError
from weft.files import TABLES, ending, format_of, packing
from weft.reading.csv import check_columns, csv_arrow_schema, csv_batches, names_of
from weft.reading.dialect import PLAIN, Dialect
from weft.reading.excel import excel_batches, excel_names
from weft.reading.faults import explained, readable_file, unknown_kind
from weft.reading.jsonl import jsonl_batches
from weft.reading.queries import require_once
from weft.reading.reader import Batches, Reader
from weft.reading.stats import stats_batches, stats_names
from weft.reading.stream import STDIN, Stream, opened
from weft.reading.typed import arrow_batches, arrow_schema, parquet_batches, parquet_schema
from weft.schema import Schema

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, a folder, a pattern such as `2013-*.csv`, "-" for standard input, or a list of these."""

_UNPACKED = 6  # how much larger a packed text file roughly is, unpacked


@dataclass(frozen=True)
class _Opening:
    """What is told before files are read."""

    schema: Schema
    dialect: Dialect
    batch_rows: int


def open_files(source: Paths, schema: Schema, batch_rows: int, dialect: Dialect = PLAIN) -> Reader:
    """Open files of one format; those of a folder or pattern are read in the order of their names."""
    opening = _Opening(dialect.marking(schema), dialect, batch_rows)
    if str(source) == STDIN:
        dialect.check("csv", "stdin")
        return _open_stdin(opening)
    paths = find(source)
    require_once(_name(paths), paths)
    kinds = {kind_of(path) for path in paths}
    if len(kinds) > 1:
        raise DataError(f"{paths[0]} and its fellows are not of one kind; name files of one format")
    kind = kinds.pop()
    dialect.check(kind, str(paths[0]))
    return _OPENERS[kind](paths, opening)


def find(source: Paths) -> list[Path]:
    """Return the files that a source names."""
    if not isinstance(source, str | os.PathLike):
        if not source:
            raise DataError("no file was named")
        return [path for each in source for path in find(each)]
    path = Path(source)
    if path.is_dir():
        paths = sorted(each for each in path.rglob("*") if each.is_file() and ending(each) in TABLES)
        if not paths:
            raise DataError(f"{path} holds no .csv, .parquet or other file of a table")
        return paths
    if path.exists():
        return [path]
    paths = sorted(Path(each) for each in glob.glob(str(path), recursive=True))  # noqa: PTH207 (absolute too)
    if not paths:
        raise DataError(f"{path}: no such file")
    return paths


def kind_of(path: Path) -> str:
    """Return the format of a file, which its name tells; DataError if it does not."""
    found = format_of(path)
    if found is None:
        raise unknown_kind(path)
    return found


def _stamp(paths: Sequence[Path]) -> list[tuple[int, ...]]:
    stamps: list[tuple[int, ...]] = []
    for path in paths:
        with readable_file(path):
            status = path.stat()
            stamps.append((status.st_size, status.st_mtime_ns, status.st_ino))
    return stamps


def _require_unchanged(paths: Sequence[Path], stamps: Sequence[tuple[int, ...]]) -> None:
    # Every answer must be about the same rows: a table that changes half-way voids the privacy argument.
    for path, before, now in zip(paths, stamps, _stamp(paths), strict=True):
        if before != now:
            raise DataError(f"{path} has changed since it was opened; start again from a copy that stays still")


def _open_parquet(paths: Sequence[Path], opening: _Opening) -> Reader:
    rows = 0
    for path in paths:
        with readable_file(path):
            rows += parquet_schema(path)[1]

    def batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return parquet_batches(path, columns, opening.batch_rows)

    return _open_typed(paths, lambda path: parquet_schema(path)[0], batches, rows)


def _open_arrow(paths: Sequence[Path], opening: _Opening) -> Reader:
    def batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return arrow_batches(path, columns, opening.batch_rows)

    return _open_typed(paths, arrow_schema, batches, None)


def _open_typed(
    paths: Sequence[Path],
    schema_of: Callable[[Path], pa.Schema],
    batches: Callable[[Path, Sequence[str]], Iterator[pa.RecordBatch]],
    rows: int | None,
) -> Reader:
    """Open files that declare their types, which must be the same in all of them."""
    stamps = _stamp(paths)
    arrow: pa.Schema | None = None
    for path in paths:
        with readable_file(path):
            own = schema_of(path)
        if arrow is not None and not own.equals(arrow):
            raise DataError(f"{path} has other columns or types than {paths[0]}; give files of one layout")
        arrow = own

    def start(columns: Sequence[str]) -> Batches:
        _require_unchanged(paths, stamps)
        seen = 0
        for path in paths:
            with readable_file(path):
                for batch in batches(path, columns):
                    seen += batch.num_rows
                    yield batch, seen / rows if rows else None
        _require_unchanged(paths, stamps)

    size = sum(stamp[0] for stamp in stamps)
    return Reader(
        _name(paths), arrow, start, rows=rows, size=None if rows is not None else size, sound=rows is not None
    )


def _open_csv(paths: Sequence[Path], opening: _Opening) -> Reader:
    with readable_file(paths[0]), explained(paths[0], opening.dialect), opened(paths[0], opening.dialect) as stream:
        names = names_of(stream, opening.dialect, opening.schema)
        if any(names):
            check_columns(opening.schema, names, stream.name)
        arrow = csv_arrow_schema(opening.schema, names)
    return _open_text(paths, opening, arrow, csv_batches)


def _open_jsonl(paths: Sequence[Path], opening: _Opening) -> Reader:
    def batches(stream: Stream, schema: Schema, _dialect: Dialect) -> Iterator[pa.RecordBatch]:
        return jsonl_batches(stream, schema)

    return _open_text(paths, opening, csv_arrow_schema(opening.schema), batches)


def _open_text(
    paths: Sequence[Path],
    opening: _Opening,
    arrow: pa.Schema,
    batches: Callable[[Stream, Schema, Dialect], Iterator[pa.RecordBatch]],
) -> Reader:
    """Open text files, which have the schema's types."""
    stamps = _stamp(paths)
    sizes = [size for size, *_ in stamps]
    unpacked = [n * _UNPACKED if packing(path) else n for path, n in zip(paths, sizes, strict=True)]
    dialect = opening.dialect

    def start(_columns: Sequence[str]) -> Batches:
        _require_unchanged(paths, stamps)
        before = 0
        for path, size in zip(paths, sizes, strict=True):
            telling = explained(path, dialect) if batches is csv_batches else nullcontext()
            with readable_file(path), telling, opened(path, dialect) as stream:
                for batch in batches(stream, opening.schema, dialect):
                    yield batch, (before + min(stream.tell(), size)) / max(sum(sizes), 1)
            before += size
        _require_unchanged(paths, stamps)

    return Reader(_name(paths), arrow, start, size=sum(unpacked))


def _open_stdin(opening: _Opening) -> Reader:
    """Open standard input: CSV, read once and kept nowhere but as codes."""
    dialect, schema = opening.dialect, opening.schema
    held = opened(STDIN, dialect)
    with readable_file("stdin"):
        stream = held.__enter__()
        arrow = csv_arrow_schema(schema, names_of(stream, dialect, schema))

    def start(_columns: Sequence[str]) -> Batches:
        with readable_file("stdin"):
            for batch in csv_batches(stream, schema, dialect):
                yield batch, None

    return Reader("stdin", arrow, start, repeatable=False)


def _open_cells(
    names: Callable[[Path], list[str]], batches: Callable[[Path, Schema], Iterator[pa.RecordBatch]]
) -> Callable[[Sequence[Path], _Opening], Reader]:
    """Return what opens files of cells that are read one by one."""

    def open_(paths: Sequence[Path], opening: _Opening) -> Reader:
        stamps = _stamp(paths)
        with readable_file(paths[0]):
            arrow = csv_arrow_schema(opening.schema, names(paths[0]))

        def start(_columns: Sequence[str]) -> Batches:
            _require_unchanged(paths, stamps)
            for done, path in enumerate(paths, 1):
                with readable_file(path):
                    for batch in batches(path, opening.schema):
                        yield batch, done / len(paths)
            _require_unchanged(paths, stamps)

        return Reader(_name(paths), arrow, start, size=sum(size for size, *_ in stamps))

    return open_


def _open_excel(paths: Sequence[Path], opening: _Opening) -> Reader:
    sheet = opening.dialect.sheet
    return _open_cells(partial(excel_names, sheet=sheet), partial(excel_batches, sheet=sheet))(paths, opening)


_OPENERS: dict[str, Callable[[Sequence[Path], _Opening], Reader]] = {
    "csv": _open_csv,
    "jsonl": _open_jsonl,
    "parquet": _open_parquet,
    "arrow": _open_arrow,
    "excel": _open_excel,
    "stats": _open_cells(stats_names, stats_batches),
}


def _name(paths: Sequence[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and others"
