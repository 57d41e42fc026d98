"""The tables of a report, read from files as the schema says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from weft.codec import Codec
from weft.errors import DataError, SchemaError
from weft.marginals.records import Records
from weft.reading.csv import read_csv
from weft.schema import Schema
from weft.values.markers import blanked
from weft.values.storage import decoded


@dataclass(frozen=True)
class Coded:
    """A table as it was read, and in codes."""

    codec: Codec
    records: Records
    table: pa.Table


def read_records(path: Path, schema: Schema) -> tuple[Codec, Records]:
    """Read and encode a CSV or Parquet file; messages name the file, and never quote it."""
    found = read_coded(path, schema)
    return found.codec, found.records


def read_coded(path: Path, schema: Schema) -> Coded:
    """Read and encode a CSV or Parquet file, and keep its values too; messages name the file, and never quote it."""
    try:
        table = _read(path, schema)
        codec = Codec(schema, table.schema)
        return Coded(codec, codec.encode(table), _unmarked(table, schema))
    except (DataError, SchemaError) as error:
        text = str(error)
        kind = SchemaError if isinstance(error, SchemaError) else DataError
        raise kind(text if text.startswith(str(path)) else f"{path}: {text}") from None


def _unmarked(table: pa.Table, schema: Schema) -> pa.Table:
    """Return a table in which what stands for a missing value is missing."""
    for place, field in enumerate(table.schema):
        markers = schema.column(field.name).markers if field.name in schema else ()
        if markers:
            chunks = [blanked(decoded(chunk), markers) for chunk in table.column(place).chunks]
            kind = chunks[0].type if chunks else field.type
            table = table.set_column(place, field.name, pa.chunked_array(chunks, kind))
    return table


def _read(path: Path, schema: Schema) -> pa.Table:
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            return pq.read_table(path).replace_schema_metadata(None)
        except (pa.ArrowException, OSError):
            raise DataError(f"{path}: the file is damaged, or not Parquet") from None
    return read_csv(path, schema)
