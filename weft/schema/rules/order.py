"""Order: values increase from column to column."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from weft.schema.rules.column_values import Mask, Values
from weft.schema.rules.repair_block import Block
from weft.schema.rules.rule import Readers, Rows, Rule, RuleError, names_of


@dataclass(frozen=True)
class Ordered(Rule):
    """Each value is at least as large as those of the preceding columns; missing values are ignored."""

    order: tuple[str, ...]
    strict: bool = False
    """Whether each value must be larger."""

    key: ClassVar[str] = "order"
    keys: ClassVar[tuple[str, ...]] = ("order", "strict")

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Self:
        """Read `order = [...]` and `strict`."""
        strict = entry.get("strict", False)
        if not isinstance(strict, bool):
            raise RuleError("strict must be true or false", "strict")
        return cls(names_of(entry, "order", readers, least=2), strict)

    def entry(self) -> dict[str, Any]:
        """Return the columns and `strict`."""
        return {"order": list(self.order)} | ({"strict": True} if self.strict else {})

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in order."""
        return self.order

    def check(self, readers: Readers) -> None:
        """Validate that the columns can be compared and that their ranges allow the order."""
        self._check_names(readers, "order", self.order)
        for name in self.order:
            if not readers[name].comparable:
                raise RuleError(f'column "{name}": its values have no order; remove it', "order")
        if len({readers[name].moments for name in self.order}) > 1:
            raise RuleError("dates cannot be compared with numbers; name columns of one type", "order")
        zones = {getattr(readers[n].type, "tz", None) is None for n in self.order if readers[n].moments}
        if len(zones) > 1:
            raise RuleError("times with and without a time zone cannot be compared; use one form for all", "order")
        for i, before in enumerate(self.order):
            for after in self.order[i + 1 :]:
                low = min([readers[before].ends[0], *readers[before].special])
                high = max([readers[after].ends[1], *readers[after].special])
                if low > high or (self.strict and low == high):
                    raise RuleError(
                        f'by their ranges, "{before}" is always larger than "{after}"; swap them or change a range',
                        "order",
                    )

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Return which rows are ordered, comparing each value with the largest preceding one."""
        kept = np.ones(len(values[self.order[0]]), bool)
        largest = np.full(len(kept), -np.inf)
        exact = all(values[name].numbers.dtype.kind in "iub" for name in self.order)
        if exact:
            largest = np.full(len(kept), np.iinfo(np.int64).min)
        for name in self.order:
            numbers = values[name].numbers
            there = ~values[name].missing
            rises = numbers > largest if self.strict else numbers >= largest
            kept &= ~there | rises
            largest = np.where(there, np.maximum(largest, numbers), largest)
        return kept

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Sort the values if the columns can contain each other's values; otherwise sample a valid later value."""
        rows = self._broken(block, rows)
        self._sort(block, rows)
        for place in range(1, len(self.order)):
            self._lift(block, self._broken(block, rows), place, rng)

    def _broken(self, block: Block, rows: Rows) -> Rows:
        return rows[~self.holds({name: block[name].take(rows) for name in self.columns})]

    def _sort(self, block: Block, rows: Rows) -> None:
        """Sort the values of rows without missing values if each fits its new column."""
        parts = [block[name].take(rows) for name in self.order]
        sorted_ = np.sort(np.stack([part.numbers for part in parts]), axis=0)
        fits = np.logical_and.reduce([~part.missing for part in parts])
        for part, numbers in zip(parts, sorted_, strict=True):
            fits &= part.reader.fits(numbers) & ~np.isin(numbers, part.reader.special)
        if self.strict:
            fits &= (np.diff(sorted_, axis=0) > 0).all(axis=0)
        for name, numbers in zip(self.order, sorted_, strict=True):
            block.set_numbers(name, rows[fits], numbers[fits])

    def _lift(self, block: Block, rows: Rows, place: int, rng: np.random.Generator) -> None:
        """Sample a later value from those of the block that are large enough, or by default from its range."""
        name = self.order[place]
        before = [block[other].take(rows) for other in self.order[:place]]
        lowest = block.readers[self.order[0]].ends[0]
        least = np.max([np.where(part.missing, lowest, part.numbers) for part in before], axis=0)
        there = ~np.logical_and.reduce([part.missing for part in before])
        later = block[name].take(rows)
        wrong = there & ~later.missing & ((later.numbers <= least) if self.strict else (later.numbers < least))
        rows, least = rows[wrong], least[wrong]
        if not len(rows):
            return
        pool = np.flatnonzero(~block[name].missing)
        held = block[name].numbers[pool]
        rising = np.argsort(held, kind="stable")
        first = np.searchsorted(held, least, side="right" if self.strict else "left", sorter=rising)
        chosen = first + (rng.random(len(rows)) * (len(held) - first)).astype(np.int64)
        some = first < len(held)
        block.copy([name], rows[some], pool[rising[chosen[some]]])
        if not some.all():  # no value of the block is large enough
            low = least[~some].max()
            low = np.nextafter(low, np.inf) if isinstance(low, np.floating) and self.strict else low + int(self.strict)
            drawn = block.readers[name].uniform(int((~some).sum()), rng, low)
            block.set_numbers(name, rows[~some][: len(drawn)], drawn)

    def __str__(self) -> str:
        return f" {'<' if self.strict else '<='} ".join(self.order)
