"""Codec: a table's values as small integers, and back in the table's own types."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.codec.types import released_type
from weft.errors import ModelFileError, SchemaError
from weft.marginals.domain import Domain
from weft.marginals.records import Codes, Records, code_dtype
from weft.schema.kinds import Column, ColumnError, Id, suggestion
from weft.schema.kinds.base import Coder
from weft.schema.kinds.id import IdMaker
from weft.schema.kinds.listed import ListedCoder
from weft.schema.schema import Schema
from weft.values.instants import known_zone
from weft.values.storage import decoded


class DictionaryCoder:
    """A dictionary-encoded column, coded by its values. Its dictionary is made from the schema, not from data."""

    def __init__(self, inner: Coder, arrow_type: pa.DataType) -> None:
        self._inner, self._type = inner, arrow_type
        self.size = inner.size

    def encode(self, array: pa.Array) -> NDArray[np.int64]:
        """Return the code of each value."""
        return self._inner.encode(array)

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """Return a value for each code."""
        if isinstance(self._inner, ListedCoder):
            return _dictionary(self._inner.indices(codes), self._inner.values, self._type)
        return dictionary_array(self._inner.decode(codes, rng), self._type)


def dictionary_array(array: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Encode a plain array as a dictionary of this type."""
    encoded = array.dictionary_encode()
    return _dictionary(encoded.indices, encoded.dictionary, arrow_type)


def _dictionary(indices: pa.Array, values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        indices.cast(arrow_type.index_type), values.cast(arrow_type.value_type), ordered=arrow_type.ordered
    )


def coder(column: Column, field: pa.Field) -> Coder:
    """Return the coder of a column in its Arrow type; SchemaError if they do not fit."""
    arrow_type = field.type
    if pa.types.is_dictionary(arrow_type):
        return DictionaryCoder(coder(column, field.with_type(arrow_type.value_type)), arrow_type)
    zone = arrow_type.tz if pa.types.is_timestamp(arrow_type) else None
    if zone is not None and not known_zone(zone):
        raise ColumnError(column.name, "its times are in a zone that nobody knows; convert them to UTC", "type")
    nan = not field.nullable  # a float column that forbids nulls says missing with NaN
    return column.coder(arrow_type, nan)


class Codec:
    """Turns rows into records over a public domain, and records into rows of the input's Arrow schema.

    Everything is decided by the schema and the declared Arrow types, which are public (decision 002); the domain
    is the same whatever the rows hold.
    """

    def __init__(self, schema: Schema, arrow_schema: pa.Schema) -> None:
        self.schema = schema
        check_names(schema, arrow_schema.names)
        kept = [_released_field(field, schema.column(field.name)) for field in arrow_schema if field.name in schema]
        fields = {field.name: field for field in kept}
        self._coders: dict[str, Coder] = {}
        self._ids: dict[str, tuple[IdMaker, pa.DataType]] = {}
        for column in schema.columns:
            field = fields[column.name]
            if isinstance(_value_type(field.type), pa.BaseExtensionType):
                raise ColumnError(column.name, f"its type {field.type} cannot be read; store it as a plain one", "type")
            if isinstance(column, Id):
                self._ids[column.name] = column.maker(_value_type(field.type)), field.type
            else:
                self._coders[column.name] = coder(column, field)
        if not self._coders:
            raise SchemaError("the schema has no column to model: every column is an id")
        self.domain = Domain(
            tuple(self._coders),
            tuple(coder.size for coder in self._coders.values()),
            tuple(schema.column(name).order(coder.size) for name, coder in self._coders.items()),
        )
        # Metadata is dropped: pandas and others keep facts about the rows there. A column that may be missing
        # must be able to say so.
        self.arrow_schema = pa.schema([_output_field(field, schema.column(field.name)) for field in kept])

    @property
    def unit_column(self) -> str | None:
        """Id column that tells the privacy unit of a row."""
        return self.schema.unit

    def encode(self, data: pa.Table | pa.RecordBatch) -> Records:
        """Return one record a row; DataError if a row breaks the schema under the refuse policy."""
        columns = [self._encode(name, data) for name in self.domain.names]
        return Records(self.domain, tuple(columns))

    def _encode(self, name: str, data: pa.Table | pa.RecordBatch) -> Codes:
        column = data.column(name)
        expected = self.arrow_schema.field(name).type
        # A dictionary is a way of storing: its values decide, and so does the declared type of a null column.
        wanted = _value_type(expected)
        if _value_type(released_type(self.schema.column(name), column.type)) != wanted:
            raise SchemaError(f'column "{name}": its type changed from {expected} to {column.type} between batches')
        dtype = code_dtype(self.domain.size(name))
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        parts = [self._coders[name].encode(_values(chunk, wanted)).astype(dtype) for chunk in chunks]
        return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)

    def decode(self, records: Records, rng: np.random.Generator, start: int = 0) -> pa.Table:
        """Return a row for each record, in the input's types and column order.

        `start` is the number of rows decoded before these, so that ids stay unique across blocks.
        """
        arrays = []
        for field in self.arrow_schema:
            if field.name in self._ids:
                maker, arrow_type = self._ids[field.name]
                array = maker.make(start, len(records), rng)
                arrays.append(dictionary_array(array, arrow_type) if array.type != arrow_type else array)
            else:
                arrays.append(self._coders[field.name].decode(records.column(field.name), rng))
        return pa.Table.from_arrays(arrays, schema=self.arrow_schema)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values: the schema, and the Arrow types without metadata."""
        serialised = base64.b64encode(self.arrow_schema.serialize().to_pybytes()).decode("ascii")
        return {"schema": self.schema.to_dict(), "arrow_schema": serialised}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Codec:
        """Rebuild a codec from what `to_dict` gave; ModelFileError if it is damaged."""
        try:
            octets = base64.b64decode(document["arrow_schema"], validate=True)
            arrow_schema = pa.ipc.read_schema(pa.py_buffer(octets))
            return cls(Schema.from_dict(document["schema"]), arrow_schema)
        except (KeyError, TypeError, ValueError, AttributeError, OSError, pa.ArrowException, SchemaError):
            raise ModelFileError("the schema inside the model is damaged; ask for the file again") from None


def _released_field(field: pa.Field, column: Column) -> pa.Field:
    return field.with_type(released_type(column, field.type))


def _value_type(arrow_type: pa.DataType) -> pa.DataType:
    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


def _values(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    array = decoded(array)
    return pa.nulls(len(array), wanted) if pa.types.is_null(array.type) else array


def _output_field(field: pa.Field, column: Column) -> pa.Field:
    says_nan = pa.types.is_floating(field.type)
    nullable = field.nullable or (column.missing and not says_nan)
    return pa.field(field.name, field.type, nullable)


def check_names(schema: Schema, names: list[str]) -> None:
    """Refuse a table that lacks a column of the schema, or has one too many (unless extra ones are ignored)."""
    for name in names:
        if names.count(name) > 1 and name in schema:
            raise SchemaError(f'column "{name}": the table has several columns of this name; rename them')
    for column in schema.columns:
        if column.name not in names:
            near = suggestion(column.name, names)
            raise SchemaError(f'column "{column.name}": the table has no such column.{near} Remove it from the schema')
    extra = [name for name in names if name not in schema]
    if extra and schema.extra_columns == "refuse":
        listed = ", ".join(f'"{name}"' for name in extra[:5]) + (", ..." if len(extra) > 5 else "")
        raise SchemaError(
            f'the schema does not describe {listed}. Add a table for each, or set extra_columns = "ignore"'
        )
