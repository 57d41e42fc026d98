"""The files that drafts and checks of a schema read: CSV in guessed types, Parquet in its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from weft.drafting.draft import draft
from weft.drafting.untyped import guess_csv
from weft.errors import DataError


def draft_file(path: Path) -> str:
    """Draft a schema from a CSV or Parquet file."""
    table, words = read_for_draft(path)
    return draft(table, path.stem, words, declared=is_parquet(path))


def read_for_draft(path: Path) -> tuple[pa.Table, Mapping[str, pa.ChunkedArray]]:
    """Read a whole file; beside it, columns as written where words such as NA were taken for missing values."""
    if is_parquet(path):
        with _sound(path):
            return parquet_file(path).read(), {}
    found = guess_csv(path)
    return found.table, found.words


def is_parquet(path: Path) -> bool:
    """Whether a file is named as Parquet files are."""
    return path.suffix.lower() in (".parquet", ".pq")


def parquet_file(path: Path) -> Any:
    """Open a Parquet file; DataError if it is none."""
    with _sound(path):
        return pyarrow.parquet.ParquetFile(path)


@contextmanager
def _sound(path: Path) -> Iterator[None]:
    """Where reading a Parquet file fails, say so without quoting it."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (pa.ArrowException, OSError):
        raise DataError(f"{path}: the file is damaged, or not Parquet") from None
