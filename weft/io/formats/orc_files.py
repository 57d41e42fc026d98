"""ORC files: the file declares the types, which synthetic rows share.

The encodings, dictionaries and statistics of stripes have no effect on what is read. Arrow holds ORC time stamps in
nanoseconds, so time stamps before 1677 or after 2262 cannot be read.

ORC has fewer types than Arrow. Missing types are stored in a type that holds the same values: unsigned integers in a
wider type, time stamps of all units as nanoseconds in UTC, categories as their values, times of day and durations as
text (`stored_type`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import DataError, OutputError
from weft.io.formats.format import FileLayout, Sink, TypedFormat, Write, WriteOptions
from weft.schema.column_names import require_distinct
from weft.values.storage import missing_of
from weft.values.text_columns import TextSpans

_MAGIC = b"ORC"
_HEAD = 64  # first bytes, which include non-text bytes in every ORC file
_FIRST_STEP, _MIN_STEP, _MAX_STEP = 32, 4, 1024  # rows decoded at a time: before texts are measured, and after
_AHEAD = 32  # steps that Arrow decodes in advance
_DECODED = 1 << 27  # maximum bytes of these steps together
_MAX_BATCH = 1 << 26  # maximum bytes of a joined batch
_MAX_DIGITS = 38  # of a decimal


class Orc(TypedFormat):
    """Apache ORC."""

    name = "orc"
    endings = (".orc",)
    written_endings = (".orc",)
    magic = ((_MAGIC, "an ORC file; name it .orc"),)
    keeps_types = False

    def recognise(self, head: bytes) -> str | None:
        """Return the description of an ORC file; None for text that begins with the same letters."""
        octets = any(byte < 32 and byte not in b"\t\n\r" for byte in head[len(_MAGIC) : _HEAD])
        return super().recognise(head) if octets else None

    def read_layout(self, path: Path) -> FileLayout:
        """Return the types of a file, without metadata of libraries, and its number of rows."""
        file = _import_orc().ORCFile(str(path))
        arrow = file.schema.remove_metadata()
        return FileLayout(arrow.names, arrow, file.nrows)

    def batches(self, path: Path, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read some columns; types, text and the number of rows are validated, because ORC has no checksums."""
        require_distinct(columns)
        rows = 0
        for batch in _join_small_batches(_scan_columns(path, columns, batch_rows), batch_rows):
            batch.validate(full=True)
            rows += batch.num_rows
            yield batch
        if rows != _import_orc().ORCFile(str(path)).nrows:
            raise DataError(f"{path} is damaged: it does not have its declared number of rows. Write it again")

    def stored_type(self, arrow_type: pa.DataType) -> pa.DataType:
        """Return the ORC type that holds the values of an Arrow type; OutputError if there is none."""
        kept, kinds = arrow_type, pa.types
        if kinds.is_dictionary(arrow_type):
            return self.stored_type(arrow_type.value_type)
        if kinds.is_unsigned_integer(arrow_type):
            kept = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20)}[arrow_type.bit_width]
        elif kinds.is_float16(arrow_type):
            kept = pa.float32()
        elif kinds.is_timestamp(arrow_type):
            kept = pa.timestamp("ns", None if arrow_type.tz is None else "UTC")
        elif kinds.is_date(arrow_type):
            kept = pa.date32()
        elif kinds.is_decimal(arrow_type) and arrow_type.precision <= _MAX_DIGITS:
            kept = pa.decimal128(arrow_type.precision, arrow_type.scale)
        elif any(test(arrow_type) for test in _AS_BINARY):
            kept = pa.binary()
        elif any(test(arrow_type) for test in _AS_TEXT):
            kept = pa.string()
        elif not (kinds.is_boolean(kept) or kinds.is_integer(kept) or kinds.is_floating(kept)):
            raise OutputError(f"an ORC file cannot hold {arrow_type}; write a .parquet or .arrow file")
        return kept

    @contextmanager
    def writer(self, sink: Sink, arrow: pa.Schema, options: WriteOptions) -> Iterator[Write]:
        """Begin a file compressed with zstd."""
        # The writer stores time stamps of all units itself: nanoseconds may overflow.
        stamps = pa.types.is_timestamp
        stored = pa.schema([(f.name, f.type if stamps(f.type) else self.stored_type(f.type)) for f in arrow])
        with _import_orc().ORCWriter(sink if hasattr(sink, "write") else str(sink), compression="zstd") as writer:
            writer.write(stored.empty_table())  # so that a table without rows has its columns
            yield lambda table: writer.write(_with_written_spans(table).cast(stored))


