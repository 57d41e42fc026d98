"""Sums: a column is the sum of others, which are numbers, or a date and numbers of days."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.schema.kinds.numeric_bins import BinnedColumn
from weft.schema.rules.column_values import MICRO, ColumnReader, Mask, Values
from weft.schema.rules.conditions import Conditions, all_hold, entry_of, format_conditions, read_conditions
from weft.schema.rules.repair_block import Block
from weft.schema.rules.rule import Readers, Rows, Rule, RuleError, names_of, require_column
from weft.values.timestamps import DAY

_DAY = DAY // MICRO


@dataclass(frozen=True)
class Summed(Rule):
    """The total is the sum of its parts in all rows without a missing part that meet the optional `when`."""

    sum: tuple[str, ...]
    total: str
    when: Conditions = ()

    key: ClassVar[str] = "sum"
    keys: ClassVar[tuple[str, ...]] = ("sum", "is", "when")

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Self:
        """Read `sum = [...]`, `is` and `when`."""
        when = read_conditions(entry["when"], readers, "when") if "when" in entry else ()
        return cls(names_of(entry, "sum", readers), require_column(entry.get("is"), readers, "is"), when)

    def entry(self) -> dict[str, Any]:
        """Return the parts, the total and `when`."""
        return {"sum": list(self.sum), "is": self.total} | ({"when": entry_of(self.when)} if self.when else {})

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of `when`, the parts, then the total."""
        return tuple(dict.fromkeys([*(name for name, _ in self.when), *self.sum, self.total]))

    def check(self, readers: Readers) -> None:
        """Validate that the columns can be added and that the range of the total contains a possible sum."""
        self._check_names(readers, "sum", self.sum)
        self._check_names(readers, "is", [self.total])
        if self.total in self.sum:
            raise RuleError("a total cannot be one of its parts", "is")
        for name, condition in self.when:
            condition.check(readers[name], "when")
        dated = readers[self.total].moments
        for name in (*self.sum, self.total):
            if not readers[name].comparable:
                raise RuleError(f'column "{name}": only numbers can be added', "is" if name == self.total else "sum")
        if sum(readers[name].moments for name in self.sum) != int(dated):
            raise RuleError("a date must be the sum of one date and numbers of days; a number, of numbers", "sum")
        if dated:
            if not all(readers[name].whole or readers[name].moments for name in self.sum):
                raise RuleError("only whole numbers of days can be added to a date", "sum")
            return
        if readers[self.total].whole and not all(readers[name].whole for name in self.sum):
            raise RuleError(f'"{self.total}" is an integer, but one of its parts is not; make it a real', "is")
        reach = [_compute_extremes(readers[name]) for name in self.sum]
        low, high = _compute_extremes(readers[self.total])
        if sum(part[0] for part in reach) > high or sum(part[1] for part in reach) < low:
            raise RuleError(f'no possible sum is in the range of "{self.total}"; change a range', "is")

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Return which rows satisfy the rule, with sums rounded to the decimal places of the total."""
        wanted, whole = self._sums(values)
        total = values[self.total]
        near = np.abs(total.numbers - wanted) <= _compute_tolerance(total.reader, wanted)
        asked = all_hold(self.when, values) if self.when else np.ones(len(near), bool)
        return np.asarray(~whole | ~asked | (~total.missing & near))

    def _sums(self, values: Mapping[str, Values]) -> tuple[NDArray[Any], Mask]:
        parts = [values[name] for name in self.sum]
        days = any(part.reader.moments for part in parts)  # dates are in microseconds
        scaled = [p.numbers * (_DAY if days and not p.reader.moments else 1) for p in parts]
        return np.sum(scaled, axis=0), ~np.logical_or.reduce([p.missing for p in parts])

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Set the total to the sum if that is a possible value."""
        part = {name: block[name].take(rows) for name in self.columns}
        broken = ~self.holds(part)
        wanted, _ = self._sums(part)
        reader = block.readers[self.total]
        after = getattr(reader.column, "after", None)
        if after in self.sum:  # the total is encoded as a difference: validate that instead
            gap = wanted - part[after].numbers
            assert isinstance(reader.column, BinnedColumn)
            unit = MICRO if reader.moments else 1
            low, high = (reader.column.place(end) // unit for end in reader.column.ends)
            fits = broken & (gap >= low) & (gap <= high)
            block.put(self.total, rows[fits], reader.make(wanted[fits]))
            return
        fits = broken & reader.fits(_round_to_decimals(reader, wanted))
        block.set_numbers(self.total, rows[fits], _round_to_decimals(reader, wanted)[fits])

    def __str__(self) -> str:
        said = f"{self.total} = {' + '.join(self.sum)}"
        return f"{said} when {format_conditions(self.when)}" if self.when else said


def _compute_extremes(reader: ColumnReader) -> tuple[Any, Any]:
    ends = [*reader.ends, *reader.special]
    return min(ends), max(ends)


def _get_decimals(reader: ColumnReader) -> int | None:
    digits: int | None = getattr(reader.column, "decimals", None)
    return reader.type.scale if digits is None and pa.types.is_decimal(reader.type) else digits


def _round_to_decimals(reader: ColumnReader, numbers: NDArray[Any]) -> NDArray[Any]:
    digits = _get_decimals(reader)
    return numbers if digits is None or numbers.dtype.kind in "iu" else np.round(numbers, digits)


def _compute_tolerance(reader: ColumnReader, numbers: NDArray[Any]) -> NDArray[Any]:
    digits = _get_decimals(reader)
    if numbers.dtype.kind in "iu":
        return np.zeros(1)
    precision = 1e-6 if pa.types.is_float32(reader.type) else 1e-9
    unit = 0.0 if digits is None else 0.5 * 10.0**-digits
    return np.asarray(unit * (1 + 1e-6) + precision * np.maximum(np.abs(numbers), 1))
