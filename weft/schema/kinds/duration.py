"""Duration columns."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from weft.schema.kinds.draft_facts import ColumnEvidence, Guess
from weft.schema.kinds.integer import common_step
from weft.schema.kinds.kind import ColumnError
from weft.schema.kinds.numeric_bins import GridCoder
from weft.schema.kinds.time_bins import TIME_REMEDY, Spanned
from weft.values.storage import Carrier, Integers
from weft.values.text_columns import TextSpans
from weft.values.text_numbers import is_text
from weft.values.timestamps import UNIT, name_span, name_step, parse_span, parse_step

_STEPS = ("1d", "1h", "15min", "5min", "1min", "1s", "1ms", "1us", "1ns")


@dataclass(frozen=True)
class Duration(Spanned):
    """A length of time, in text as hours, minutes and seconds: 1:30:00."""

    kind: ClassVar[str] = "duration"
    outside_remedy = TIME_REMEDY
    flipped: ClassVar[tuple[str, ...]] = ("range", "step", "special", "missing", "outside")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need(self.after is None, "after is invalid for a duration", "after")
        try:
            parse_step(self.step)
        except ValueError:
            raise ColumnError(self.name, 'step must be a duration such as "1h", "15min" or "1s"', "step") from None

    def _member(self, value: Any, key: str) -> str:
        try:
            parse_span(str(value) if not isinstance(value, str) else value)
        except ValueError:
            raise ColumnError(self.name, f'{key} must contain durations such as "36h" or "2d"', key) from None
        return str(value)

    def place(self, value: Any) -> int:
        """Return the duration in nanoseconds."""
        return parse_span(value)

    def fits_unit(self, unit: str) -> bool:
        """Return whether the step is a multiple of an Arrow unit."""
        return parse_step(self.step) % UNIT[unit] == 0

    def plain_type(self) -> pa.DataType:
        """Return text, as in files without types."""
        return pa.string()

    def coder(self, arrow_type: pa.DataType, nan: bool) -> GridCoder:
        """Return the coder for durations or text."""
        carrier: Carrier
        if is_text(arrow_type):
            carrier, unit = TextSpans(arrow_type), UNIT["s"]
        elif pa.types.is_duration(arrow_type):
            carrier, unit = Integers(arrow_type), UNIT[arrow_type.unit]
        else:
            raise self.unfit(arrow_type)
        grid = self.units(arrow_type, unit)
        low, high = (self.place(value) // unit for value in self.extent)
        self.need_fit(carrier.low <= low and high <= carrier.high, arrow_type, "range")
        return GridCoder(self, grid, carrier)

    @classmethod
    def write(cls, held: int) -> str:
        """Format nanoseconds as in a schema file."""
        return name_span(held)

    @classmethod
    def recognise(cls, evidence: ColumnEvidence) -> Guess | None:
        """Recognise durations."""
        if not pa.types.is_duration(evidence.type):
            return None
        if not len(evidence.values):
            return Guess({"kind": cls.kind, "range": ["0h", "24h"]}, "No value was seen: declare the range.")
        unit = UNIT[evidence.type.unit]
        different = np.unique(evidence.values.cast(pa.int64()).to_numpy())
        found = common_step(np.unique(np.append(different, 0))) * unit if different.any() else parse_step("1d")
        step = next(size for size in map(parse_step, _STEPS) if found % size == 0)
        ends = [name_span(int(end) * unit) for end in (different[0], different[-1])]
        return Guess({"kind": cls.kind, "range": ends, "step": name_step(step)}, "Lengths of time.")
