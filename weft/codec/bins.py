"""Codes of columns that are cut into bins: which bins a schema's column has in a given Arrow type."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.codec.policies import Outcomes
from weft.schema.columns import Binned, ColumnError, Datetime, Integer, Real
from weft.values import text
from weft.values.floats import FloatBins, equal_edges
from weft.values.grid import Grid, equal_width
from weft.values.instants import DAY, UNIT, Moment, parse_step
from weft.values.limits import DEFAULT_BINS
from weft.values.storage import (
    Carrier,
    Dates64,
    Decimals,
    Integers,
    TextIntegers,
    TextMoments,
    WholeFloats,
    decimal_array,
    floats_of,
    write_floats,
)


class Bins(Protocol):
    """What both sorts of bins tell of themselves."""

    @property
    def bins(self) -> int:
        """Number of bins with a code."""
        ...

    @property
    def size(self) -> int:
        """Number of codes."""
        ...


class GridCoder:
    """Codes of values that are exact integers in their type."""

    def __init__(self, column: Binned, grid: Grid, carrier: Carrier) -> None:
        _need_bins(column, grid)
        self._grid, self._carrier = grid, carrier
        self._clip = column.outside == "clip"
        self._outcomes = Outcomes(column, grid.size)
        self.size = self._outcomes.size

    def encode(self, array: pa.Array) -> NDArray[np.int64]:
        """Return the code of each value."""
        reading = self._carrier.read(array)
        codes = self._grid.locate(reading.values, reading.off, self._clip)
        missing = reading.missing
        if reading.unreadable is not None:
            codes[reading.unreadable] = -1
            if self._clip:
                missing = missing | reading.unreadable
        return self._outcomes.settle(codes, missing)

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """Draw a value for each code."""
        codes = codes.astype(np.int64)
        missing = self._outcomes.is_missing(codes)
        return self._carrier.write(self._grid.draw(np.where(missing, 0, codes), rng), missing)


class FloatCoder:
    """Codes of floating-point numbers, in a column of floats or of text."""

    def __init__(self, column: Real, arrow_type: pa.DataType, nan: bool) -> None:
        self._type, self._nan, self._decimals = arrow_type, nan, column.decimals
        self._clip = column.outside == "clip"
        narrow = pa.types.is_float32(arrow_type)
        low, high = column.ends
        edges = column.edges or equal_edges(low, high, int(column.bins or DEFAULT_BINS))
        top = max(abs(low), abs(high))
        most = float(np.finfo(np.float32 if narrow else np.float64).max)
        _need_fit(column, top <= most, arrow_type, "range")
        _need_fit(column, all(abs(value) <= most for value in column.special), arrow_type, "special")
        if column.decimals is not None and top * 10.0**column.decimals > 2.0**53:
            raise ColumnError(column.name, "a float cannot hold so many decimals over this range", "decimals")
        self._bins = FloatBins(edges, column.special, column.decimals, np.float32 if narrow else np.float64)
        _need_bins(column, self._bins)
        if self._bins.repeats_special:
            raise ColumnError(column.name, f"two special values are the same in the type {arrow_type}", "special")
        self._outcomes = Outcomes(column, self._bins.size)
        self.size = self._outcomes.size

    def encode(self, array: pa.Array) -> NDArray[np.int64]:
        """Return the code of each value."""
        if text.is_text(self._type):
            values, unreadable = text.read_floats(array)
        else:
            values, unreadable = floats_of(array), None
        missing = np.isnan(values) if unreadable is None else np.isnan(values) & ~unreadable
        codes = self._bins.locate(np.where(np.isnan(values), 0.0, values), self._clip)
        if unreadable is not None:
            codes[unreadable] = -1
            if self._clip:
                missing |= unreadable
        return self._outcomes.settle(codes, missing)

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """Draw a value for each code."""
        codes = codes.astype(np.int64)
        missing = self._outcomes.is_missing(codes)
        values = self._bins.draw(np.where(missing, 0, codes), rng)
        if not text.is_text(self._type):
            return write_floats(values, missing, self._type, self._nan)
        if self._decimals is not None:
            whole = np.rint(values * 10.0**self._decimals).astype(np.int64)
            if np.array_equal(whole / 10.0**self._decimals, values):  # a special value may have more digits
                return decimal_array(whole, self._decimals, missing).cast(pa.string()).cast(self._type)
        return pa.array(values, mask=missing).cast(pa.string()).cast(self._type)


def integer_coder(column: Integer, arrow_type: pa.DataType, nan: bool) -> GridCoder:
    """Return the coder of whole numbers in a column of integers, floats, decimals or text."""
    unit = 1
    carrier: Carrier
    if pa.types.is_integer(arrow_type):
        carrier = Integers(arrow_type)
    elif pa.types.is_float32(arrow_type) or pa.types.is_float64(arrow_type):
        carrier = WholeFloats(arrow_type, nan)
    elif _small_decimal(arrow_type):
        carrier, unit = Decimals(arrow_type), 10**arrow_type.scale
    elif text.is_text(arrow_type):
        carrier = TextIntegers(arrow_type)
    else:
        raise _unfit(column, arrow_type)
    low, high = column.ends
    _need_fit(column, carrier.low <= low * unit and high * unit <= carrier.high, arrow_type, "range")
    for value in column.special:
        _need_fit(column, carrier.low <= value * unit <= carrier.high, arrow_type, "special")
    edges = column.edges
    cuts = equal_width(low, high, column.step, column.bins) if edges is None else [*edges[:-1], high + 1]
    scaled = [cut * unit for cut in cuts[:-1]] + [high * unit + 1]
    special = [value * unit for value in column.special]
    return GridCoder(column, Grid(scaled, low * unit, column.step * unit, special, strict=True), carrier)


def real_coder(column: Real, arrow_type: pa.DataType, nan: bool) -> GridCoder | FloatCoder:
    """Return the coder of numbers with a fraction in a column of floats, text, decimals or integers."""
    if pa.types.is_float32(arrow_type) or pa.types.is_float64(arrow_type) or text.is_text(arrow_type):
        return FloatCoder(column, arrow_type, nan)
    carrier: Carrier
    if pa.types.is_integer(arrow_type):
        carrier, scale = Integers(arrow_type), 0
    elif _small_decimal(arrow_type):
        carrier, scale = Decimals(arrow_type), arrow_type.scale
    else:
        raise _unfit(column, arrow_type)
    low, high = (_scaled(end, scale) for end in column.ends)
    _need_fit(column, carrier.low <= low and high <= carrier.high, arrow_type, "range")
    special = [_scaled(value, scale) for value in column.special]
    for value in special:
        _need_fit(column, value.denominator == 1 and carrier.low <= value <= carrier.high, arrow_type, "special")
    if column.edges is not None:
        edges = [_scaled(edge, scale) for edge in column.edges]
    else:
        n = int(column.bins or DEFAULT_BINS)
        edges = [low + (high - low) * i / n for i in range(n)]
    digits = scale if column.decimals is None else min(column.decimals, scale)
    step = 10 ** (scale - digits)
    # A bin holds the integers from its left edge, rounded up, to before the next one's.
    cuts = [math.ceil(edge) for edge in edges[: len(edges) - (column.edges is not None)]] + [math.floor(high) + 1]
    origin = cuts[0] // step * step
    return GridCoder(column, Grid(cuts, origin, step, [int(value) for value in special], strict=False), carrier)


def datetime_coder(column: Datetime, arrow_type: pa.DataType) -> GridCoder:
    """Return the coder of days and moments in a column of dates, time stamps or text."""
    carrier: Carrier
    zone: str | None = None
    if text.is_text(arrow_type):
        form = column.format or ("%Y-%m-%d" if column.plain_date else "%Y-%m-%d %H:%M:%S")
        carrier, unit, day = TextMoments(arrow_type, form), UNIT["s"], column.plain_date
    elif pa.types.is_date(arrow_type):
        carrier = Integers(arrow_type) if pa.types.is_date32(arrow_type) else Dates64(arrow_type)
        unit, day = DAY, True
    elif pa.types.is_timestamp(arrow_type):
        carrier, unit, day, zone = Integers(arrow_type), UNIT[arrow_type.unit], False, arrow_type.tz
    else:
        raise _unfit(column, arrow_type)
    if column.timezone is not None and zone is None:
        raise ColumnError(column.name, f"its type {arrow_type} has no time zone; remove timezone", "timezone")
    step = parse_step(column.step) if column.step else DAY if day else UNIT["s"]
    if step % unit:
        raise ColumnError(column.name, f"step is finer than its type {arrow_type}; take a coarser one", "step")
    try:
        cuts, special = _datetime_cuts(column, zone or None, unit, step // unit)
    except ValueError as error:
        raise ColumnError(column.name, f"{error}", "range") from None
    _need_fit(column, carrier.low <= cuts[0] and cuts[-1] - 1 <= carrier.high, arrow_type, "range")
    for value in special:
        _need_fit(column, carrier.low <= value <= carrier.high, arrow_type, "special")
    grid = Grid(cuts, cuts[0], step // unit, special, strict=True)
    if isinstance(carrier, TextMoments):
        steps = (cuts[-1] - 1 - cuts[0]) * unit // step
        _check_format(column, carrier, [cuts[0] + i * step // unit for i in {0, min(1, steps), steps}] + special)
    return GridCoder(column, grid, carrier)


def _datetime_cuts(column: Datetime, zone: str | None, unit: int, step: int) -> tuple[list[int], list[int]]:
    zone = column.timezone or zone

    def start(value: str) -> int:
        return -(-Moment.parse(value).instant(zone) // unit)

    def end(value: str) -> int:
        moment = Moment.parse(value)
        if not moment.whole_day:
            return moment.instant(zone) // unit
        return (Moment(moment.nanoseconds + DAY, True).instant(zone) - 1) // unit

    low, high = column.ends
    last = start(low) + (end(high) - start(low)) // step * step
    if last < start(low):
        raise ValueError("range holds no value of its type; widen it")
    special = [start(value) for value in column.special]
    if column.edges is None:
        return equal_width(start(low), last, step, column.bins), special
    cuts = [*(start(edge) for edge in column.edges[:-1]), end(high) + 1]
    if cuts != sorted(cuts):
        raise ValueError("two edges change places when the clock does; move one of them")
    return cuts, special


def _check_format(column: Datetime, carrier: TextMoments, sample: list[int]) -> None:
    held = np.array(sample, dtype=np.int64)
    none = np.zeros(len(held), dtype=bool)
    back = carrier.read(carrier.write(held.view(np.uint64), none))
    if back.unreadable is None or back.unreadable.any() or not np.array_equal(back.values, held):
        raise ColumnError(
            column.name, "format loses part of the values; take a coarser step or a fuller format", "format"
        )


def _scaled(value: float, scale: int) -> Fraction:
    return Fraction(Decimal(repr(value))) * Fraction(10) ** scale


def _small_decimal(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(arrow_type) and arrow_type.bit_width <= 128 and 0 <= arrow_type.scale <= 18)


def _need_bins(column: Binned, bins: Bins) -> None:
    if bins.bins == 0:
        raise ColumnError(column.name, "special leaves no value in range; declare a category instead", "special")


def _need_fit(column: Binned, fits: bool, arrow_type: pa.DataType, key: str) -> None:
    if not fits:
        raise ColumnError(column.name, f"{key} reaches beyond what its type {arrow_type} holds exactly", key)


def _unfit(column: Binned, arrow_type: pa.DataType) -> ColumnError:
    return ColumnError(column.name, f"kind {column.kind} does not fit its type {arrow_type}", "kind")
