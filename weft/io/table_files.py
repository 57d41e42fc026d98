"""Read tables from files of any format, folders or standard input, and write them to files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa

from weft.display import format_count
from weft.errors import DataError, SourceError
from weft.io.byte_stream import PACKERS, STDIN, open_text_stream
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.io.duckdb_source import require_once
from weft.io.file_faults import make_unknown_format_error, readable_file
from weft.io.formats import find_format, format_of, get_compression, get_ending, table_endings
from weft.io.formats.csv_files import CSV, csv_batches, names_of
from weft.io.formats.format import Format, Formulas, Opening, Sink, WriteOptions, name_of
from weft.io.reader import Batches, Reader
from weft.io.text_to_types import csv_arrow_schema
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Schema

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, a folder, a pattern such as `2013-*.csv`, "-" for standard input, or a list of these."""


def open_files(source: Paths, schema: Schema, batch_rows: int, dialect: Dialect = DEFAULT_DIALECT) -> Reader:
    """Open files of one format; the files of a folder or pattern are read in the order of their names."""
    opening = Opening(dialect.marking(schema), dialect, batch_rows)
    if str(source) == STDIN:
        dialect.check(CSV.dialect_options, "stdin")
        return _open_stdin(opening)
    paths = find_files(source)
    require_once(name_of(paths), paths)
    found = {require_known_format(path).name for path in paths}
    if len(found) > 1:
        raise SourceError(f"{paths[0]} and the other files have different formats; name files of one format")
    form = find_format(found.pop())
    dialect.check(form.dialect_options, str(paths[0]))
    return form.open(paths, opening)


def find_files(source: Paths) -> list[Path]:
    """Return the files of a source."""
    if not isinstance(source, str | os.PathLike):
        if not source:
            raise SourceError("no file was named")
        return [path for each in source for path in find_files(each)]
    path = Path(source)
    if path.is_dir():
        endings = table_endings()
        paths = sorted(each for each in path.rglob("*") if each.is_file() and get_ending(each) in endings)
        if not paths:
            raise SourceError(f"{path} holds no .csv, .parquet or other table file")
        return paths
    if path.exists():
        return [path]
    paths = sorted(Path(each) for each in glob.glob(str(path), recursive=True))  # noqa: PTH207 (absolute too)
    if not paths:
        raise SourceError(f"{path}: no such file")
    return paths


def require_known_format(path: Path) -> Format:
    """Return the format of a file by its ending; DataError if it is unknown, or the file is empty and not text."""
    found = format_of(path)
    if found is None:
        raise make_unknown_format_error(path)
    with readable_file(path):
        if (not found.is_text or get_compression(path) == ".zip") and path.stat().st_size == 0:
            raise DataError(f"{path} is empty. Check that it was written completely")
    return found


def _open_stdin(opening: Opening) -> Reader:
    """Open standard input: CSV, read once and kept only as codes."""
    dialect, schema = opening.dialect, opening.schema
    held = open_text_stream(STDIN, dialect)
    with readable_file("stdin"):
        stream = held.__enter__()
        arrow = csv_arrow_schema(schema, names_of(stream, dialect, schema))

    def start(_columns: Sequence[str]) -> Batches:
        with readable_file("stdin"):
            for batch in csv_batches(stream, schema, dialect):
                yield batch, None

    return Reader("stdin", arrow, start, repeatable=False)


def write_table(
    tables: Iterable[pa.Table],
    sink: Sink,
    suffix: str = ".csv",
    *,
    formulas: Formulas = "keep",
    schema: Schema | None = None,
    listener: Listener = ignore_event,
) -> int:
    """Write blocks of rows as they arrive, in the format of this ending; return the number of rows.

    With `formulas="escape"`, CSV text cells that a spreadsheet would run as formulas get a leading apostrophe. CSV
    numbers are written in the column's number format in the `schema`.
    """
    rows = 0
    blocks = iter(tables)
    first = next(blocks)
    form = format_of(f"table{suffix}") or CSV
    packed = PACKERS.get(get_compression(f"table{suffix}"))
    with (
        nullcontext(sink) if packed is None else pa.CompressedOutputStream(str(sink), packed) as target,
        form.writer(target, first.schema, WriteOptions(suffix, formulas, schema)) as write,
        report_stage(listener, "write") as work,
    ):
        for block in _prefetch_blocks(first, blocks):
            write(block)
            rows += block.num_rows
            work.advance(note=format_count(rows, "row"))
    return rows


def _prefetch_blocks(first: pa.Table, others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield blocks of rows in order; the next one is computed while one is written."""
    with ThreadPoolExecutor(1) as pool:
        block: pa.Table | None = first
        while block is not None:
            coming = pool.submit(next, others, None)
            yield block
            block = coming.result()
