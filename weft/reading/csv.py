"""CSV read as the schema says: types come from the schema, and no message quotes a value of the file."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from weft.codec.codec import check_names
from weft.codec.conversion import adopt, remedy
from weft.errors import DataError, SchemaError
from weft.reading.dialect import Checked, lists_breaks, require_listed_breaks, unpacked
from weft.schema import Column, Schema
from weft.values.markers import blanked
from weft.values.text import is_text

_COLUMN = re.compile(r"In CSV column #(\d+)")


def csv_arrow_schema(schema: Schema, names: Sequence[str] | None = None) -> pa.Schema:
    """Return the Arrow schema that the codec sees for a CSV file with these columns (None: the schema's order)."""
    order = [column.name for column in schema.columns if column.in_table] if names is None else list(names)
    check_names(schema, order)
    return pa.schema([pa.field(name, schema.column(name).arrow_type()) for name in order if name in schema])


def _options(schema: Schema, broken: bool) -> dict[str, Any]:
    """Return the options with which pyarrow.csv must read; `_finished` completes each batch.

    The empty text is missing everywhere but in text columns, where `_finished` decides. `broken` says whether a name or
    a value may hold a line break.
    """
    types = {column.name: _read_type(column) for column in schema.columns if column.in_table}
    convert_options = pyarrow.csv.ConvertOptions(
        column_types=types,
        null_values=[""],
        strings_can_be_null=False,
        include_columns=list(types) if schema.extra_columns == "ignore" else None,
        check_utf8=False,  # a policy that never fails takes unsound text too; `_finished` refuses for the others
    )
    return {
        "convert_options": convert_options,
        "parse_options": pyarrow.csv.ParseOptions(newlines_in_values=broken),
    }


def _finished(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Give a batch read with `_options` the types of `csv_arrow_schema`, in the batch's column order."""
    check_names(schema, batch.schema.names)
    arrays, fields = [], []
    for name in batch.schema.names:
        if name in schema:
            column = schema.column(name)
            fields.append(pa.field(name, column.arrow_type()))
            arrays.append(_finish(batch.column(name), column))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def read_csv(path: str | PathLike[str], schema: Schema) -> pa.Table:
    """Read a whole CSV file."""
    names = csv_names(path)
    try:
        with pa.OSFile(str(path), "rb") as raw:
            batches = list(csv_batches(raw, path, schema))
    except OSError as error:
        raise DataError(f"{path}: cannot read the file: {error.strerror or 'it is damaged'}") from None
    return pa.Table.from_batches(batches, csv_arrow_schema(schema, names))


def csv_batches(raw: pa.NativeFile, path: str | PathLike[str], schema: Schema) -> Iterator[pa.RecordBatch]:
    """Read the bytes of a CSV file batch by batch, in the one dialect; messages name it by `path`."""
    names = csv_names(path)
    if not any(names):
        raise DataError(f"{path}: the file is empty; its first line must name the columns")
    try:
        check_names(schema, names)
    except SchemaError as fault:
        raise SchemaError(f"{path}: {fault}") from None
    breaks = [name in schema and lists_breaks(schema.column(name)) for name in names]
    options = _options(schema, any(breaks))
    for records in Checked(unpacked(raw, path), path, breaks).records():
        # Whole records, in memory: Arrow calls nothing of ours, and where a block ends decides nothing.
        read = pyarrow.csv.ReadOptions(column_names=names, block_size=len(records) + 1, use_threads=False)
        try:
            table = pyarrow.csv.read_csv(pa.BufferReader(records), read_options=read, **options)
        except pa.ArrowException as error:
            wrong: pa.ArrowException | None = error
        else:
            wrong = None
        if wrong is not None and "Empty CSV" not in str(wrong):
            raise redact(wrong, path, schema)  # outside the handler: Arrow's text is not chained to this
        if wrong is None:
            for batch in table.to_batches():
                yield _finished(batch, schema)


def csv_names(path: str | PathLike[str]) -> list[str]:
    """Return the column names of a CSV file, plain or gzipped."""
    packed = Path(path).suffix.lower() == ".gz"
    try:
        with (gzip.open if packed else open)(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
            return next(csv.reader(file), [])
    except (OSError, EOFError, csv.Error, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise DataError(f"{path}: cannot read the file: {reason or 'its first line is damaged'}") from None


def redact(error: Exception, path: str | PathLike[str], schema: Schema) -> DataError | SchemaError:
    """Turn pyarrow's message, which quotes the file, into one that names the column and the remedy only."""
    text = str(error)
    if found := _COLUMN.search(text):
        names = csv_names(path)
        place = int(found[1])
        name = names[place] if place < len(names) else "?"
        if name not in schema:
            return DataError(f'{path}, column "{name}": a value cannot be read. Describe the column in the schema')
        column = schema.column(name)
        return DataError(f'{path}, column "{name}": {remedy(column, column.arrow_type())}')
    if "include_columns" in text:
        try:
            check_names(schema, csv_names(path))
        except SchemaError as fault:
            return SchemaError(f"{path}: {fault}")
    if "Empty CSV" in text:
        return DataError(f"{path}: the file is empty; its first line must name the columns")
    return DataError(f"{path}: the file cannot be read as CSV")


def _read_type(column: Column) -> pa.DataType:
    """Type that pyarrow reads: text where reading must not fail, or where the column has its own date format."""
    wanted = column.arrow_type()
    plain = column.read and column.outside == "refuse" and column.text_format is None and not column.markers
    return wanted if plain else pa.string()


def _finish(array: pa.Array, column: Column) -> pa.Array:
    wanted = column.arrow_type()
    if not column.read:
        return pa.nulls(len(array), wanted)
    if lists_breaks(column):
        require_listed_breaks(array, column)
    if is_text(array.type) and (column.missing or not is_text(wanted)):
        array = blanked(pc.if_else(pc.equal(array, ""), None, array), column.markers)
    # Ids are told apart by their bytes, and never read.
    return adopt(array, wanted, column) if column.modelled else array
