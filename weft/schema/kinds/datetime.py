"""Date and timestamp columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.marginals.domain import FineGrid
from weft.schema.kinds.attributes import AttributePart
from weft.schema.kinds.date_parts import MIN_DAYS, PIECES_REMEDY, Calendar, Clock, make_a_date
from weft.schema.kinds.draft_facts import MAX_CATEGORY_INTEGERS, ColumnEvidence, Guess
from weft.schema.kinds.integer import common_step
from weft.schema.kinds.kind import Column, ColumnError, Label
from weft.schema.kinds.numeric_bins import BinnedColumn, Bins, GridCoder, Scale
from weft.schema.kinds.time_bins import TIME_REMEDY, keeps_values, make_spans, span_grid
from weft.values.bins import EACH_CODE, BinGrid, equal_width
from weft.values.storage import Carrier, Dates64, DayNumbers, Integers
from weft.values.text_columns import TextMoments
from weft.values.text_numbers import is_text, read_moments
from weft.values.timestamps import (
    DAY,
    UNIT,
    Moment,
    is_known_zone,
    name_span,
    name_step,
    parse_span,
    parse_step,
    write_moment,
)

EPOCHS = {"epoch": UNIT["s"], "epoch_ms": UNIT["ms"]}
"""Formats of integers that count time since 1970, with their unit in nanoseconds."""


def check_formats(column: Datetime) -> None:
    """Validate `format`, and `other_formats`, which require it."""
    form = column.format
    if form is not None and not (isinstance(form, str) and ("%" in form or form in EPOCHS)):
        raise ColumnError(column.name, 'format must be a strptime format ("%d/%m/%Y"), "epoch" or "epoch_ms"', "format")
    object.__setattr__(column, "other_formats", tuple(column.other_formats))
    if column.other_formats and column.text_format is None:
        raise ColumnError(column.name, "other_formats requires format, in which released values are written", "format")
    if not all(isinstance(each, str) and "%" in each for each in column.other_formats):
        told = 'other_formats must list strptime formats, such as ["%d/%m/%Y"]'
        raise ColumnError(column.name, told, "other_formats")


DAY_NUMBER = "%Y%m%d"
"""Format of dates that are written as one integer."""

_NATURAL_STEPS = ("7d", "1d", "1h", "30min", "15min", "1min", "1s", "1ms", "1us", "1ns")
_YEARS = (1800, 2200)  # eight-digit integers that a draft recognises as dates
_FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y")


def date_format(words: pa.Array) -> str | None:
    """Return the common format in which all texts are dates; None if there is none."""
    for form in _FORMATS:
        moments = read_moments(words, form)
        if (
            moments.null_count == 0
            and pc.all(pc.equal(pc.strftime(moments, format=form), words.cast("string"))).as_py()
        ):
            return form
    return None


def day_numbers(values: pa.Array) -> Guess | None:
    """Recognise integers that are all dates between 1800 and 2199, written yyyymmdd."""
    ends = pc.min_max(values)
    if not _YEARS[0] * 10_000 <= ends["min"].as_py() <= ends["max"].as_py() < _YEARS[1] * 10_000:
        return None
    reading = DayNumbers(values.type).read(values)
    if reading.unreadable is None or reading.unreadable.any():
        return None
    entry = guess_moments(pa.array(reading.values.astype(np.int32)).cast(pa.date32())).entry
    told = {"format": DAY_NUMBER, "type": str(values.type)}
    return Guess(entry | told, "Whole numbers that are all dates, written yyyymmdd.")


def guess_moments(values: pa.Array) -> Guess:
    """Return the draft entry of a column of dates or timestamps."""
    date32, stamp = pa.types.is_date32(values.type), pa.types.is_timestamp(values.type)
    unit = DAY if date32 else UNIT[values.type.unit] if stamp else UNIT["ms"]
    zoned = stamp and values.type.tz is not None
    if not len(values):
        return Guess(
            {"kind": "datetime", "range": ["2000-01-01", "2029-12-31"]}, "No value was seen: declare the range."
        )
    different = np.unique(values.cast(pa.int32() if date32 else pa.int64()).to_numpy())
    low, high = int(different[0]) * unit, int(different[-1]) * unit
    common = common_step(different.astype(np.int64)) * unit if len(different) > 1 else math.gcd(low, DAY)
    step = next(size for size in map(parse_step, _NATURAL_STEPS) if common % size == 0)
    days = not zoned and low % DAY == 0 and step % DAY == 0
    entry = {
        "kind": "datetime",
        "range": [write_moment(low, days, zoned), write_moment(high, days, zoned)],
        "step": name_step(step),
    }
    return Guess(entry, "Dates." if days else "Moments.")


@dataclass(frozen=True)
class Datetime(BinnedColumn):
    """A date or a timestamp. An upper end that is a plain date includes that whole day."""

    step: str | None = field(default=None, kw_only=True)
    """Time between possible values, such as "1d", "1h", "15min", "1s", "1ms" (default: 1d for plain dates, else 1s)."""
    timezone: str | None = field(default=None, kw_only=True)
    """Time zone of range, edges and special (default: that of the column's type)."""
    format: str | None = field(default=None, kw_only=True)
    """Format of a text column, as for strptime, such as "%d/%m/%Y"; or of an integer column: "%Y%m%d", "epoch" for
    seconds since 1970, "epoch_ms" for milliseconds."""
    other_formats: tuple[str, ...] = field(default=(), kw_only=True)
    """Further formats of a text column; each value is read in the first format that fits and written in `format`."""
    date: bool | None = field(default=None, kw_only=True)
    """Whether text and CSV contain plain dates (default: yes if the ends are plain dates and steps are whole days)."""
    pieces: tuple[tuple[str, str], ...] | Mapping[str, str] | None = field(default=None, kw_only=True)
    """Columns of the year, month, day and optional week, if the table has these instead of the date."""

    kind: ClassVar[str] = "datetime"
    rounded: ClassVar[bool] = False
    outside_remedy = TIME_REMEDY
    flipped: ClassVar[tuple[str, ...]] = ("range", "step", "format", "missing", "outside")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_pieces()
        self._need(self.date is None or isinstance(self.date, bool), "date must be true or false", "date")
        check_formats(self)
        try:
            parse_step("1s" if self.step is None else self.step)
        except ValueError:
            told = 'step must be a duration such as "1d", "1h", "15min", "1s" or "1ms"'
            raise ColumnError(self.name, told, "step") from None
        self._need(
            self.timezone is None or (isinstance(self.timezone, str) and is_known_zone(self.timezone)),
            'timezone must be a known time zone such as "Europe/Berlin"',
            "timezone",
        )

    def _check_pieces(self) -> None:
        if self.pieces is None:
            return
        given = dict(self.pieces)
        self._need(make_a_date(given), PIECES_REMEDY, "pieces")
        plain = self.after is None and self.format is None and self.edges is None and self.bins is None
        self._need(plain and self.plain_date, "a date in pieces needs a range of plain dates and no format", "pieces")
        self._set(pieces=tuple(given.items()))

    @property
    def in_table(self) -> bool:
        """Whether the table contains this column; not if it has the pieces instead."""
        return self.pieces is None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, the pieces as a table."""
        entry = super().to_dict()
        return entry if self.pieces is None else entry | {"pieces": dict(self.pieces)}

    def _member(self, value: Any, key: str) -> str | int:
        if self.after is not None:
            try:
                parse_span(value)
            except ValueError:
                raise ColumnError(self.name, f'{key} must contain durations such as "0d", "36h"', key) from None
            return int(value) if isinstance(value, int) else str(value)
        try:
            Moment.parse(value)
        except (ValueError, TypeError):
            raise ColumnError(
                self.name, f'{key} must contain dates such as "2013-01-31" or "2013-01-31 18:30:00"', key
            ) from None
        return str(value)

    def place(self, value: Any) -> int:
        """Return nanoseconds since 1970 in local time, or between the base column and this one."""
        return Moment.parse(value).nanoseconds if self.after is None else parse_span(value)

    @property
    def plain_date(self) -> bool:
        """Whether text and CSV contain plain dates."""
        if self.date is not None:
            return self.date
        given = (*(self.range or ()), *(self.edges or ()))
        if self.after is not None:
            plain = all(parse_span(value) % DAY == 0 for value in given)
        else:
            plain = all(Moment.parse(value).whole_day for value in given)
        return plain and (self.step is None or parse_step(self.step) % parse_step("1d") == 0)

    @property
    def text_format(self) -> str | None:
        """Declared format of text."""
        return None if self._numbers else self.format

    @property
    def text_formats(self) -> tuple[str, ...]:
        """Declared formats of text; the first one is used for writing."""
        return () if self.text_format is None else (self.text_format, *self.other_formats)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Formats of a text column, by default ISO dates or timestamps."""
        plain = "%Y-%m-%d" if self.plain_date else "%Y-%m-%d %H:%M:%S"
        return self.text_formats or (self.format or plain,)

    @property
    def _numbers(self) -> bool:
        """Whether the schema declares that values are stored as integers."""
        return self.format in EPOCHS or (self.type is not None and pa.types.is_integer(self.arrow_type()))

    def plain_type(self) -> pa.DataType:
        """Return text if a format is declared, dates for plain dates, otherwise timestamps that fit the step."""
        if self.format in EPOCHS:
            return pa.int64()
        if self.format is not None:
            return pa.string()  # remains text and is written in the same format
        if self.plain_date:
            return pa.date32()
        step = parse_step(self.step or "1s")
        return pa.timestamp(next(unit for unit, size in UNIT.items() if step % size == 0), self.timezone)

    def coder(self, arrow_type: pa.DataType, nan: bool) -> GridCoder:
        """Return the coder for dates, timestamps, text or integers."""
        return self._coder(arrow_type, daily=False)[0]

    def part(self, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]) -> AttributePart:
        """Return a part with separate attributes for week, weekday and time of day if the range is long enough."""
        if self.after is not None:
            return super().part(fields, columns)
        stored = fields[self.name].type
        arrow_type = stored.value_type if pa.types.is_dictionary(stored) else stored
        low, high = (Moment.parse(end).nanoseconds for end in self.ends)
        days = (high - low) // DAY
        plain = self.bins is None and self.edges is None
        if not plain or not MIN_DAYS <= days < EACH_CODE:
            return super().part(fields, columns)
        coder, clock = self._coder(arrow_type, daily=True)
        return super().part(fields, columns) if clock.step > DAY else Calendar(self, coder, clock, stored)

    def scale(self, arrow_type: pa.DataType, nan: bool = False) -> Scale:
        """Return how dates, timestamps, text or integers hold the values as integers."""
        carrier: Carrier
        zone: str | None = None
        day = self.plain_date
        if is_text(arrow_type) and self.format not in EPOCHS:
            carrier, unit = TextMoments(arrow_type, self.spellings), UNIT["s"]
        elif pa.types.is_date(arrow_type):
            carrier = Integers(arrow_type) if pa.types.is_date32(arrow_type) else Dates64(arrow_type)
            unit, day = DAY, True
        elif pa.types.is_timestamp(arrow_type):
            # In a timestamp column, plain dates are midnights, as in pandas.
            carrier, unit, zone = Integers(arrow_type), UNIT[arrow_type.unit], arrow_type.tz
        elif pa.types.is_integer(arrow_type) and self.format == DAY_NUMBER:
            carrier, unit, day = DayNumbers(arrow_type), DAY, True
        elif pa.types.is_integer(arrow_type) and self.format in EPOCHS:
            carrier, unit = Integers(arrow_type), EPOCHS[self.format or ""]
        else:
            raise self.unfit(arrow_type)
        if self.timezone is not None and zone is None:
            raise ColumnError(self.name, f"its type {arrow_type} has no time zone; remove timezone", "timezone")
        if self._step(day) % unit:
            raise ColumnError(self.name, f"step is finer than its type {arrow_type}; set a coarser step", "step")
        starts = DAY // unit if day and self._step(day) % DAY == 0 else 0
        return Scale(carrier, Fraction(unit), Fraction(unit), True, zone, starts)

    def _step(self, day: bool) -> int:
        return parse_step(self.step) if self.step else DAY if day else UNIT["s"]

    def gaps(self, scale: Scale) -> BinGrid:
        """Compute the bins of the time since the base column."""
        try:
            return make_spans(self, self._step(scale.day > 0)).grid(int(scale.unit))
        except ValueError as error:
            raise ColumnError(self.name, f"{error}", "range") from None

    def check_span(self, scale: Scale, low: int, high: int) -> None:
        """Validate that the text format preserves the values."""
        if isinstance(scale.carrier, TextMoments):
            step = self._step(scale.day > 0) // int(scale.unit)
            day = scale.day or 1
            self.check_format(scale.carrier, [end // day * day for end in (low, low + step, high)])

    def _grid(self, bins: Bins, size: int) -> FineGrid:
        if self.after is None:
            return super()._grid(bins, size)
        return span_grid(bins, size, self._step(self.plain_date))

    def _coder(self, arrow_type: pa.DataType, daily: bool) -> tuple[GridCoder, Clock]:
        scale = self.scale(arrow_type)
        carrier, unit, zone = scale.carrier, int(scale.unit), scale.zone
        step = self._step(unit == DAY or self.plain_date)
        shift = self._shift(zone) // unit
        try:
            cuts, special = self._cuts(zone or None, unit, step // unit, shift if daily else None)
        except ValueError as error:
            raise ColumnError(self.name, f"{error}", "range") from None
        self.need_fit(carrier.low <= cuts[0] and cuts[-1] - 1 <= carrier.high, arrow_type, "range")
        for value in special:
            self.need_fit(carrier.low <= value <= carrier.high, arrow_type, "special")
        grid = BinGrid(cuts, cuts[0], step // unit, special, strict=True)
        if isinstance(carrier, TextMoments):
            steps = (cuts[-1] - 1 - cuts[0]) * unit // step
            self.check_format(carrier, [cuts[0] + i * step // unit for i in {0, min(1, steps), steps}] + special)
        return GridCoder(self, grid, carrier), Clock(unit, step, shift)

    def _shift(self, zone: str | None) -> int:
        """Return the offset of local time from stored time at the start of the range, in nanoseconds."""
        low = Moment.parse(self.ends[0])
        zone = self.timezone or zone
        return 0 if zone is None or low.zoned else low.nanoseconds - low.instant(zone)

    def _cuts(self, zone: str | None, unit: int, step: int, shift: int | None) -> tuple[list[int], list[int]]:
        """Compute the cuts of the bins (with a `shift`, of the days in local time), and the special values."""
        zone = self.timezone or zone

        def start(value: str) -> int:
            return -(-Moment.parse(value).instant(zone) // unit)

        def end(value: str) -> int:
            moment = Moment.parse(value)
            if not moment.whole_day:
                return moment.instant(zone) // unit
            return (Moment(moment.nanoseconds + DAY, True).instant(zone) - 1) // unit

        low, high = self.ends
        last = start(low) + (end(high) - start(low)) // step * step
        if last < start(low):
            raise ValueError("range contains no value of its type; widen it")
        special = [start(value) for value in self.special]
        if self.edges is None:
            day = DAY // unit
            apart = last - start(low)
            each = self.bins is not None or apart // step < EACH_CODE or apart // day >= EACH_CODE
            if shift is None and each:
                return equal_width(start(low), last, step, self.bins), special
            midnight = (start(low) + (shift or 0)) // day * day - (shift or 0)
            return [start(low), *range(midnight + day, last + 1, day), last + 1], special
        cuts = [*(start(edge) for edge in self.edges[:-1]), end(high) + 1]
        if cuts != sorted(cuts):
            raise ValueError("two edges swap at a daylight saving change; move one of them")
        return cuts, special

    def check_format(self, carrier: Carrier, sample: list[int]) -> None:
        """Validate that the text format preserves these values."""
        told = "format loses part of a value; set a coarser step or full format"
        self._need(keeps_values(carrier, sample), told, "format")

    def labels(self, arrow_type: pa.DataType, size: int) -> list[Label]:
        """Return the labels of the bins in local time; a daylight saving change may shift an edge by an hour."""
        if self.after is not None:
            spans = make_spans(self, self._step(self.plain_date))
            return spans.labels(name_span) + self.special_labels(lambda value: name_span(parse_span(value)))
        texts = [self.ends[0], self.ends[1]] if self.edges is None else list(self.edges)
        moments = [Moment.parse(text) for text in texts]
        end = moments[-1].nanoseconds + (DAY if moments[-1].whole_day else 1)
        day = pa.types.is_date(arrow_type) or self.plain_date
        step = parse_step(self.step) if self.step else DAY if day else parse_step("1s")
        if self.edges is None:
            low = moments[0].nanoseconds
            cuts = equal_width(low, low + (end - 1 - low) // step * step, step, self.bins)
            cuts[-1] = end
        else:
            cuts = [*(moment.nanoseconds for moment in moments[:-1]), end]
        whole = day or all(cut % DAY == 0 for cut in cuts)
        back = DAY if whole else step
        ends = [(a, a + (b - 1 - a) // back * back) for a, b in pairwise(cuts)]
        bins = [Label(_clock_at(first, whole), _clock_at(last, whole), "bin") for first, last in ends]
        return bins + self.special_labels(str)

    @classmethod
    def recognise(cls, evidence: ColumnEvidence) -> Guess | None:
        """Recognise dates, timestamps, and text or integers that are all dates in a common format."""
        if pa.types.is_date(evidence.type) or pa.types.is_timestamp(evidence.type):
            return guess_moments(evidence.values)
        if is_text(evidence.type) and len(evidence.values) and len(evidence.different) > MAX_CATEGORY_INTEGERS:
            form = date_format(evidence.different)
            if form is not None:
                entry = guess_moments(read_moments(evidence.values, form)).entry
                return Guess({**entry, "format": form}, f"Text that contains dates in the format {form}.")
        if pa.types.is_integer(evidence.type) and len(evidence.values):
            return day_numbers(evidence.values)
        return None


def _clock_at(nanoseconds: int, whole_day: bool) -> str:
    text = write_moment(nanoseconds, whole_day, zoned=False)
    return text if whole_day else text.removesuffix(":00")
