"""Time-of-day columns."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.schema.kinds.draft_facts import ColumnEvidence, Guess
from weft.schema.kinds.integer import common_step
from weft.schema.kinds.kind import ColumnError
from weft.schema.kinds.numeric_bins import GridCoder
from weft.schema.kinds.time_bins import Spanned, keeps_values
from weft.values.storage import Carrier, Integers
from weft.values.text_columns import TextTimes
from weft.values.text_numbers import is_text
from weft.values.timestamps import DAY, UNIT, name_step, name_time, parse_step, parse_time

_WRITTEN = r"^([01][0-9]|2[0-3]):[0-5][0-9]%s$"
_STEPS = ("1h", "30min", "15min", "5min", "1min", "1s", "1ms", "1us", "1ns")


@dataclass(frozen=True)
class Time(Spanned):
    """A time of day, from midnight to midnight."""

    step: str = field(default="1min", kw_only=True)
    """Time between possible values, such as "1min", "15min" or "1s"."""
    format: str | None = field(default=None, kw_only=True)
    """Format of a text column, as for strptime, such as "%H:%M"."""

    kind: ClassVar[str] = "time"
    outside_remedy = 'a value lies outside the schema. Widen range, refine step, or set outside = "clip"'
    flipped: ClassVar[tuple[str, ...]] = ("range", "step", "format", "missing", "outside")

    def __post_init__(self) -> None:
        try:
            step = parse_step(self.step)
        except ValueError:
            step = 0
        if not 0 < step <= DAY // 2:
            raise ColumnError(self.name, 'step must be a duration such as "15min", "1min" or "1s"', "step")
        if self.range is None and self.edges is None:
            self._set(range=(name_time(0), name_time((DAY - 1) // step * step)))
        super().__post_init__()
        self._need(self.after is None, "after is invalid for a time of day; use it for dates and numbers", "after")
        self._need(
            self.format is None or (isinstance(self.format, str) and "%" in self.format),
            'format must be a strptime format, such as "%H:%M"',
            "format",
        )

    def _member(self, value: Any, key: str) -> str:
        try:
            parse_time(value)
        except ValueError:
            raise ColumnError(self.name, f'{key} must contain times of day such as "08:30"', key) from None
        return str(value)

    def place(self, value: Any) -> int:
        """Return nanoseconds since midnight."""
        return parse_time(value)

    @property
    def text_format(self) -> str | None:
        """Declared format of text."""
        return self.format

    def plain_type(self) -> pa.DataType:
        """Return text if a format is declared, otherwise a time type that fits the step."""
        if self.format is not None:
            return pa.string()
        unit = next(unit for unit, size in UNIT.items() if parse_step(self.step) % size == 0)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)

    def coder(self, arrow_type: pa.DataType, nan: bool) -> GridCoder:
        """Return the coder for times or text."""
        carrier: Carrier
        if is_text(arrow_type):
            whole = parse_step(self.step) % parse_step("1min") == 0
            plain = ("%H:%M", "%H:%M:%S") if whole else ("%H:%M:%S", "%H:%M")
            carrier, unit = TextTimes(arrow_type, plain if self.format is None else (self.format,)), UNIT["s"]
        elif pa.types.is_time(arrow_type):
            carrier, unit = Integers(arrow_type), UNIT[arrow_type.unit]
        else:
            raise self.unfit(arrow_type)
        grid = self.units(arrow_type, unit)
        sample = [grid.low, min(grid.low + parse_step(self.step) // unit, grid.high)]
        kept = not isinstance(carrier, TextTimes) or keeps_values(carrier, sample)
        self._need(kept, "format loses part of the times; declare a full one", "format")
        return GridCoder(self, grid, carrier)

    @classmethod
    def write(cls, held: int) -> str:
        """Format nanoseconds as in a schema file."""
        return name_time(held)

    @classmethod
    def recognise(cls, evidence: ColumnEvidence) -> Guess | None:
        """Recognise times of day, also in text."""
        if pa.types.is_time(evidence.type):
            return Guess(
                _make_time_entry(Integers(evidence.type), UNIT[evidence.type.unit], evidence.values), "Times of day."
            )
        if is_text(evidence.type) and len(evidence.values):
            for form, seconds in (("%H:%M", ""), ("%H:%M:%S", ":[0-5][0-9]")):
                if pc.all(pc.match_substring_regex(evidence.different, _WRITTEN % seconds)).as_py():
                    entry = _make_time_entry(TextTimes(evidence.type, (form,)), UNIT["s"], evidence.values)
                    return Guess(entry | {"format": form}, f"Text that contains times of day in the format {form}.")
        return None


def _make_time_entry(carrier: Carrier, unit: int, values: pa.Array) -> dict[str, Any]:
    """Return the draft entry: the whole day, with the largest common step that divides all values."""
    different = np.unique(carrier.read(values).values).astype(np.int64)
    found = common_step(np.unique(np.append(different, 0))) * unit if len(different) and different.any() else DAY
    step = next(size for size in map(parse_step, _STEPS) if found % size == 0)
    return {"kind": "time", "range": ["00:00", name_time((DAY - 1) // step * step)], "step": name_step(step)}
