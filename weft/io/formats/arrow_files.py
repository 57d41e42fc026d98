"""Arrow files, including Feather version 2: the file declares the types."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from weft.errors import DataError
from weft.io.formats.format import FileLayout, Sink, TypedFormat, Write, WriteOptions


class Arrow(TypedFormat):
    """Files in Arrow's interprocess format."""

    name = "arrow"
    endings = (".arrow", ".feather", ".ipc")
    written_endings = (".arrow", ".feather")
    magic = (
        (b"ARROW1", "an Arrow file; name it .arrow or .feather"),
        (b"FEA1", "a Feather version 1 file; write it again as version 2"),
    )

    def read_layout(self, path: Path) -> FileLayout:
        """Return the types of a file, without metadata of libraries."""
        with _open_arrow_file(path) as file:
            arrow = file.schema.remove_metadata()
            return FileLayout(arrow.names, arrow)

    def batches(self, path: Path, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read some columns; each batch is validated, so that damage is never read as values."""
        with _open_arrow_file(path) as file:
            for place in range(file.num_record_batches):
                batch = file.get_batch(place).select(list(columns))
                batch.validate(full=True)
                for at in range(0, batch.num_rows, batch_rows):
                    yield batch.slice(at, batch_rows)

    @contextmanager
    def writer(self, sink: Sink, arrow: pa.Schema, options: WriteOptions) -> Iterator[Write]:
        """Begin a file compressed with zstd."""
        settings = pa.ipc.IpcWriteOptions(compression="zstd", unify_dictionaries=True)
        with pa.OSFile(str(sink), "wb") as file, pa.ipc.new_file(file, arrow, options=settings) as writer:
            yield lambda table: writer.write_table(table.unify_dictionaries())


ARROW = Arrow()


def _open_arrow_file(path: Path) -> pa.ipc.RecordBatchFileReader:
    with path.open("rb") as file:
        if file.read(4) == b"FEA1":
            raise DataError(f"{path} is a Feather version 1 file; write it again as version 2")
    return pa.ipc.open_file(pa.OSFile(str(path), "rb"))
