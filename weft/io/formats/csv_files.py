"""CSV files: the schema declares the types, and no message quotes a value of the file."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from weft.errors import DataError
from weft.io.byte_stream import STDIN, Location, Stream, open_text_stream
from weft.io.csv_scan import Checked, lists_breaks
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.io.file_faults import (
    NO_HEADER,
    NO_NAMES,
    explain_csv_errors,
    header_fault,
    looks_like_a_row,
    readable_file,
    stream_fault,
)
from weft.io.formats.format import FileLayout, Opening, Sink, TextFormat, Write, WriteOptions
from weft.io.reader import Reader
from weft.io.text_to_types import check_columns, convert_batch, csv_arrow_schema, make_column_names, read_type
from weft.schema import Schema
from weft.schema.kinds import Integer, Real

SIGNS = ("=", "+", "-", "@", "\t", "\r")  # first characters of cells that a spreadsheet may run as formulas

_POINTED_MOST = 10**15  # integers from here on are written like floats, with an exponent


class Csv(TextFormat):
    """Text with separated fields; the first line names the columns, unless the dialect declares otherwise."""

    name = "csv"
    endings = (".csv", ".tsv", ".tab", ".txt", ".dat", ".data")
    vague_endings = (".txt", ".dat", ".data")
    written_endings = (".csv", ".csv.gz", ".csv.zst", ".tsv", ".tsv.gz", ".tsv.zst")
    media_types = ((".csv", "text/csv"), (".tsv", "text/tab-separated-values"))
    dialect_options = ("separator", "quote", "encoding", "decimal", "header")
    names_in_first_line = True
    escapes_formulas = True

    def open(self, paths: Sequence[Path], opening: Opening) -> Reader:
        """Open files; the first one names the columns."""
        schema, dialect = opening.schema, opening.dialect
        with readable_file(paths[0]), self.explaining(paths[0], dialect), open_text_stream(paths[0], dialect) as stream:
            names = names_of(stream, dialect, schema)
            if not any(names):
                raise stream_fault(stream, dialect) or DataError(f"{stream.name}: {NO_NAMES}")
            check_columns(schema, names, stream.name)
            arrow = csv_arrow_schema(schema, names)
        return self.open_as(paths, opening, arrow)

    def batches(self, stream: Stream, schema: Schema, dialect: Dialect) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file batch by batch, in the schema's types."""
        return csv_batches(stream, schema, dialect)

    def explaining(self, path: Path, dialect: Dialect) -> AbstractContextManager[None]:
        """Explain a failure to read that is caused by the first line."""
        return explain_csv_errors(path, dialect)

    def read_whole(self, path: Location, dialect: Dialect = DEFAULT_DIALECT) -> pa.Table:
        """Read a whole file, or standard input, as text; DataError if its first line does not name the columns."""
        if str(path) != STDIN:
            if fault := header_fault(path, dialect):
                raise fault
            if dialect.header is None and looks_like_a_row(csv_names(path, dialect)):
                raise DataError(f"{path}: {NO_HEADER}")
        with readable_file(path), open_text_stream(path, dialect) as stream:
            names = names_of(stream, dialect)
            places = [str(place) for place in range(len(names))]  # names may repeat
            words = dict.fromkeys(places, pa.string())
            tables = [pa.schema(words.items()).empty_table()]
            for records in records_of(stream, dialect, [True] * len(names)):
                table = _parse_records(records, places, dialect, words, stream.kind)
                if table is None:
                    raise DataError(f"{stream.name}: the file cannot be read as CSV")
                tables.append(table)
            return pa.concat_tables(tables).rename_columns(names)

    def read_columns(self, path: Path, schema: Schema, dialect: Dialect = DEFAULT_DIALECT) -> pa.Schema:
        """Return the columns that the first line names, in the schema's types."""
        if not dialect.named:
            return csv_arrow_schema(schema)
        with readable_file(path), self.explaining(path, dialect):
            names = csv_names(path, dialect)
            check_columns(schema, names, str(path))
            return csv_arrow_schema(schema, names)

    def read_layout(self, path: Path) -> FileLayout:
        """Return the names in the first line."""
        return FileLayout(csv_names(path))

    @contextmanager
    def writer(self, sink: Sink, arrow: pa.Schema, options: WriteOptions) -> Iterator[Write]:
        """Begin a file separated by commas, or by tabs if its ending is .tsv."""
        schema, escapes = options.schema, options.formulas == "escape"
        plain = pa.schema([field.with_type(_csv_type(field.type)) for field in arrow])
        pointed = [field.name for field in plain if _is_pointed(field, schema)]
        names = [escape_name(name) if escapes else name for name in plain.names]
        forms = {n: schema.column(n).number_format for n in plain.names if schema is not None and n in schema}
        kinds = {name: pa.decimal128(38, 1) for name in pointed} | {name: pa.string() for name in forms if forms[name]}
        written = pa.schema(
            [(name, kinds.get(field.name, field.type)) for name, field in zip(names, plain, strict=True)]
        )
        settings = pyarrow.csv.WriteOptions(delimiter="\t" if options.ending.lower().startswith(".tsv") else ",")
        with pyarrow.csv.CSVWriter(sink, written, write_options=settings) as writer:

            def write(table: pa.Table) -> None:
                made = _escape_formulas(table.cast(plain)) if escapes else table.cast(plain)
                writer.write_table(_with_point(_format_number_columns(made, forms), pointed).rename_columns(names))

            yield write


