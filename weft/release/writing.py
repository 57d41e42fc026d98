"""Synthetic rows as files: the formats that a table can be released in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from weft.errors import OutputError
from weft.files import format_of, packing
from weft.progress import Listener, silence, stage
from weft.words import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from weft.schema import Schema

Formulas = Literal["keep", "escape"]
"""What to do with text that spreadsheets take for formulas. It is kept by default: a release has the values that the
schema says it has, and whoever reads it by a program finds them; to escape them is to release other values."""

Write = Callable[["pa.Table"], Any]
"""Writes a block of rows."""

SIGNS = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet may run."""

FORMATS = (
    *(".csv", ".parquet", ".csv.gz", ".csv.zst", ".tsv", ".tsv.gz", ".tsv.zst"),
    *(".jsonl", ".jsonl.gz", ".jsonl.zst", ".arrow", ".feather", ".xlsx"),
)
"""Kinds of file that a table can be released as, by their endings."""

_SHEET_ROWS = (1 << 20) - 1  # of one sheet, below the names


def write_table(
    tables: Iterable[pa.Table],
    sink: Path | IO[bytes],
    suffix: str = ".csv",
    *,
    formulas: Formulas = "keep",
    schema: Schema | None = None,
    listener: Listener = silence,
) -> int:
    """Write blocks of rows as they come, in the format of a file with this ending; return how many rows there were.

    With `formulas="escape"`, text cells of CSV that a spreadsheet would run are written with an apostrophe before them.
    In CSV the numbers of a column are written as the `schema` says that it writes them.
    """
    rows = 0
    blocks = iter(tables)
    first = next(blocks)
    kind = format_of(f"table{suffix}") or "csv"
    with (
        _packed(sink, suffix) as target,
        _writer(kind, target, first.schema, suffix, formulas, schema) as write,
        stage(listener, "write") as work,
    ):
        for block in _ahead(first, blocks):
            write(block)
            rows += block.num_rows
            work.advance(note=counted(rows, "row"))
    return rows


