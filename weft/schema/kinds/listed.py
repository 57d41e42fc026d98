"""Codes of columns that list their values: one code a value, in the order of the schema."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.schema.kinds.base import Column, ColumnError, Scalar
from weft.schema.kinds.policies import Policies
from weft.values.storage import missing_of
from weft.values.text import is_text


class ListedCoder:
    """One code a value, in the order of the schema, matched in the column's own type."""

    def __init__(self, column: Column, arrow_type: pa.DataType, nan: bool, other: Scalar | None = None) -> None:
        self._type, self._nan = arrow_type, nan
        listed = column.listed or ()
        self.values = listed_values(column, listed, arrow_type)
        self._outcomes = Policies(column, len(listed), None if other is None else listed.index(other))
        self.size = self._outcomes.size
        try:
            self.encode(pa.array([], arrow_type))
            self.decode(np.empty(0, np.int64), np.random.default_rng(0))
        except pa.ArrowException:  # a type that Arrow cannot look up in, whatever the rows hold
            raise column.unfit(arrow_type) from None

    def encode(self, array: pa.Array) -> NDArray[np.int64]:
        """Return the code of each value."""
        array = array.cast(self.values.type)
        if pa.types.is_floating(array.type):
            array = pc.if_else(pc.is_nan(array), None, pc.add(array, pa.scalar(0.0, array.type)))
        codes = pc.index_in(array, value_set=self.values, skip_nulls=True).fill_null(-1)
        return self._outcomes.settle(codes.to_numpy(zero_copy_only=False).astype(np.int64), missing_of(array))

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """Return the value of each code."""
        array = self.values.take(self.indices(codes))
        if self._nan and pa.types.is_floating(array.type):
            array = array.fill_null(float("nan"))
        return array.cast(self._type)

    def indices(self, codes: NDArray[Any]) -> pa.Array:
        """Return places in the list of values, null for missing."""
        return pa.array(codes.astype(np.int64), mask=self._outcomes.is_missing(codes))


def listed_values(column: Column, listed: tuple[Scalar, ...], arrow_type: pa.DataType) -> pa.Array:
    """Return the schema's values in the type they are matched in: the column's, or one that Arrow can look up in."""
    if is_text(arrow_type):
        target = pa.large_string() if pa.types.is_string_view(arrow_type) else arrow_type
        plain: list[Any] = [written(value) for value in listed]
    elif pa.types.is_decimal256(arrow_type):
        # Refused here, whatever the rows hold: Arrow cannot look up in this type, and a cast may fail on a value.
        raise column.unfit(arrow_type)
    else:
        small_decimal = pa.types.is_decimal(arrow_type) and not pa.types.is_decimal128(arrow_type)
        target = pa.decimal128(38, arrow_type.scale) if small_decimal else arrow_type
        target = pa.large_binary() if pa.types.is_binary_view(arrow_type) else target
        plain = list(listed)
    try:
        array = _cast(plain, target)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise ColumnError(
            column.name, f"its values do not fit the column's type {arrow_type}; write them as that type does", "values"
        ) from None
    if len(pc.unique(array)) < len(array):
        raise ColumnError(column.name, f"two of its values are the same in the column's type {arrow_type}", "values")
    return array


def _cast(plain: list[Any], target: pa.DataType) -> pa.Array:
    if isinstance(plain[0], float) and pa.types.is_decimal(target):
        plain = [repr(value) for value in plain]
    if isinstance(plain[0], int) and not isinstance(plain[0], bool) and pa.types.is_integer(target):
        return pa.array(plain, type=target)
    array = pa.array(plain).cast(target)
    if pa.types.is_floating(target):
        array = pc.add(array, pa.scalar(0.0, target))  # -0.0 is 0.0
    return array


def written(value: Scalar) -> str:
    """Return a value as text that means it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
