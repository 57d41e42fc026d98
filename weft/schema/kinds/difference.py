"""Columns that are encoded as the difference from a base column, so that their order always holds.

For example, a departure follows an arrival, and the length of a stay depends on other attributes than the arrival does.

Privacy: a difference depends on the two values of one row only, so that a row still adds one to one cell of every
marginal (sensitivity 1 to adding or removing a row).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.errors import DataError
from weft.marginals.domain import Domain
from weft.schema.kinds.attributes import Arrays, cast_to_stored_type, name_column_codes
from weft.schema.kinds.kind import Column, ColumnError, Label, Policies, suggest_known_word
from weft.schema.kinds.numeric_bins import BinnedColumn, Scale
from weft.values.storage import Reading, decode_dictionary
from weft.values.timestamps import DAY, Moment

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_FAR = 2.0**62  # larger differences are outside every range and would not fit 64 bits


def make_difference(column: BinnedColumn, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]) -> Difference:
    """Return the part of a column with a base column; raise ColumnError if they are incompatible."""
    base = _find_base_column(column, columns)
    if base.missing and not column.missing:
        raise ColumnError(column.name, f'its base column "{base.name}" may be missing: set missing = true', "missing")
    field = fields[column.name]
    own, other = _get_scale(column, field), _get_scale(base, fields[base.name])
    if own.time != other.time:
        raise ColumnError(column.name, f'a {column.kind} cannot come after "{base.name}" of kind {base.kind}', "after")
    if own.zone != other.zone and not (own.zone and other.zone):
        raise ColumnError(column.name, f'only one of it and "{base.name}" has a time zone; store both alike', "after")
    if own.day and own.zone and own.zone.upper() not in ("UTC", "GMT", "Z", "ETC/UTC"):
        raise ColumnError(column.name, "days differ in length in its time zone; set a step in hours or minutes", "step")
    if not own.time and (other.grain / own.unit).denominator != 1:
        raise ColumnError(column.name, f'it has fewer decimal places than its base column "{base.name}"', "after")
    return Difference(column, base, field.type, (own, other), bounds_of(column, columns))


def _find_base_column(column: BinnedColumn, columns: Mapping[str, Column]) -> BinnedColumn:
    """Return the base column; raise ColumnError if there is none or the dependencies are circular."""
    seen, at = [column.name], column
    while at.after is not None:
        base = columns.get(at.after)
        if base is None:
            near = suggest_known_word(at.after, columns) or " Name a column of the schema."
            raise ColumnError(at.name, f'after names "{at.after}", which is not a column.{near}', "after")
        if base.name in seen:
            listed = ", ".join(f'"{name}"' for name in seen)
            raise ColumnError(column.name, f"{listed} come after each other in a circle; remove one after", "after")
        if not isinstance(base, BinnedColumn) or type(base).scale is BinnedColumn.scale:
            raise ColumnError(at.name, f'after must name a date or number; "{base.name}" is a {base.kind}', "after")
        seen.append(base.name)
        at = base
    base = columns[column.after or ""]
    assert isinstance(base, BinnedColumn)
    return base


def _get_scale(column: BinnedColumn, field: pa.Field) -> Scale:
    arrow_type = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return column.scale(arrow_type, nan=not field.nullable)


def bounds_of(column: BinnedColumn, columns: Mapping[str, Column]) -> tuple[Fraction, Fraction]:
    """Compute the lowest and highest possible value of a column from the schema; times in nanoseconds."""
    lowest, highest = column.extent
    low, high = _parse_place(column, lowest, end=False), _parse_place(column, highest, end=True)
    if column.after is None:
        return low, high
    base = columns[column.after]
    assert isinstance(base, BinnedColumn)
    first, last = bounds_of(base, columns)
    return first + low, last + high


def _parse_place(column: BinnedColumn, value: Any, end: bool) -> Fraction:
    if not isinstance(value, str):
        place = column.place(value)
        return Fraction(str(place)) if isinstance(place, float) else Fraction(place)
    if column.after is not None:
        return Fraction(column.place(value))
    moment = Moment.parse(value)
    return Fraction(moment.nanoseconds + (DAY - 1 if moment.whole_day and end else 0))


class Difference:
    """A column that is encoded as the difference from its base column."""

    def __init__(
        self,
        column: BinnedColumn,
        base: BinnedColumn,
        arrow_type: pa.DataType,
        scales: tuple[Scale, Scale],
        span: tuple[Fraction, Fraction],
    ) -> None:
        name = column.name
        self.columns = (name,)
        self.reads = (name, base.name)
        self.needs = (base.name,)
        self._column, self._base, self._type = column, base, arrow_type
        self._own, self._other = scales
        self._clip = column.outside == "clip"
        self._bins = column.gaps(self._own)
        column.need_bins(self._bins)
        carrier, unit = self._own.carrier, self._own.unit
        low, high = (int(end // unit) for end in span)
        if not (carrier.low <= low and high <= carrier.high):
            raise ColumnError(name, f'range plus that of "{base.name}" exceeds its type {arrow_type}', "range")
        column.check_span(self._own, low, high)
        self._policies = Policies(column, self._bins.size)
        size = self._policies.size
        self.domain = Domain((name,), (size,), (column.order_of(self._bins, size),))

    def labels(self) -> list[tuple[Label, ...]]:
        """Return the labels of the differences."""
        stored = self._type.value_type if pa.types.is_dictionary(self._type) else self._type
        return [name_column_codes(self._column, stored, self._policies.size)]

    def encode(self, arrays: Arrays) -> list[Ints]:
        """Return the code of each difference; missing if either of the two values is."""
        own = self._own.carrier.read(arrays[self.columns[0]])
        start, unknown = self._start(arrays[self.needs[0]])
        missing = own.missing
        lost = _get_unreadable_mask(own)
        if self._clip:
            missing = missing | unknown | lost
        elif (unknown & ~missing).any():
            raise DataError(
                f'column "{self.columns[0]}": a value is present where "{self.needs[0]}" is missing. '
                'Set outside = "clip" to count it as missing'
            )
        gap, far = _subtract_modulo(own.values, start)
        gap = np.where(far != 0, far * np.int64(_FAR), gap)
        codes = self._bins.locate(gap, own.off, self._clip)
        codes[lost] = -1
        return [self._policies.settle(codes, missing)]

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return the decoded value of the base column plus a sampled difference; missing where either is."""
        drawn = np.asarray(codes[0]).astype(np.int64)
        missing = self._policies.is_missing(drawn)
        gap = self._bins.draw(np.where(missing, 0, drawn), rng)
        start, unknown = self._start_of(made)
        array = self._own.carrier.write(np.where(unknown, np.uint64(0), start.view(np.uint64) + gap), missing | unknown)
        return {self.columns[0]: cast_to_stored_type(array, self._type)}

    def fits(self, arrays: Arrays) -> Mask:
        """Return which rows have a valid difference, or a missing value where that is allowed."""
        own = self._own.carrier.read(decode_dictionary(arrays[self.columns[0]]))
        start, unknown = self._start_of(arrays)
        gap, far = _subtract_modulo(own.values, start)
        inside = (self._bins.locate(gap, own.off, clip=False) >= 0) & (far == 0) & ~unknown & ~_get_unreadable_mask(own)
        return np.asarray(np.where(own.missing, self._column.missing, inside), dtype=bool)

    def move(self, before: Arrays, after: Arrays) -> pa.Array:
        """Return the column with its old difference added to new base values; missing where either is."""
        own = self._own.carrier.read(decode_dictionary(before[self.columns[0]]))
        old, unknown = self._start_of(before)
        new, gone = self._start_of(after)
        missing = own.missing | unknown | gone | _get_unreadable_mask(own)
        moved = own.values.view(np.uint64) - old.view(np.uint64) + new.view(np.uint64)
        array = self._own.carrier.write(np.where(missing, np.uint64(0), moved), missing)
        return cast_to_stored_type(array, self._type)

    def _start_of(self, arrays: Arrays) -> tuple[NDArray[Any], Mask]:
        return self._start(decode_dictionary(arrays[self.needs[0]]))

    def _start(self, array: pa.Array) -> tuple[NDArray[Any], Mask]:
        """Return the base values in this column's integers, and a mask of missing ones."""
        reading = self._other.carrier.read(array)
        values = reading.values
        ratio = self._other.unit / self._own.unit
        if ratio >= 1:  # products are clipped to 64 bits; clipped values are outside every range
            info = np.iinfo(values.dtype)
            low, high = -(int(info.max) // int(ratio)) if info.min else 0, int(info.max) // int(ratio)
            values = np.asarray(np.clip(values, low, high) * values.dtype.type(int(ratio)))
        else:  # the base type is finer: round down to the coarser unit
            values = values // np.array(ratio.denominator // ratio.numerator, values.dtype)
        if self._own.day > 1:
            values = values // self._own.day * self._own.day
        return values, reading.missing | _get_unreadable_mask(reading)


def _get_unreadable_mask(reading: Reading) -> Mask:
    return np.zeros(len(reading.missing), bool) if reading.unreadable is None else reading.unreadable


def _subtract_modulo(values: NDArray[Any], start: NDArray[Any]) -> tuple[Ints, Ints]:
    """Compute differences modulo 2^64 of signed or unsigned integers, and the sign of those that do not fit."""
    about = values.astype(np.float64) - start.astype(np.float64)
    far = np.where(np.abs(about) > _FAR, np.sign(about), 0).astype(np.int64)
    return (values.view(np.uint64) - start.view(np.uint64)).view(np.int64), far