ORC = Orc()

_AS_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_AS_TEXT = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_time, pa.types.is_duration, pa.types.is_decimal, pa.types.is_null),
)
_PARTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # units per second


def _import_orc() -> Any:
    try:
        import pyarrow.orc
    except ImportError:
        raise DataError("this build of pyarrow lacks ORC: install pyarrow from PyPI, or use a .parquet file") from None
    return pyarrow.orc


def _with_written_spans(table: pa.Table) -> pa.Table:
    """Return a table whose durations are text: 1:30:00, or 1500ms for fractions of a second."""
    for place, field in enumerate(table.schema):
        if pa.types.is_duration(field.type):
            chunks = [_write_spans(chunk) for chunk in table.column(place).chunks]
            table = table.set_column(place, field.name, pa.chunked_array(chunks, pa.string()))
    return table


def _write_spans(spans: pa.Array) -> pa.Array:
    counts, parts = spans.cast(pa.int64()), _PARTS[spans.type.unit]
    held = counts.fill_null(0).to_numpy(zero_copy_only=False)
    clocks = TextSpans(pa.string()).write((held // parts).view(np.uint64), missing_of(counts))
    exact = pc.binary_join_element_wise(counts.cast(pa.string()), spans.type.unit, "")
    return pc.if_else(pa.array(held % parts == 0), clocks, exact)


def _scan_columns(path: Path, columns: Sequence[str], most_rows: int) -> Iterator[pa.RecordBatch]:
    """Read some columns in small steps, so that memory does not grow with the stripes.

    A dictionary stores a repeated text only once, so a file of a kilobyte may expand to gigabytes. The first pass over
    texts takes short steps and measures them; later passes take longer steps where these fit into memory. The step
    length affects memory and time, never the rows.
    """
    import pyarrow.dataset

    table, names = pyarrow.dataset.dataset(str(path), format="orc"), list(columns)
    texts = [name for name in names if not pa.types.is_primitive(table.schema.field(name).type)]
    status = path.stat()
    known, found = _get_text_widths(str(path), status.st_size, status.st_mtime_ns), dict.fromkeys(texts, 0)
    step = _choose_step_rows([known.get(name) for name in texts])
    try:
        for batch in table.to_batches(
            columns=names, batch_size=min(step, most_rows), use_threads=False, batch_readahead=1
        ):
            for name in texts:
                found[name] = max(found[name], batch.column(name).nbytes // max(batch.num_rows, 1))
            yield batch
        known.update(found)
        return
    except pa.ArrowInvalid as fault:
        outside = "out of range" in str(fault)  # Arrow's message quotes the value
        if not outside:
            raise
    raise DataError(
        f"{path}: a time stamp is before 1677 or after 2262, which cannot be read from ORC. Store it as text or as a "
        "date, or write the table to a .parquet file"
    )


@lru_cache(maxsize=64)
def _get_text_widths(_path: str, _size: int, _changed: int) -> dict[str, int]:
    """Return the cache of text bytes per row of a file, by column, as measured in earlier passes."""
    return {}


def _choose_step_rows(widths: Sequence[int | None]) -> int:
    """Return the number of rows to decode at a time, given text bytes per row (None: not measured)."""
    if None in widths:
        return _FIRST_STEP
    return max(_MIN_STEP, min(_MAX_STEP, _DECODED // (_AHEAD * max(1, sum(each or 0 for each in widths)))))


def _join_small_batches(batches: Iterator[pa.RecordBatch], most_rows: int) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    rows = octets = 0
    for batch in batches:
        size = batch.nbytes
        if held and (rows + batch.num_rows > most_rows or octets + size > _MAX_BATCH):
            yield pa.concat_batches(held)
            held, rows, octets = [], 0, 0
        held.append(batch)
        rows, octets = rows + batch.num_rows, octets + size
    if held:
        yield pa.concat_batches(held)
