"""A column counted from another one: what is learned is the difference, so that their order can never be broken.

Whoever leaves comes first, and how long people stay hangs on other things than when they came. The difference of a row
is that of its own two values, so that a row still adds one to one cell of every table.
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
from weft.schema.kinds.attributes import Arrays, dictionary_array, name_column_codes
from weft.schema.kinds.kind import Column, ColumnError, Label, Policies, suggest_known_word
from weft.schema.kinds.numeric_bins import BinnedColumn, Scale
from weft.values.storage import Reading, decode_dictionary
from weft.values.timestamps import DAY, Moment

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_FAR = 2.0**62  # differences beyond this are outside every range, and would not fit 64 bits


def make_difference(column: BinnedColumn, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]) -> Difference:
    """Return the difference of a column to the one that it comes after; ColumnError if they do not go together."""
    base = _find_base_column(column, columns)
    if base.missing and not column.missing:
        raise ColumnError(
            column.name, f'"{base.name}" may be missing, and then so is this column: set missing = true', "missing"
        )
    field = fields[column.name]
    own, other = _get_scale(column, field), _get_scale(base, fields[base.name])
    if own.time != other.time:
        raise ColumnError(
            column.name, f'a column of kind {column.kind} cannot come after "{base.name}", a {base.kind}', "after"
        )
    if own.zone != other.zone and not (own.zone and other.zone):
        raise ColumnError(
            column.name,
            f'one of it and "{base.name}" has a time zone and the other has none; store both alike',
            "after",
        )
    if own.day and own.zone and own.zone.upper() not in ("UTC", "GMT", "Z", "ETC/UTC"):
        raise ColumnError(
            column.name, "its type has a time zone, where days differ in length; count in hours: set step", "step"
        )
    if not own.time and (other.grain / own.unit).denominator != 1:
        raise ColumnError(
            column.name, f'it has fewer digits after the point than "{base.name}", which it comes after', "after"
        )
    return Difference(column, base, field.type, (own, other), bounds_of(column, columns))


def _find_base_column(column: BinnedColumn, columns: Mapping[str, Column]) -> BinnedColumn:
    """Return the column that this one comes after, or say why there is none."""
    seen, at = [column.name], column
    while at.after is not None:
        base = columns.get(at.after)
        if base is None:
            near = suggest_known_word(at.after, columns) or " Name a column of the schema."
            raise ColumnError(at.name, f'after names "{at.after}", which is no column.{near}', "after")
        if base.name in seen:
            listed = ", ".join(f'"{name}"' for name in seen)
            raise ColumnError(column.name, f"{listed} come after one another in a circle; leave one after out", "after")
        if not isinstance(base, BinnedColumn) or type(base).scale is BinnedColumn.scale:
            raise ColumnError(at.name, f'after must name a date or a number; "{base.name}" is a {base.kind}', "after")
        seen.append(base.name)
        at = base
    base = columns[column.after or ""]
    assert isinstance(base, BinnedColumn)
    return base


def _get_scale(column: BinnedColumn, field: pa.Field) -> Scale:
    arrow_type = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return column.scale(arrow_type, nan=not field.nullable)


def bounds_of(column: BinnedColumn, columns: Mapping[str, Column]) -> tuple[Fraction, Fraction]:
    """Return the lowest and highest value that a column can have, from the schema alone; moments in nanoseconds."""
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
    """A column as the difference to another."""

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
            raise ColumnError(
                name, f'range, counted from "{base.name}", reaches beyond what its type {arrow_type} holds', "range"
            )
        column.check_span(self._own, low, high)
        self._policies = Policies(column, self._bins.size)
        size = self._policies.size
        self.domain = Domain((name,), (size,), (column.order_of(self._bins, size),))

    def labels(self) -> list[tuple[Label, ...]]:
        """Name every difference."""
        stored = self._type.value_type if pa.types.is_dictionary(self._type) else self._type
        return [name_column_codes(self._column, stored, self._policies.size)]

    def encode(self, arrays: Arrays) -> list[Ints]:
        """Return the code of each difference; missing where the column or the one it comes after is."""
        own = self._own.carrier.read(arrays[self.columns[0]])
        start, unknown = self._start(arrays[self.needs[0]])
        missing = own.missing
        lost = _get_unreadable_mask(own)
        if self._clip:
            missing = missing | unknown | lost
        elif (unknown & ~missing).any():
            raise DataError(
                f'column "{self.columns[0]}": a value stands where "{self.needs[0]}" is missing. '
                'Set outside = "clip" to count it as missing'
            )
        gap, far = _subtract_modulo(own.values, start)
        gap = np.where(far != 0, far * np.int64(_FAR), gap)
        codes = self._bins.locate(gap, own.off, self._clip)
        codes[lost] = -1
        return [self._policies.settle(codes, missing)]

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return the other column's value and a difference added up; missing where it is."""
        drawn = np.asarray(codes[0]).astype(np.int64)
        missing = self._policies.is_missing(drawn)
        gap = self._bins.draw(np.where(missing, 0, drawn), rng)
        start, unknown = self._start_of(made)
        array = self._own.carrier.write(np.where(unknown, np.uint64(0), start.view(np.uint64) + gap), missing | unknown)
        stored = dictionary_array(array, self._type) if pa.types.is_dictionary(self._type) else array
        return {self.columns[0]: stored}

    def fits(self, arrays: Arrays) -> Mask:
        """Return which rows have a difference inside its range, or a missing value that the schema allows."""
        own, (start, unknown) = (
            self._own.carrier.read(decode_dictionary(arrays[self.columns[0]])),
            self._start_of(arrays),
        )
        gap, far = _subtract_modulo(own.values, start)
        inside = (self._bins.locate(gap, own.off, clip=False) >= 0) & (far == 0) & ~unknown & ~_get_unreadable_mask(own)
        return np.asarray(np.where(own.missing, self._column.missing, inside), dtype=bool)

    def move(self, before: Arrays, after: Arrays) -> pa.Array:
        """Return the column at its old distance from the other column's new values; missing where either is."""
        own = self._own.carrier.read(decode_dictionary(before[self.columns[0]]))
        old, unknown = self._start_of(before)
        new, gone = self._start_of(after)
        missing = own.missing | unknown | gone | _get_unreadable_mask(own)
        moved = own.values.view(np.uint64) - old.view(np.uint64) + new.view(np.uint64)
        array = self._own.carrier.write(np.where(missing, np.uint64(0), moved), missing)
        return dictionary_array(array, self._type) if pa.types.is_dictionary(self._type) else array

    def _start_of(self, arrays: Arrays) -> tuple[NDArray[Any], Mask]:
        return self._start(decode_dictionary(arrays[self.needs[0]]))

    def _start(self, array: pa.Array) -> tuple[NDArray[Any], Mask]:
        """Return the values of the column that this one comes after, in its own integers, and which are missing."""
        reading = self._other.carrier.read(array)
        values = reading.values
        ratio = self._other.unit / self._own.unit
        if ratio >= 1:
            values = _multiply_saturating(values, int(ratio))
        else:  # a finer type: what both can tell
            values = values // np.array(ratio.denominator // ratio.numerator, values.dtype)
        if self._own.day > 1:
            values = values // self._own.day * self._own.day
        return values, reading.missing | _get_unreadable_mask(reading)


def _get_unreadable_mask(reading: Reading) -> Mask:
    return np.zeros(len(reading.missing), bool) if reading.unreadable is None else reading.unreadable


def _multiply_saturating(values: NDArray[Any], factor: int) -> NDArray[Any]:
    """Return products that fit 64 bits; what would not, and so lies outside every range, is held at their ends."""
    info = np.iinfo(values.dtype)
    low, high = -(int(info.max) // factor) if info.min else 0, int(info.max) // factor
    return np.asarray(np.clip(values, low, high) * values.dtype.type(factor))


def _subtract_modulo(values: NDArray[Any], start: NDArray[Any]) -> tuple[Ints, Ints]:
    """Return differences modulo 2^64, and the sign of those that do not fit: signed and unsigned integers alike."""
    about = values.astype(np.float64) - start.astype(np.float64)
    far = np.where(np.abs(about) > _FAR, np.sign(about), 0).astype(np.int64)
    return (values.view(np.uint64) - start.view(np.uint64)).view(np.int64), far
