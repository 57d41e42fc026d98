"""Encode dates as separate attributes for week, weekday and time of day.

Seasonal and weekly patterns are different effects, and in a marginal over all days of several years the noise hides
both. The week is ordered and can be merged to coarser codes in marginals; weekday and hour keep their few codes. Week,
weekday and time determine the timestamp, so that no impossible date is generated.
"""

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
from weft.values.bins import find_nearest, measure_roundness
from weft.values.timestamps import DAY, write_moment

MONDAY = 3
"""Days from the preceding Monday to 1 January 1970."""

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

MIN_DAYS = 28
"""Minimum length of a range that is divided into weeks."""

_CLOCK = (("hour", DAY // 24, 24), ("minute", DAY // 1440, 60))


@dataclass(frozen=True)
class Clock:
    """Storage of time in a column: in units of `unit` nanoseconds, `shift` units behind local time."""

    unit: int
    step: int
    """Nanoseconds between possible values."""
    shift: int

    @property
    def hands(self) -> list[tuple[str, int, int]]:
        """Name, length in units and number of the parts of a day that the step distinguishes."""
        return [(name, length // self.unit, size) for name, length, size in _CLOCK if self.step < length * size]


class Calendar:
    """A column of dates or timestamps, encoded as week, weekday and time of day."""

    def __init__(self, column: BinnedColumn, days: GridCoder, clock: Clock, stored: pa.DataType) -> None:
        """Initialise with the coder of days, special values and missing (in this order), and the stored type."""
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
        # Days of each week that exist, as replacements for a weekday outside the range.
        self._existing = np.argsort(self._code < 0, axis=1, kind="stable")
        self._number = (self._code >= 0).sum(axis=1)

    def labels(self) -> list[tuple[Label, ...]]:
        """Return the labels: weeks by their first and last day, weekdays, and times of day."""
        number = (self._days.bins.starts() + self._clock.shift) // self._day
        first = np.where(self._code >= 0, self._code, self._many - 1).min(axis=1)
        last = np.where(self._code >= 0, self._code, 0).max(axis=1)  # a week without days has the label of the next one
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
        """Return the codes of week, weekday, and time of day if the step distinguishes it."""
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
        """Return a timestamp with this week, weekday and time of day."""
        week, weekday, *hands = (np.asarray(part).astype(np.int64) for part in codes)
        day = week < self._weeks
        at = np.where(day, week, 0)
        # A week without days is filled by special values: the nearest week with days replaces it.
        filled = np.flatnonzero(self._number > 0)
        at = filled[find_nearest(filled, len(self._number))][at]
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
        """Return a timestamp of each day with this hour and minute, aligned to the step."""
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


PIECES = {"year": (1, 9999), "month": (1, 12), "day": (1, 31), "week": (1, 53), "week_from_sunday": (1, 54)}
"""Pieces of a date that columns may contain, with their ranges: `week` is ISO, `week_from_sunday` starts on Sundays."""

PIECES_REMEDY = (
    'pieces must name the columns of year, month and day, such as {year = "y", month = "m", day = "d"}, '
    "and may name those of week or week_from_sunday"
)


def make_a_date(pieces: Mapping[Any, Any]) -> bool:
    """Return whether pieces, with the names of their columns, determine a date."""
    known = all(piece in PIECES and isinstance(name, str) for piece, name in pieces.items())
    return known and {"year", "month", "day"} <= set(pieces) and len(set(pieces.values())) == len(pieces)
