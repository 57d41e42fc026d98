"""Readers of files: CSV (plain or gzipped) and Parquet; one, several, a folder, or a pattern."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from weft.engines.queries import require_once
from weft.engines.reader import Batches, Reader
from weft.errors import DataError
from weft.reading.csv import csv_arrow_schema, csv_batches, csv_names
from weft.reading.faults import explained
from weft.schema import Schema

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, a folder, a pattern such as `2013-*.csv`, or a list of these."""

_KINDS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".csv.gz": "csv"}
_UNPACKED = 6  # how much larger a gzipped CSV roughly is, unpacked


def open_files(source: Paths, schema: Schema, batch_rows: int) -> Reader:
    """Open files of one kind; those of a folder or pattern are read in the order of their names."""
    paths = _find(source)
    require_once(_name(paths), paths)
    kinds = {_kind(path) for path in paths}
    if len(kinds) > 1:
        raise DataError(f"{paths[0]} and its fellows are not of one kind; name either CSV or Parquet files")
    return _open_parquet(paths, batch_rows) if kinds == {"parquet"} else _open_csv(paths, schema)


def _find(source: Paths) -> list[Path]:
    if not isinstance(source, str | os.PathLike):
        if not source:
            raise DataError("no file was named")
        return [path for each in source for path in _find(each)]
    path = Path(source)
    if path.is_dir():
        paths = sorted(each for each in path.rglob("*") if each.is_file() and _suffix(each) in _KINDS)
        if not paths:
            raise DataError(f"{path} holds no .csv, .csv.gz or .parquet file")
        return paths
    if path.exists():
        return [path]
    paths = sorted(Path(each) for each in glob.glob(str(path), recursive=True))  # noqa: PTH207 (absolute too)
    if not paths:
        raise DataError(f"{path}: no such file")
    return paths


def _suffix(path: Path) -> str:
    name = path.name.lower()
    return ".csv.gz" if name.endswith(".csv.gz") else Path(name).suffix


def _kind(path: Path) -> str:
    try:
        return _KINDS[_suffix(path)]
    except KeyError:
        raise DataError(f"{path}: unknown kind of file; name a .csv, .csv.gz or .parquet file") from None


def _stamp(paths: Sequence[Path]) -> list[tuple[int, ...]]:
    stamps: list[tuple[int, ...]] = []
    for path in paths:
        with _readable(path):
            status = path.stat()
            stamps.append((status.st_size, status.st_mtime_ns, status.st_ino))
    return stamps


def _require_unchanged(paths: Sequence[Path], stamps: Sequence[tuple[int, ...]]) -> None:
    # Every answer must be about the same rows: a table that changes half-way voids the privacy argument.
    for path, before, now in zip(paths, stamps, _stamp(paths), strict=True):
        if before != now:
            raise DataError(f"{path} has changed since it was opened; start again from a copy that stays still")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn failures to read a file into plain messages. Arrow's own text is dropped, for it quotes values."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; it may have been moved or deleted") from None
    except pa.ArrowException:
        raise DataError(f"{path} cannot be read: it is damaged, or not what its name says") from None
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else "the file is damaged"
        raise DataError(f"{path} cannot be read ({why})") from None


def _open_parquet(paths: Sequence[Path], batch_rows: int) -> Reader:
    stamps = _stamp(paths)
    rows = 0
    arrow: pa.Schema | None = None
    for path in paths:
        with _readable(path), pq.ParquetFile(path) as file:
            rows += file.metadata.num_rows
            own = file.schema_arrow.remove_metadata()
        if arrow is not None and not own.equals(arrow):
            raise DataError(f"{path} has other columns or types than {paths[0]}; give files of one layout")
        arrow = own

    def start(columns: Sequence[str]) -> Batches:
        _require_unchanged(paths, stamps)
        seen = 0
        for path in paths:
            # Pages are decoded as they are needed, so memory does not grow with the size of the row groups.
            with _readable(path), pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
                for batch in file.iter_batches(batch_rows, columns=list(columns)):
                    seen += batch.num_rows
                    yield batch, seen / rows
        _require_unchanged(paths, stamps)

    return Reader(_name(paths), arrow, start, rows=rows, sound=True)


def _open_csv(paths: Sequence[Path], schema: Schema) -> Reader:
    stamps = _stamp(paths)
    sizes = [size for size, *_ in stamps]
    unpacked = [n * _UNPACKED if _packed(path) else n for path, n in zip(paths, sizes, strict=True)]

    def start(_columns: Sequence[str]) -> Batches:
        _require_unchanged(paths, stamps)
        before = 0
        for path, size in zip(paths, sizes, strict=True):
            with _readable(path), explained(path), pa.OSFile(str(path), "rb") as raw:
                for batch in csv_batches(raw, path, schema):
                    yield batch, (before + raw.tell()) / sum(sizes)
            before += size
        _require_unchanged(paths, stamps)

    with _readable(paths[0]), explained(paths[0]):
        arrow = csv_arrow_schema(schema, csv_names(paths[0]))
    return Reader(_name(paths), arrow, start, size=sum(unpacked))


def _packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _name(paths: Sequence[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and others"