CSV = Csv()


def read_csv(path: str | PathLike[str], schema: Schema, dialect: Dialect = DEFAULT_DIALECT) -> pa.Table:
    """Read a whole CSV file."""
    with readable_file(path), open_text_stream(path, dialect) as stream:
        batches = list(csv_batches(stream, schema, dialect))
        return pa.Table.from_batches(batches, csv_arrow_schema(schema, names_of(stream, dialect, schema)))


def csv_batches(stream: Stream, schema: Schema, dialect: Dialect = DEFAULT_DIALECT) -> Iterator[pa.RecordBatch]:
    """Read a CSV file batch by batch, in its declared dialect."""
    names = names_of(stream, dialect, schema)
    if not any(names):
        raise DataError(f"{stream.name}: the file is empty; its first line must name the columns")
    check_columns(schema, names, stream.name)
    breaks = [name in schema and lists_breaks(schema.column(name)) for name in names]
    kept = [name for name in names if name in schema]
    types = {name: read_type(schema.column(name), dialect) for name in kept}
    # Via text, all types get the same numbers, except decimals and short floats: these are always read by their type.
    rounds = (pa.types.is_decimal, pa.types.is_float32, pa.types.is_float16)
    words = {name: kind if any(test(kind) for test in rounds) else pa.string() for name, kind in types.items()}
    for records in records_of(stream, dialect, breaks):
        # Reading the schema's types directly is fastest. If that fails, all columns are read as text and converted
        # value by value: this accepts all that the types accept, and more notations, or explains what is wrong.
        table = _parse_records(records, names, dialect, types, stream.kind) or _parse_records(
            records, names, dialect, words, stream.kind
        )
        if table is None:
            raise DataError(
                f"{stream.name}: the file cannot be read as CSV, or a number does not fit the decimal or short float "
                "type of its column. Leave the type out of the schema, or correct the file"
            )
        for batch in table.to_batches():
            yield convert_batch(batch, schema, stream.name, dialect.number_format)


def records_of(stream: Stream, dialect: Dialect, breaks: Sequence[bool]) -> Iterator[bytes]:
    """Yield blocks of whole records, each validated against the dialect."""
    separator = dialect.separator_in(stream.kind)
    checked = Checked(stream, stream.name, breaks, separator=separator, quote=dialect.quote, header=dialect.named)
    return checked.records()


