"""The tables of a report, read from files as the schema says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from weft.codec import Codec
from weft.codec.conversion import convert, understood
from weft.errors import DataError, SchemaError
from weft.marginals.records import Records
from weft.reading.dialect import PLAIN, Dialect
from weft.reading.files import open_files
from weft.schema import Schema
from weft.values.storage import decoded

_BATCH = 1 << 17


@dataclass(frozen=True)
class Coded:
    """A table as it was read, and in codes."""

    codec: Codec
    records: Records
    table: pa.Table


def read_records(path: Path, schema: Schema) -> tuple[Codec, Records]:
    """Read and encode a file; messages name the file, and never quote it."""
    found = read_coded(path, schema)
    return found.codec, found.records


def read_coded(path: Path, schema: Schema, dialect: Dialect = PLAIN, codec: Codec | None = None) -> Coded:
    """Read and encode a file, and keep its values too; messages name the file, and never quote it.

    A `codec` is that of the table before it was written: a text file has lost its types.
    """
    try:
        schema = dialect.marking(schema)
        table = _read(path, schema, dialect)
        table = table if codec is None else _in_types(table, codec)
        codec = Codec(schema, table.schema) if codec is None else codec
        return Coded(codec, codec.encode(table), _understood(table, schema))
    except (DataError, SchemaError) as error:
        text = str(error)
        kind = SchemaError if isinstance(error, SchemaError) else DataError
        raise kind(text if text.startswith(str(path)) else f"{path}: {text}") from None


def _in_types(table: pa.Table, codec: Codec) -> pa.Table:
    """Return a table in the types that a codec has given its values."""
    for place, field in enumerate(table.schema):
        if field.name in codec.arrow_schema.names:
            column, wanted = codec.schema.column(field.name), codec.arrow_schema.field(field.name).type
            wanted = wanted.value_type if pa.types.is_dictionary(wanted) else wanted
            if column.modelled and field.type != wanted and not pa.types.is_dictionary(field.type):
                chunks = [convert(chunk, wanted, column)[0] for chunk in table.column(place).chunks]
                table = table.set_column(place, field.name, pa.chunked_array(chunks, wanted))
    return table


def _understood(table: pa.Table, schema: Schema) -> pa.Table:
    """Return a table in which markers are missing values, and numbers of a text are in plain digits."""
    for place, field in enumerate(table.schema):
        column = schema.column(field.name) if field.name in schema else None
        if column is not None and (column.markers or column.number_format):
            chunks = [understood(decoded(chunk), column) for chunk in table.column(place).chunks]
            kind = chunks[0].type if chunks else field.type
            table = table.set_column(place, field.name, pa.chunked_array(chunks, kind))
    return table


def _read(path: Path, schema: Schema, dialect: Dialect) -> pa.Table:
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    reader = open_files(path, schema, _BATCH, dialect)
    return pa.Table.from_batches((batch for batch, _ in reader.start(reader.schema.names)), reader.schema)
