"""Arrow types in which columns are released: declared by the source, which is public, or else from the schema."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from weft.schema import Column


def released_type(column: Column, declared: pa.DataType) -> pa.DataType:
    """Return the type in which a column of this declared type is released.

    Arrow's null type declares nothing (it is what a library makes of a column that happens to be all missing), so
    the schema's type stands in for it. The index of a dictionary grows until it can tell all the schema's values
    apart, whichever of them the rows hold.
    """
    if pa.types.is_null(declared):
        return column.arrow_type()
    if pa.types.is_dictionary(declared):
        room = int(np.iinfo(declared.index_type.to_pandas_dtype()).max) + 1
        index = declared.index_type if room >= column.places else index_type(column)
        return pa.dictionary(index, released_type(column, declared.value_type), declared.ordered)
    return declared


def index_type(column: Column) -> pa.DataType:
    """Return the smallest signed index for a dictionary of the column's possible values."""
    return next(size for size in (pa.int8(), pa.int16(), pa.int32()) if column.places <= 2 ** (size.bit_width - 1))
