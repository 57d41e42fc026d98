"""Columns of text, as a file or a cell has them, in the types that the schema declares: value by value."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from weft.codec.codec import check_names
from weft.codec.conversion import adopt, understood
from weft.errors import DataError, raise_together
from weft.reading.dialect import Dialect
from weft.reading.scan import lists_breaks, require_listed_breaks
from weft.schema import Column, Schema
from weft.values.markers import blanked
from weft.values.number_format import NumberFormat
from weft.values.text import is_text


def read_type(column: Column, dialect: Dialect) -> pa.DataType:
    """Type that pyarrow reads: text where reading must not fail, or where the column or the file has its own format.

    Whole numbers are read from text in any case: Arrow would take 0x10 for 16 where all of a block is plain.
    """
    wanted = column.arrow_type()
    own = column.text_format is not None or column.markers or column.number_format is not None
    number = pa.types.is_floating(wanted) or pa.types.is_decimal(wanted)
    if pa.types.is_integer(wanted) or not column.read or column.outside != "refuse" or own:
        return pa.string()
    return pa.string() if number and dialect.number_format is not None else wanted


def finished(batch: pa.RecordBatch, schema: Schema, name: str, form: NumberFormat | None = None) -> pa.RecordBatch:
    """Give a batch of text the types that the schema declares; messages call its file by `name`.

    `form` is how the file writes numbers.
    """
    check_names(schema, batch.schema.names)
    arrays: dict[str, pa.Array] = {}
    faults: list[DataError] = []
    for each in batch.schema.names:
        if each in schema:
            try:
                arrays[each] = finished_column(batch.column(each), schema.column(each), name, form)
            except DataError as fault:
                faults.append(fault)
    raise_together(faults)
    return _batch(arrays, schema)


def _batch(arrays: Mapping[str, pa.Array], schema: Schema) -> pa.RecordBatch:
    fields = [pa.field(name, schema.column(name).arrow_type()) for name in arrays]
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema(fields))


def finished_column(array: pa.Array, column: Column, name: str, form: NumberFormat | None = None) -> pa.Array:
    """Give a column of text the type that the schema declares, value by value."""
    try:
        return _finish(array, column, form)
    except DataError as fault:
        told = str(fault)
    raise DataError(f"{name}, {told}")


def _finish(array: pa.Array, column: Column, form: NumberFormat | None) -> pa.Array:
    wanted = column.arrow_type()
    if not column.read:
        return pa.nulls(len(array), wanted)
    if lists_breaks(column):
        require_listed_breaks(array, column)
    if is_text(array.type) and (column.missing or not is_text(wanted)):
        array = pc.if_else(pc.equal(array, ""), None, array)
    if is_text(array.type):
        number = pa.types.is_integer(wanted) or pa.types.is_floating(wanted) or pa.types.is_decimal(wanted)
        array = understood(array, column, form) if number else blanked(array, column.markers)
    # Ids are told apart by their bytes, and never read.
    return array if array.type == wanted and not column.modelled else adopt(array, wanted, column)