def _parse_records(
    records: bytes, names: Sequence[str], dialect: Dialect, types: Mapping[str, pa.DataType], kind: str
) -> pa.Table | None:
    """Parse whole records from memory as one Arrow block, so that block boundaries have no effect.

    Return None if a value does not have its type. Arrow's own message quotes the value, so it is not chained.
    """
    schema = pa.schema(types.items())
    convert: dict[str, Any] = {
        "column_types": schema,
        "null_values": [""],  # except in text columns, which `convert_batch` handles
        "strings_can_be_null": False,
        "include_columns": schema.names,
        "check_utf8": False,  # columns that never refuse accept invalid UTF-8; `convert_batch` validates the others
    }
    read = pyarrow.csv.ReadOptions(column_names=list(names), block_size=len(records) + 1, use_threads=False)
    parse = pyarrow.csv.ParseOptions(
        delimiter=dialect.separator_in(kind), quote_char=dialect.quote or False, newlines_in_values=bool(dialect.quote)
    )
    try:
        return pyarrow.csv.read_csv(
            pa.BufferReader(records),
            read_options=read,
            parse_options=parse,
            convert_options=pyarrow.csv.ConvertOptions(**convert),
        )
    except pa.ArrowException as error:
        return schema.empty_table() if "Empty CSV" in str(error) else None


def csv_names(path: str | PathLike[str], dialect: Dialect = DEFAULT_DIALECT) -> list[str]:
    """Return the column names of a CSV file."""
    with readable_file(path), open_text_stream(path, dialect) as stream:
        return names_of(stream, dialect)


def names_of(stream: Stream, dialect: Dialect, schema: Schema | None = None) -> list[str]:
    """Return the columns of a CSV file: from its first line, or else the schema's in their order.

    Without either, they are numbered: column_1, column_2, ... A schema may use these names too, and leave some out.
    """
    quoting: Any = csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE
    text = io.StringIO(stream.head().decode("utf-8", "replace"), newline="")
    rows = csv.reader(
        text, delimiter=dialect.separator_in(stream.kind), quotechar=dialect.quote or None, quoting=quoting
    )
    try:
        first = next(rows, [])
    except csv.Error:
        raise DataError(f"{stream.name}: cannot read the file: its first line is damaged") from None
    if dialect.named:
        return first
    return make_column_names(len(first), schema)


def _is_pointed(field: pa.Field, schema: Schema | None) -> bool:
    """Whether floats are written with one decimal place: integers stored as floats, and columns with `decimals` 1."""
    column = schema.column(field.name) if schema is not None and field.name in schema else None
    if not isinstance(column, Integer | Real) or column.number_format is not None or column.after is not None:
        return False
    few = column.largest < _POINTED_MOST if isinstance(column, Integer) else column.decimals == 1
    return bool(few and pa.types.is_floating(field.type) and all(round(each, 1) == each for each in column.special))


def _with_point(table: pa.Table, names: list[str]) -> pa.Table:
    for name in names:
        place, values = table.schema.get_field_index(name), table.column(name)
        exact = pc.round(pc.if_else(pc.is_finite(values), values, None).cast(pa.float64()), ndigits=1)
        table = table.set_column(place, name, exact.cast(pa.decimal128(38, 1)))
    return table


def _format_number_columns(table: pa.Table, forms: dict[str, Any]) -> pa.Table:
    for place, field in enumerate(table.schema):
        form = forms.get(field.name)
        if form is not None and not pa.types.is_string(field.type) and not pa.types.is_large_string(field.type):
            chunks = [form.dressed(chunk.cast(pa.string())).cast(pa.string()) for chunk in table.column(place).chunks]
            table = table.set_column(place, field.name, pa.chunked_array(chunks, pa.string()))
    return table


def escape_name(name: str) -> str:
    """Return a column name as written in the first line of an escaped CSV file."""
    return f"'{name}" if name.startswith(SIGNS) else name


def _escape_formulas(table: pa.Table) -> pa.Table:
    """Put an apostrophe before text that begins like a formula; numbers and dates stay unchanged."""
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            cells = table.column(place)
            marked = pc.binary_join_element_wise(pa.scalar("'", field.type), cells, pa.scalar("", field.type))
            formula = pc.match_substring_regex(cells, f"^[{re.escape(''.join(SIGNS))}]")
            table = table.set_column(place, field, pc.if_else(formula, marked, cells))
    return table


def _csv_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type in which values are written; Arrow's CSV writer does not support dictionaries or string views."""
    if pa.types.is_dictionary(arrow_type):
        return _csv_type(arrow_type.value_type)
    return pa.string() if pa.types.is_string_view(arrow_type) else arrow_type
