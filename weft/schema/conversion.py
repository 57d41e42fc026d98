"""Text turned into typed columns without ever failing on a value: what cannot be read becomes null."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.schema.carriers import decimal_array, missing_of, write_floats
from weft.schema.columns import Column, ColumnError, Datetime
from weft.schema.moments import DAY, UNIT
from weft.schema.text import is_text, read_floats, read_integers, read_moments

Mask = NDArray[np.bool_]
_TRUE, _FALSE = pa.array(["true", "1"], pa.large_string()), pa.array(["false", "0"], pa.large_string())
_FRACTION = r"^(?P<whole>[^.]*:[0-9]{2})\.(?P<fraction>[0-9]{1,9})$"


def convert(array: pa.Array, wanted: pa.DataType, column: Column) -> tuple[pa.Array, Mask]:
    """Return a text array in the wanted type, null where it cannot be read, and a mask of those places."""
    if is_text(wanted):
        return array.cast(wanted), np.zeros(len(array), dtype=bool)
    if pa.types.is_dictionary(wanted):
        made, unreadable = convert(array, wanted.value_type, column)
        return made.dictionary_encode().cast(wanted), unreadable
    missing = missing_of(array)
    if pa.types.is_integer(wanted):
        whole, _, unreadable = read_integers(array)
        info = np.iinfo(wanted.to_pandas_dtype())
        low, high = max(int(info.min), -(10**18)), min(int(info.max), 10**18)
        kept = np.clip(whole, low, high).astype(wanted.to_pandas_dtype())
        return pa.array(kept, type=wanted, mask=missing | unreadable), unreadable
    if pa.types.is_boolean(wanted):
        return _booleans(array, missing)
    if pa.types.is_date(wanted) or pa.types.is_timestamp(wanted):
        return _moments(array, missing, wanted, column.format if isinstance(column, Datetime) else None)
    if pa.types.is_floating(wanted) or pa.types.is_decimal(wanted):
        floats, unreadable = read_floats(array)
        null = np.isnan(floats)
        if pa.types.is_floating(wanted):
            return write_floats(floats, null, wanted, nan=False), unreadable
        top = min(10.0**wanted.precision - 1, 2.0**62)
        unscaled = np.clip(np.rint(np.where(null, 0.0, floats) * 10.0**wanted.scale), -top, top).astype(np.int64)
        return decimal_array(unscaled, wanted.scale, null).cast(wanted), unreadable
    raise ColumnError(column.name, f"CSV text cannot be read as {wanted}; choose another type", "type")


def _booleans(array: pa.Array, missing: Mask) -> tuple[pa.Array, Mask]:
    words = pc.utf8_lower(array.cast(pa.large_string()))
    yes: Mask = pc.is_in(words, value_set=_TRUE).to_numpy(zero_copy_only=False)
    no: Mask = pc.is_in(words, value_set=_FALSE).to_numpy(zero_copy_only=False)
    return pa.array(yes, mask=~(yes | no)), ~(yes | no | missing)


def _moments(array: pa.Array, missing: Mask, wanted: pa.DataType, form: str | None) -> tuple[pa.Array, Mask]:
    nanoseconds = None
    if form is not None:
        moments = read_moments(array, form)
    else:
        words = pc.replace_substring_regex(array.cast(pa.large_string()), r"^(.{10})T", r"\1 ")
        words = pc.replace_substring_regex(words, r"(Z|\+00:?00)$", "")
        parts = pc.extract_regex(words, _FRACTION)
        digits = pc.utf8_rpad(pc.struct_field(parts, "fraction"), width=9, padding="0").cast(pa.int64())
        nanoseconds = digits.fill_null(0).to_numpy(zero_copy_only=False)
        words = pc.coalesce(pc.struct_field(parts, "whole"), words)
        moments = pc.coalesce(read_moments(words, "%Y-%m-%d %H:%M:%S"), read_moments(words, "%Y-%m-%d"))
    unreadable = missing_of(moments) & ~missing
    seconds = moments.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    stored = pa.int32() if pa.types.is_date32(wanted) else pa.int64()
    if pa.types.is_date(wanted):
        days = seconds // 86_400
        values = days if pa.types.is_date32(wanted) else days * (DAY // UNIT["ms"])
    else:
        unit = UNIT[wanted.unit]
        bound = (2**63 - 1) // (UNIT["s"] // unit) - 1
        values = np.clip(seconds, -bound, bound) * (UNIT["s"] // unit)
        if nanoseconds is not None:
            values = values + nanoseconds // unit
    return pa.array(values, mask=missing | unreadable).cast(stored).cast(wanted), unreadable
