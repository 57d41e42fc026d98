"""What a draft makes of dates, time stamps, and text or whole numbers that look like dates."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.schema.kinds.evidence import Guess
from weft.schema.kinds.integer import common_step
from weft.values.instants import DAY, UNIT, name_step, parse_step, write_moment
from weft.values.storage import DayNumbers
from weft.values.text import read_moments

DAY_NUMBER = "%Y%m%d"
"""The format of days that are written as one whole number."""

_NATURAL_STEPS = ("7d", "1d", "1h", "30min", "15min", "1min", "1s", "1ms", "1us", "1ns")
_YEARS = (1800, 2200)  # whole numbers of eight digits that a draft takes for days
_FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y")


def date_format(words: pa.Array) -> str | None:
    """Return the usual format in which all texts are dates; None if there is none."""
    for form in _FORMATS:
        moments = read_moments(words, form)
        if (
            moments.null_count == 0
            and pc.all(pc.equal(pc.strftime(moments, format=form), words.cast("string"))).as_py()
        ):
            return form
    return None


def day_numbers(values: pa.Array) -> Guess | None:
    """Take whole numbers that are all days of these years, written yyyymmdd."""
    ends = pc.min_max(values)
    if not _YEARS[0] * 10_000 <= ends["min"].as_py() <= ends["max"].as_py() < _YEARS[1] * 10_000:
        return None
    reading = DayNumbers(values.type).read(values)
    if reading.unreadable is None or reading.unreadable.any():
        return None
    entry = moments(pa.array(reading.values.astype(np.int32)).cast(pa.date32())).entry
    told = {"format": DAY_NUMBER, "type": str(values.type)}
    return Guess(entry | told, "Whole numbers that are all days, written yyyymmdd.")


def moments(values: pa.Array) -> Guess:
    """Return the entry of a column of dates or time stamps."""
    date32, stamp = pa.types.is_date32(values.type), pa.types.is_timestamp(values.type)
    unit = DAY if date32 else UNIT[values.type.unit] if stamp else UNIT["ms"]
    zoned = stamp and values.type.tz is not None
    if not len(values):
        return Guess({"kind": "datetime", "range": ["2000-01-01", "2029-12-31"]}, "No value was seen: give the range.")
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
