"""Coders of columns as they are stored: by the values of a dictionary, where a column has one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.schema.kinds.base import Coder, Column, ColumnError
from weft.schema.kinds.listed import ListedCoder
from weft.values.instants import known_zone


class DictionaryCoder:
    """A dictionary-encoded column, coded by its values. Its dictionary is made from the schema, not from data."""

    def __init__(self, inner: Coder, arrow_type: pa.DataType) -> None:
        self.inner, self._type = inner, arrow_type
        self.size = inner.size

    def encode(self, array: pa.Array) -> NDArray[np.int64]:
        """Return the code of each value."""
        return self.inner.encode(array)

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """Return a value for each code."""
        if isinstance(self.inner, ListedCoder):
            return _dictionary(self.inner.indices(codes), self.inner.values, self._type)
        return dictionary_array(self.inner.decode(codes, rng), self._type)


def as_stored(array: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Return an array in a type that may be a dictionary of its own."""
    return dictionary_array(array, arrow_type) if pa.types.is_dictionary(arrow_type) else array


def dictionary_array(array: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Encode a plain array as a dictionary of this type."""
    encoded = array.dictionary_encode()
    return _dictionary(encoded.indices, encoded.dictionary, arrow_type)


def _dictionary(indices: pa.Array, values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        indices.cast(arrow_type.index_type), values.cast(arrow_type.value_type), ordered=arrow_type.ordered
    )


def plain_coder(coder: Coder) -> Coder:
    """Return the coder of the values, however they are stored."""
    return coder.inner if isinstance(coder, DictionaryCoder) else coder


def coder_of(column: Column, field: pa.Field) -> Coder:
    """Return the coder of a column in its Arrow type; SchemaError if they do not fit."""
    arrow_type = field.type
    if pa.types.is_dictionary(arrow_type):
        return DictionaryCoder(coder_of(column, field.with_type(arrow_type.value_type)), arrow_type)
    zone = arrow_type.tz if pa.types.is_timestamp(arrow_type) else None
    if zone is not None and not known_zone(zone):
        raise ColumnError(column.name, "its times are in a zone that nobody knows; convert them to UTC", "type")
    nan = not field.nullable  # a float column that forbids nulls says missing with NaN
    return column.coder(arrow_type, nan)
