"""Markers: values that stand for a missing one, such as "?", "NA", -9 or 999, as a schema lists them for a column.

Each value is compared by itself. In text a marker is the field as it is written, blanks around it aside; in any other
type it is the value that it spells, and a marker that spells none of the type marks nothing there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from weft.values.text import is_text

Marker = str | int | float
"""What stands for a missing value."""


def blanked(array: pa.Array, markers: Sequence[Marker]) -> pa.Array:
    """Return an array with null in place of each value that a marker names.

    >>> blanked(pa.array(["3", " ?", "-9"]), ("?", -9)).to_pylist()
    ['3', None, None]
    >>> blanked(pa.array([3.5, -9.0]), ("?", "-9")).to_pylist()
    [3.5, None]
    """
    if not markers or pa.types.is_null(array.type) or pa.types.is_dictionary(array.type):
        return array
    values = _spelled(array, markers) if is_text(array.type) else _meant(array.type, markers)
    if not len(values):
        return array
    # As bytes, which need be no sound text.
    looked = pc.ascii_trim_whitespace(array.cast(values.type)) if is_text(array.type) else array
    return pc.if_else(pc.is_in(looked, value_set=values), pa.scalar(None, array.type), array)


def written(marker: Marker) -> str:
    """Return a marker as text has it."""
    return marker.strip() if isinstance(marker, str) else repr(marker)


def _spelled(array: pa.Array, markers: Sequence[Marker]) -> pa.Array:
    target = pa.large_string() if pa.types.is_string_view(array.type) else array.type
    return pa.array(list(dict.fromkeys(map(written, markers))), target)


def _meant(arrow_type: pa.DataType, markers: Sequence[Marker]) -> pa.Array:
    """Return the values of a type that markers name."""
    values: list[pa.Array] = []
    for marker in markers:
        with suppress(pa.ArrowException, ValueError, ArithmeticError, TypeError):
            values.append(_value(arrow_type, marker))
    return pc.unique(pa.concat_arrays(values)) if values else pa.array([], arrow_type)


def _value(arrow_type: pa.DataType, marker: Marker) -> pa.Array:
    if pa.types.is_integer(arrow_type):
        number = Decimal(marker)
        if number != int(number):
            raise ValueError(marker)
        return pa.array([int(number)], arrow_type)
    if pa.types.is_floating(arrow_type):
        return pa.array([float(marker)]).cast(arrow_type)
    if pa.types.is_temporal(arrow_type) and not isinstance(marker, str):
        raise ValueError(marker)  # a number is no date
    return pa.array([written(marker)]).cast(arrow_type)
