"""Encode columns, which users see, as attributes, which are counted.

A part represents one or more columns. It encodes their values as codes of its attributes (none, one or more) and
decodes codes to values.

Privacy: a part encodes each row independently and uses public facts only, so that a row adds one to exactly one cell of
every marginal (sensitivity 1 to adding or removing a row).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.marginals.domain import Domain
from weft.schema.kinds.category import ListedCoder
from weft.schema.kinds.kind import Coder, Column, ColumnError, Label, make_single_label
from weft.values.timestamps import is_known_zone


class DictionaryCoder:
    """Coder of a dictionary-encoded column. The dictionary is made from the schema, not from data."""

    def __init__(self, inner: Coder, arrow_type: pa.DataType) -> None:
        self.inner, self._type = inner, arrow_type
        self.size = inner.size

    def encode(self, array: pa.Array) -> NDArray[np.int64]:
        """Return the code of each value."""
        return self.inner.encode(array)

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """Return a value for each code."""
        if isinstance(self.inner, ListedCoder):
            return _make_dictionary_array(self.inner.indices(codes), self.inner.values, self._type)
        return dictionary_array(self.inner.decode(codes, rng), self._type)


def cast_to_stored_type(array: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Return an array, dictionary-encoded if the type is a dictionary."""
    return dictionary_array(array, arrow_type) if pa.types.is_dictionary(arrow_type) else array


def dictionary_array(array: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Encode a plain array as a dictionary array of this type."""
    encoded = array.dictionary_encode()
    return _make_dictionary_array(encoded.indices, encoded.dictionary, arrow_type)


def _make_dictionary_array(indices: pa.Array, values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        indices.cast(arrow_type.index_type), values.cast(arrow_type.value_type), ordered=arrow_type.ordered
    )


def plain_coder(coder: Coder) -> Coder:
    """Return the coder of the values, without a dictionary."""
    return coder.inner if isinstance(coder, DictionaryCoder) else coder


def coder_of(column: Column, field: pa.Field) -> Coder:
    """Return the coder of a column in its Arrow type; raise SchemaError if they are incompatible."""
    arrow_type = field.type
    if pa.types.is_dictionary(arrow_type):
        return DictionaryCoder(coder_of(column, field.with_type(arrow_type.value_type)), arrow_type)
    zone = arrow_type.tz if pa.types.is_timestamp(arrow_type) else None
    if zone is not None and not is_known_zone(zone):
        raise ColumnError(column.name, "its type has an unknown time zone; convert the times to UTC", "type")
    nan = not field.nullable  # a non-nullable float column represents missing values by NaN
    return column.coder(arrow_type, nan)


Arrays = Mapping[str, pa.Array]
"""Values by column, in the types that the codec declares."""


class AttributePart(Protocol):
    """Encoder of one or more columns as attributes."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the part decodes."""
        ...

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that are read to encode rows."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns of other parts that must be decoded before."""
        ...

    @property
    def domain(self) -> Domain:
        """Attributes of the part; the first one has the name of its column."""
        ...

    def labels(self) -> list[tuple[Label, ...]]:
        """Return the labels of all codes of each attribute."""
        ...

    def encode(self, arrays: Arrays) -> Sequence[NDArray[np.int64]]:
        """Return the codes of each attribute; raise DataError under the refuse policy only."""
        ...

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return the columns for these codes, given the decoded columns of other parts in `made`."""
        ...


class ComputedPart:
    """Base class of parts of computed columns: no attribute, and nothing read from rows."""

    def __init__(self, name: str, needs: tuple[str, ...]) -> None:
        self.columns = (name,)
        self.reads: tuple[str, ...] = ()
        self.needs = needs
        self.domain = Domain((), ())

    def labels(self) -> list[tuple[Label, ...]]:
        """Return no labels: there is no attribute."""
        return []

    def encode(self, arrays: Arrays) -> list[NDArray[np.int64]]:
        """Return no codes: there is no attribute."""
        return []


class Single:
    """A column that is encoded as one attribute."""

    def __init__(self, column: Column, field: pa.Field) -> None:
        self._column, self._type = column, field.type
        self.coder = coder_of(column, field)
        self.columns = self.reads = (column.name,)
        self.needs: tuple[str, ...] = ()
        self.domain = Domain((column.name,), (self.coder.size,), (column.order(plain_coder(self.coder)),))

    def labels(self) -> list[tuple[Label, ...]]:
        """Return the labels of all codes; a bin without possible values has no code."""
        return [name_column_codes(self._column, self._type, self.coder.size)]

    def encode(self, arrays: Arrays) -> list[NDArray[np.int64]]:
        """Return the code of each value."""
        return [self.coder.encode(arrays[self.columns[0]])]

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return a value for each code."""
        return {self.columns[0]: self.coder.decode(codes[0], rng)}


def name_column_codes(column: Column, arrow_type: pa.DataType, size: int) -> tuple[Label, ...]:
    """Return the labels of all `size` codes of a column."""
    made = column.labels(arrow_type, size)
    if column.missing:
        made.append(make_single_label("missing", "missing"))
    if len(made) > size:  # Arrow's null type has only the code for missing
        made = made[len(made) - size :]
    if len(made) != size:  # the codec merges values that a type cannot distinguish: better than a wrong label
        made = [make_single_label(f"code {code}", "value") for code in range(size)]
    return tuple(made)
