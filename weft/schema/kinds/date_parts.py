"""Dates in parts: the week, the weekday and the time of day are attributes of their own.

Whether guests arrive on a Saturday and whether they come in August are different things, and a table over days of three
years can tell neither from noise. The week is ordered and coarse together with others; the weekday and the hour keep
their few codes. A week, a weekday and a time name one moment, so that no day can come out that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.marginals.domain import Domain, FineGrid, Order
from weft.schema.kinds.attributes import Arrays, cast_to_stored_type
from weft.schema.kinds.kind import Label, make_single_label
from weft.schema.kinds.numeric_bins import BinnedColumn, GridCoder
from weft.values.bins import measure_roundness
from weft.values.timestamps import DAY, write_moment

MONDAY = 3
"""Days from a Monday to the first of January 1970."""

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

MIN_DAYS = 28
"""A range of fewer days is not divided into weeks."""

_CLOCK = (("hour", DAY // 24, 24), ("minute", DAY // 1440, 60))


@dataclass(frozen=True)
class Clock:
    """How a column stores time: in units of `unit` nanoseconds, `shift` units behind the clock on the wall."""

    unit: int
    step: int
    """Nanoseconds between possible values."""
    shift: int

    @property
    def hands(self) -> list[tuple[str, int, int]]:
        """Name, length in units and number of the parts of a day that steps tell apart."""
        return [(name, length // self.unit, size) for name, length, size in _CLOCK if self.step < length * size]


class Calendar:
    """A column of dates or time stamps as week, weekday and time of day."""

    def __init__(self, column: BinnedColumn, days: GridCoder, clock: Clock, stored: pa.DataType) -> None:
        """Take the coder that gives each day a code, then the special values, then missing; and the column's type."""
        name = column.name
        self.columns = self.reads = (name,)
        self.needs: tuple[str, ...] = ()
        self._column, self._days, self._clock, self._stored = column, days, clock, stored
        self._day = DAY // clock.unit
        firsts = days.bins.starts()
        number = (firsts + clock.shift) // self._day + MONDAY
        self._week, self._weekday = number // 7 - int(number[0] // 7), number % 7
        self._many = days.bins.bins
        weeks = int(self._week[-1]) + 1
        apart = days.size - self._many
        none = int(apart > 0)
        sizes = [weeks + apart, 7 + none, *(size + none for _, _, size in clock.hands)]
        names = [name, f"{name} (weekday)", *(f"{name} ({hand})" for hand, _, _ in clock.hands)]
        self.domain = Domain(
            tuple(names),
            tuple(sizes),
            (
                Order(True, frozenset(range(weeks, weeks + apart))),
                Order(apart=frozenset({7} if none else ())),
                *(_hand_order(size, none) for _, _, size in clock.hands),
            ),
        )
        self._weeks = weeks
        self._code = np.full((weeks, 7), -1, np.int64)
        self._code[self._week, self._weekday] = np.arange(self._many)
        # The days of a week that exist, to choose from where the one asked for does not.
        self._existing = np.argsort(self._code < 0, axis=1, kind="stable")
        self._number = (self._code >= 0).sum(axis=1)

    def labels(self) -> list[tuple[Label, ...]]:
        """Name weeks by their days, weekdays, and times of day."""
        number = (self._days.bins.starts() + self._clock.shift) // self._day
        first = np.where(self._code >= 0, self._code, self._many - 1).min(axis=1)
        last = np.where(self._code >= 0, self._code, 0).max(axis=1)  # a week without days is named by the next one's
        weeks = [
            Label(_format_date(number[a]), _format_date(number[max(a, b)]), "bin")
            for a, b in zip(first, last, strict=True)
        ]
        apart = [
            *self._column.special_labels(str),
            *([make_single_label("missing", "missing")] if self._column.missing else []),
        ]
        none = [make_single_label("none", "missing")] if apart else []
        hands = [
            [make_single_label(f"{n:02d}:00" if hand == "hour" else f"{n} min", "bin") for n in range(size)]
            for hand, _, size in self._clock.hands
        ]
        days = [make_single_label(day, "value") for day in WEEKDAYS]
        return [(*weeks, *apart), (*days, *none), *((*hand, *none) for hand in hands)]

    def encode(self, arrays: Arrays) -> list[NDArray[np.int64]]:
        """Return week, weekday, and time of day where steps tell it."""
        array = arrays[self.columns[0]]
        codes = self._days.encode(array)
        day = codes < self._many
        inside = np.where(day, codes, 0)
        week = np.where(day, self._week[inside], codes - self._many + self._weeks)
        made = [week, np.where(day, self._weekday[inside], 7)]
        if self._clock.hands:
            values = self._days.held(array) + self._clock.shift
            made += [np.where(day, values // length % size, size) for _, length, size in self._clock.hands]
        return made

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return the day that fits, and a moment of it."""
        week, weekday, *hands = (np.asarray(part).astype(np.int64) for part in codes)
        day = week < self._weeks
        at = np.where(day, week, 0)
        # A week with no day of its own is one that special values fill: the nearest one that has days stands in.
        at = _find_nearest_filled(self._number > 0)[at]
        asked = self._code[at, np.where(weekday < 7, weekday, 0)]
        chosen = self._existing[at, rng.integers(0, self._number[at])]
        found = np.where((weekday < 7) & (asked >= 0), asked, self._code[at, chosen])
        plain = np.where(day, found, week - self._weeks + self._many)
        if not hands:
            return {self.columns[0]: cast_to_stored_type(self._days.decode(plain, rng), self._stored)}
        start = self._days.bins.starts()[found]
        start = (start + self._clock.shift) // self._day * self._day - self._clock.shift
        array = self._days.write(plain, self._moments(start, hands, rng), rng)
        return {self.columns[0]: cast_to_stored_type(array, self._stored)}

    def _moments(self, start: NDArray[np.int64], hands: list[NDArray[np.int64]], rng: Any) -> NDArray[np.int64]:
        """Return a moment of each day at this hour and minute, on the grid of steps."""
        moment = start.copy()
        least = self._day
        for (_, length, size), hand in zip(self._clock.hands, hands, strict=True):
            moment += length * np.where(hand < size, hand, rng.integers(0, size, len(hand)))
            least = length
        step = max(self._clock.step // self._clock.unit, 1)
        return self._days.bins.aligned(moment + step * rng.integers(0, max(least // step, 1), len(moment)))


def _format_date(day: int) -> str:
    return write_moment(int(day) * DAY, whole_day=True, zoned=False)


def _hand_order(size: int, none: int) -> Order:
    levels = np.append(measure_roundness(np.arange(size), np.ones(size, np.int64)), np.zeros(none, np.int64))
    grid = FineGrid(np.arange(size + none), levels, np.ones(size + none))
    return Order(True, frozenset({size} if none else ()), grid)


def _find_nearest_filled(has: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each place the nearest one that has something."""
    held = np.flatnonzero(has)
    every = np.arange(len(has))
    right = np.clip(np.searchsorted(held, every), 0, len(held) - 1)
    left = np.maximum(right - 1, 0)
    return np.where(np.abs(held[left] - every) <= np.abs(held[right] - every), held[left], held[right])


# What columns may hold of a date.

PIECES = {"year": (1, 9999), "month": (1, 12), "day": (1, 31), "week": (1, 53), "week_from_sunday": (1, 54)}
"""What columns may hold of a date, and between which ends: ISO weeks, or weeks that begin on Sundays."""

PIECES_REMEDY = (
    'pieces must name the columns of year, month and day, such as {year = "y", month = "m", day = "d"}, '
    "and may name those of week or week_from_sunday"
)


def make_a_date(pieces: Mapping[Any, Any]) -> bool:
    """Whether pieces and the names of their columns make up a date."""
    known = all(piece in PIECES and isinstance(name, str) for piece, name in pieces.items())
    return known and {"year", "month", "day"} <= set(pieces) and len(set(pieces.values())) == len(pieces)
