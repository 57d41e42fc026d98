"""Convert columns of text to the schema's types, value by value."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import DataError, SchemaError, raise_together
from weft.io.csv_scan import lists_breaks, require_listed_breaks
from weft.io.dialect import NOT_UTF8, Dialect
from weft.schema import Column, Schema
from weft.schema.kinds import suggest_known_word
from weft.schema.schema import check_names
from weft.schema.type_conversion import adopt_type, interpret_values
from weft.values.text_numbers import NumberFormat, blank_marked_values, is_text, is_utf8


def read_type(column: Column, dialect: Dialect) -> pa.DataType:
    """Return the type that pyarrow reads: text if reading must not fail, or if the column or file has its own format.

    Integers are always read as text: Arrow would read 0x10 as 16 if the rest of a block is plain.
    """
    wanted = column.arrow_type()
    own = column.text_format is not None or column.markers or column.number_format is not None
    number = pa.types.is_floating(wanted) or pa.types.is_decimal(wanted)
    if pa.types.is_integer(wanted) or not column.read or column.outside != "refuse" or own:
        return pa.string()
    return pa.string() if number and dialect.number_format is not None else wanted


def convert_batch(batch: pa.RecordBatch, schema: Schema, name: str, form: NumberFormat | None = None) -> pa.RecordBatch:
    """Convert a batch of text to the schema's types; `name` is its file in messages, `form` its number format."""
    check_names(schema, batch.schema.names)
    arrays: dict[str, pa.Array] = {}
    faults: list[DataError] = []
    for each in batch.schema.names:
        if each in schema:
            try:
                arrays[each] = convert_text_column(batch.column(each), schema.column(each), name, form)
            except DataError as fault:
                faults.append(fault)
    raise_together(faults)
    fields = [pa.field(name, schema.column(name).arrow_type()) for name in arrays]
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema(fields))


def convert_text_column(array: pa.Array, column: Column, name: str, form: NumberFormat | None = None) -> pa.Array:
    """Convert a column of text to the schema's type, value by value."""
    try:
        return _convert_column(array, column, form)
    except DataError as fault:
        told = str(fault)
    raise DataError(f"{name}, {told}")


def _convert_column(array: pa.Array, column: Column, form: NumberFormat | None) -> pa.Array:
    wanted = column.arrow_type()
    if not column.read:
        return pa.nulls(len(array), wanted)
    if lists_breaks(column) and "values" not in column.paid:  # outside a discovered list, they are `other`
        require_listed_breaks(array, column)
    if column.as_written and is_text(array.type) and not is_utf8(array):
        raise DataError(f'column "{column.name}": a value {NOT_UTF8}')
    if is_text(array.type) and (column.missing or not is_text(wanted)):
        array = pc.if_else(pc.equal(array, ""), None, array)
    if is_text(array.type):
        number = pa.types.is_integer(wanted) or pa.types.is_floating(wanted) or pa.types.is_decimal(wanted)
        array = interpret_values(array, column, form) if number else blank_marked_values(array, column.markers)
    # Ids are compared by their bytes, and never converted.
    return array if array.type == wanted and not column.modelled else adopt_type(array, wanted, column)


def csv_arrow_schema(schema: Schema, names: Sequence[str] | None = None) -> pa.Schema:
    """Return the Arrow schema that the codec gets for a CSV file with these columns (None: the schema's order)."""
    order = [column.name for column in schema.columns if column.in_table] if names is None else list(names)
    check_names(schema, order)
    return pa.schema([pa.field(name, schema.column(name).arrow_type()) for name in order if name in schema])


def check_columns(schema: Schema, names: Sequence[str], file: str) -> None:
    """Refuse a file whose columns are not the schema's. If no name is known, none is quoted: they may be values."""
    known = [column.name for column in schema.columns if column.in_table]
    if not any(name in schema or suggest_known_word(name, known) for name in names):
        raise DataError(
            f"{file}: its first line names none of the schema's columns. If the file has no header line, pass "
            "--no-header (Dialect(header=False)); else use the schema of this table"
        )
    try:
        check_names(schema, list(names))
    except SchemaError as fault:
        raise SchemaError(f"{file}: {fault}") from None


def make_column_names(width: int, schema: Schema | None) -> list[str]:
    """Return the column names of a file without a header: the schema's in order, or column_1, column_2, ..."""
    numbered = [f"column_{place}" for place in range(1, width + 1)]
    named = [] if schema is None else [column.name for column in schema.columns if column.in_table]
    return numbered if set(named) <= set(numbered) else named
