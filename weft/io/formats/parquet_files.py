"""Parquet files: the file declares the types, which synthetic rows share."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.io.formats.format import FileLayout, Sink, TypedFormat, Write, WriteOptions

MAX_BATCH_TEXT = 1 << 26  # maximum bytes of text in one column of a batch


class Parquet(TypedFormat):
    """Apache Parquet."""

    name = "parquet"
    endings = (".parquet", ".pq")
    written_endings = (".parquet",)
    media_types = ((".parquet", "application/vnd.apache.parquet"),)
    magic = ((b"PAR1", "a Parquet file; name it .parquet"),)
    is_sound = True

    def read_layout(self, path: Path) -> FileLayout:
        """Return the types of a file, without metadata of libraries, and its number of rows."""
        with pq.ParquetFile(path) as file:
            arrow = file.schema_arrow.remove_metadata()
            return FileLayout(arrow.names, arrow, file.metadata.num_rows)

    def batches(self, path: Path, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read some columns; pages are decoded on demand, so memory does not grow with the row groups."""
        # Page checksums, where present, are verified, so that damage is never read as values.
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True) as file:
            yield from file.iter_batches(_bound_rows(path, file, columns, batch_rows), columns=list(columns))

    @contextmanager
    def writer(self, sink: Sink, arrow: pa.Schema, options: WriteOptions) -> Iterator[Write]:
        """Begin a file compressed with zstd."""
        with pq.ParquetWriter(sink, arrow, compression="zstd") as writer:
            yield writer.write_table


PARQUET = Parquet()


def _bound_rows(path: Path, file: pq.ParquetFile, columns: Sequence[str], batch_rows: int) -> int:
    """Return the number of rows to read at a time: a dictionary of a kilobyte may expand to gigabytes of text."""
    texts = [field.name for field in file.schema_arrow if field.name in set(columns) and pa.types.is_string(field.type)]
    if not texts:
        return batch_rows
    longest = 1
    with pq.ParquetFile(path, read_dictionary=texts, pre_buffer=False) as probe:
        for group in range(probe.num_row_groups):
            for batch in islice(probe.iter_batches(1, row_groups=[group], columns=texts), 1):
                known = [column.dictionary for column in batch.columns if pa.types.is_dictionary(column.type)]
                lengths = [pc.max(pc.binary_length(values)).as_py() or 0 for values in known]
                longest = max(longest, *lengths, 0)
    return max(1, min(batch_rows, MAX_BATCH_TEXT // longest))