def _ahead(first: pa.Table, others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Give blocks of rows in their order; while one is written, the next is made."""
    with ThreadPoolExecutor(1) as pool:
        block: pa.Table | None = first
        while block is not None:
            coming = pool.submit(next, others, None)
            yield block
            block = coming.result()


def _packed(sink: Path | IO[bytes], suffix: str) -> AbstractContextManager[Any]:
    """Return where a format is written to: a file, packed if its ending says so."""
    import pyarrow as pa

    packed = {".gz": "gzip", ".zst": "zstd"}.get(packing(f"table{suffix}"))
    return nullcontext(sink) if packed is None else pa.CompressedOutputStream(str(sink), packed)


def _writer(
    kind: str, sink: Any, arrow: pa.Schema, suffix: str, formulas: Formulas, schema: Schema | None
) -> AbstractContextManager[Write]:
    if kind == "csv":
        return _csv(sink, arrow, "\t" if suffix.lower().startswith(".tsv") else ",", formulas, schema)
    return {"parquet": _parquet, "arrow": _arrow, "jsonl": _jsonl, "excel": _excel}[kind](sink, arrow)


@contextmanager
def _csv(sink: Any, arrow: pa.Schema, separator: str, formulas: Formulas, schema: Schema | None) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.csv

    plain = pa.schema([field.with_type(_csv_type(field.type)) for field in arrow])
    names = [escaped_name(name) if formulas == "escape" else name for name in plain.names]
    forms = {name: schema.column(name).number_format for name in plain.names if schema is not None and name in schema}
    written = [pa.string() if forms.get(field.name) else field.type for field in plain]
    options = pyarrow.csv.WriteOptions(delimiter=separator)
    with pyarrow.csv.CSVWriter(sink, pa.schema(zip(names, written, strict=True)), write_options=options) as writer:

        def write(table: pa.Table) -> None:
            made = _escaped(table.cast(plain)) if formulas == "escape" else table.cast(plain)
            writer.write_table(_dressed(made, forms).rename_columns(names))

        yield write


def _dressed(table: pa.Table, forms: dict[str, Any]) -> pa.Table:
    """Return a table whose numbers are text, for columns that write them in a way of their own."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        form = forms.get(field.name)
        if form is not None and not pa.types.is_string(field.type) and not pa.types.is_large_string(field.type):
            chunks = [form.dressed(_digits(chunk)).cast(pa.string()) for chunk in table.column(place).chunks]
            table = table.set_column(place, field.name, pa.chunked_array(chunks, pa.string()))
    return table


def _digits(numbers: pa.Array) -> pa.Array:
    """Return numbers as plain digits, where no power of ten is needed."""
    import pyarrow as pa

    return numbers.cast(pa.string())


def escaped_name(name: str) -> str:
    """Return a column's name as the first line of an escaped CSV file has it."""
    return f"'{name}" if name.startswith(SIGNS) else name


def _escaped(table: pa.Table) -> pa.Table:
    """Put an apostrophe before text that begins as a formula does; numbers and dates are what they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            cells = table.column(place)
            marked = pc.binary_join_element_wise(pa.scalar("'", field.type), cells, pa.scalar("", field.type))
            formula = pc.match_substring_regex(cells, f"^[{re.escape(''.join(SIGNS))}]")
            table = table.set_column(place, field, pc.if_else(formula, marked, cells))
    return table


def _csv_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type whose values are written in place of these, which Arrow's CSV writer does not know."""
    import pyarrow as pa

    if pa.types.is_dictionary(arrow_type):
        return _csv_type(arrow_type.value_type)
    return pa.string() if pa.types.is_string_view(arrow_type) else arrow_type


@contextmanager
def _parquet(sink: Any, arrow: pa.Schema) -> Iterator[Write]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetWriter(sink, arrow, compression="zstd") as writer:
        yield writer.write_table


@contextmanager
def _arrow(sink: Any, arrow: pa.Schema) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.ipc

    options = pa.ipc.IpcWriteOptions(compression="zstd", unify_dictionaries=True)
    with pa.OSFile(str(sink), "wb") as file, pa.ipc.new_file(file, arrow, options=options) as writer:
        yield lambda table: writer.write_table(table.unify_dictionaries())


@contextmanager
def _jsonl(sink: Any, _arrow: pa.Schema) -> Iterator[Write]:
    dumps = partial(json.dumps, ensure_ascii=False, default=_plain, allow_nan=False)
    with nullcontext(sink) if hasattr(sink, "write") else Path(sink).open("wb") as file:

        def write(table: pa.Table) -> None:
            for batch in table.to_batches(max_chunksize=1 << 16):
                file.write("".join(f"{line}\n" for line in map(dumps, _nulls(batch).to_pylist())).encode())

        yield write


def _nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows in which not-a-number, which JSON cannot say, is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(batch.schema):
        if pa.types.is_floating(field.type):
            column = batch.column(place)
            batch = batch.set_column(place, field.name, pc.if_else(pc.is_finite(column), column, None))
    return batch


def _plain(value: Any) -> Any:
    """Return what JSON has no kind for as text, and decimals as numbers."""
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)


@contextmanager
def _excel(sink: Any, arrow: pa.Schema) -> Iterator[Write]:
    try:
        import xlsxwriter
    except ImportError:
        raise OutputError("an Excel workbook needs the xlsxwriter package: pip install 'weft[excel]'") from None
    # Text is text, whatever it looks like: no formula of it runs.
    texts = dict.fromkeys(("strings_to_formulas", "strings_to_urls", "strings_to_numbers"), False)
    book = xlsxwriter.Workbook(
        str(sink), {"constant_memory": True, "default_date_format": "yyyy-mm-dd hh:mm:ss"} | texts
    )
    book.set_properties({"created": datetime(2000, 1, 1)})  # the same rows are the same file
    day = book.add_format({"num_format": "yyyy-mm-dd"})
    sheet = book.add_worksheet()
    sheet.add_write_handler(date, lambda sheet, row, column, value, *_: sheet.write_datetime(row, column, value, day))
    sheet.write_row(0, 0, arrow.names)
    at = 1

    def write(table: pa.Table) -> None:
        nonlocal at
        if at + table.num_rows > _SHEET_ROWS + 1:
            raise OutputError(f"a sheet of Excel holds at most {_SHEET_ROWS:,} rows; write a .csv or .parquet file")
        for batch in table.to_batches(max_chunksize=1 << 14):
            for row in zip(*(column.to_pylist() for column in _cells(batch).columns), strict=True):
                sheet.write_row(at, 0, row)
                at += 1

    yield write
    book.close()


def _cells(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows in types that a cell can hold: moments without a zone, and no not-a-number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    batch = _nulls(batch)
    for place, field in enumerate(batch.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            batch = batch.set_column(place, field.name, pc.local_timestamp(batch.column(place)))
    return batch
