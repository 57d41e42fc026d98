"""Parquet and Arrow files: their types are declared by the file, and are those of the rows that are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from weft.errors import DataError


def parquet_schema(path: Path) -> tuple[pa.Schema, int]:
    """Return the types of a Parquet file, without what libraries note beside them, and the number of its rows."""
    with pq.ParquetFile(path) as file:
        return file.schema_arrow.remove_metadata(), file.metadata.num_rows


def parquet_batches(path: Path, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Read some columns: pages are decoded as they are needed, so memory does not grow with the row groups."""
    with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        yield from file.iter_batches(batch_rows, columns=list(columns))


def arrow_schema(path: Path) -> pa.Schema:
    """Return the types of an Arrow or Feather file, without what libraries note beside them."""
    with _opened(path) as file:
        return file.schema.remove_metadata()


def arrow_batches(path: Path, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Read some columns; what a batch of the file says of itself is checked, so that no damage is read as values."""
    with _opened(path) as file:
        for place in range(file.num_record_batches):
            batch = file.get_batch(place).select(list(columns))
            batch.validate(full=True)
            for at in range(0, batch.num_rows, batch_rows):
                yield batch.slice(at, batch_rows)


def _opened(path: Path) -> pa.ipc.RecordBatchFileReader:
    with path.open("rb") as file:
        if file.read(4) == b"FEA1":
            raise DataError(f"{path} is a Feather file of version 1; write it again as version 2")
    return pa.ipc.open_file(pa.OSFile(str(path), "rb"))
