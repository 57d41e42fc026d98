"""CSV read as the schema says: types come from the schema, and no message quotes a value of the file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import pyarrow as pa
import pyarrow.csv

from weft.codec.codec import check_names
from weft.errors import DataError, SchemaError
from weft.reading.columns import finished, read_type
from weft.reading.dialect import PLAIN, Dialect
from weft.reading.faults import readable_file
from weft.reading.scan import Checked, lists_breaks
from weft.reading.stream import Stream, opened
from weft.schema import Schema
from weft.schema.kinds import suggestion


def csv_arrow_schema(schema: Schema, names: Sequence[str] | None = None) -> pa.Schema:
    """Return the Arrow schema that the codec sees for a CSV file with these columns (None: the schema's order)."""
    order = [column.name for column in schema.columns if column.in_table] if names is None else list(names)
    check_names(schema, order)
    return pa.schema([pa.field(name, schema.column(name).arrow_type()) for name in order if name in schema])


def read_csv(path: str | PathLike[str], schema: Schema, dialect: Dialect = PLAIN) -> pa.Table:
    """Read a whole CSV file."""
    with readable_file(path), opened(path, dialect) as stream:
        batches = list(csv_batches(stream, schema, dialect))
        return pa.Table.from_batches(batches, csv_arrow_schema(schema, names_of(stream, dialect, schema)))


def csv_batches(stream: Stream, schema: Schema, dialect: Dialect = PLAIN) -> Iterator[pa.RecordBatch]:
    """Read a CSV file batch by batch, in its declared dialect."""
    names = names_of(stream, dialect, schema)
    if not any(names):
        raise DataError(f"{stream.name}: the file is empty; its first line must name the columns")
    check_columns(schema, names, stream.name)
    breaks = [name in schema and lists_breaks(schema.column(name)) for name in names]
    kept = [name for name in names if name in schema]
    types = {name: read_type(schema.column(name), dialect) for name in kept}
    # Text is read to the same numbers as the types are, but for decimals and short floats: those go no other way.
    words = {name: kind if _rounded(kind) else pa.string() for name, kind in types.items()}
    for records in records_of(stream, dialect, breaks):
        # Types as the schema has them are read fastest. Where one cannot be read, all are read as text, column by
        # column and value by value: that takes whatever the types do, written in more ways, or says what is wrong.
        table = _parsed(records, names, dialect, types, stream.kind) or _parsed(
            records, names, dialect, words, stream.kind
        )
        if table is None:
            raise DataError(
                f"{stream.name}: the file cannot be read as CSV, or a number of a column with a decimal or short type "
                "does not fit it. Leave the type out of the schema, or mend the file"
            )
        for batch in table.to_batches():
            yield finished(batch, schema, stream.name, dialect.number_format)


def check_columns(schema: Schema, names: Sequence[str], file: str) -> None:
    """Refuse a file whose columns are not the schema's. Names of which none is known may be values, and stay unsaid."""
    known = [column.name for column in schema.columns if column.in_table]
    if not any(name in schema or suggestion(name, known) for name in names):
        raise DataError(
            f"{file}: its first line names none of the schema's columns. If it names none at all, pass --no-header "
            "(Dialect(header=False)); else take the schema of this table"
        )
    try:
        check_names(schema, list(names))
    except SchemaError as fault:
        raise SchemaError(f"{file}: {fault}") from None


def _rounded(kind: pa.DataType) -> bool:
    """Whether numbers of a type could be rounded otherwise on their way through text."""
    return bool(pa.types.is_decimal(kind) or pa.types.is_float32(kind) or pa.types.is_float16(kind))


def text_table(path: str | PathLike[str], dialect: Dialect) -> pa.Table:
    """Read a whole CSV file as it is written, all columns as text; for drafts, which guess what they hold."""
    with readable_file(path), opened(path, dialect) as stream:
        names = names_of(stream, dialect)
        places = [str(place) for place in range(len(names))]  # names may repeat
        words = dict.fromkeys(places, pa.string())
        tables = [pa.schema(words.items()).empty_table()]
        for records in records_of(stream, dialect, [True] * len(names)):
            table = _parsed(records, places, dialect, words, stream.kind)
            if table is None:
                raise DataError(f"{stream.name}: the file cannot be read as CSV")
            tables.append(table)
        return pa.concat_tables(tables).rename_columns(names)


def records_of(stream: Stream, dialect: Dialect, breaks: Sequence[bool]) -> Iterator[bytes]:
    """Yield the records of a file, many at a time and none of them cut, once they are known to keep to the dialect."""
    separator = dialect.separator_in(stream.kind)
    checked = Checked(stream, stream.name, breaks, separator=separator, quote=dialect.quote, header=dialect.named)
    return checked.records()


def _parsed(
    records: bytes, names: Sequence[str], dialect: Dialect, types: Mapping[str, pa.DataType], kind: str
) -> pa.Table | None:
    """Read whole records, in memory: Arrow calls nothing of ours, and where a block ends decides nothing.

    None where a value is not of its type. Arrow's own text quotes it, and is not chained to anything.
    """
    schema = pa.schema(types.items())
    convert: dict[str, Any] = {
        "column_types": schema,
        "null_values": [""],  # but in text columns, where `finished` decides
        "strings_can_be_null": False,
        "include_columns": schema.names,
        "check_utf8": False,  # a policy that never fails takes unsound text too; `finished` refuses for the others
    }
    read = pyarrow.csv.ReadOptions(column_names=list(names), block_size=len(records) + 1, use_threads=False)
    parse = pyarrow.csv.ParseOptions(
        delimiter=dialect.separator_in(kind),
        quote_char=dialect.quote or False,
        newlines_in_values=bool(dialect.quote),
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


def csv_names(path: str | PathLike[str], dialect: Dialect = PLAIN) -> list[str]:
    """Return the column names of a CSV file."""
    with readable_file(path), opened(path, dialect) as stream:
        return names_of(stream, dialect)


def names_of(stream: Stream, dialect: Dialect, schema: Schema | None = None) -> list[str]:
    """Return the columns of a CSV file: as its first line names them, or else the schema's in their order.

    Without either, they are numbered: column_1, column_2, ... A schema may name them so too, and leave some out.
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
    numbered = [f"column_{place}" for place in range(1, len(first) + 1)]
    named = [] if schema is None else [column.name for column in schema.columns if column.in_table]
    return numbered if set(named) <= set(numbered) else named
