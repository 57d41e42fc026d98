"""Columns that are missing together, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from weft.schema.rules.base import Readers, Rows, Rule, names_of
from weft.schema.rules.block import Block
from weft.schema.rules.condition import Condition
from weft.schema.rules.values import Mask, Values


@dataclass(frozen=True)
class MissingTogether(Rule):
    """Either all of these columns are missing in a row, or none is."""

    together: tuple[str, ...]

    key: ClassVar[str] = "missing_together"
    keys: ClassVar[tuple[str, ...]] = ("missing_together",)
    combines: ClassVar[bool] = True

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Self:
        """Read `missing_together = [...]`."""
        return cls(names_of(entry, cls.key, readers, least=2))

    def entry(self) -> dict[str, Any]:
        """Return the columns."""
        return {self.key: list(self.together)}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in order."""
        return self.together

    def check(self, readers: Readers) -> None:
        """Refuse columns that are never missing."""
        self._check_names(readers, self.key, self.together)
        for name in self.together:
            Condition(missing=True).check(readers[name], self.key)

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Compare every column with the first."""
        first = values[self.together[0]].missing
        return np.asarray(np.logical_and.reduce([values[name].missing == first for name in self.together]))

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Let the first column decide: blank the others, or give them the values of rows that have all."""
        first, *others = self.together
        rows = rows[~self.holds({name: block[name].take(rows) for name in self.columns})]
        gone = block[first].missing[rows]
        whole = np.flatnonzero(np.logical_and.reduce([~block[name].missing for name in self.together]))
        for name in others:
            block.blank(name, rows[gone])
        filled = rows[~gone]
        donors = block.matching([first], filled, whole, rng)
        anyone = block.matching([], filled, whole, rng)
        donors = np.where(donors >= 0, donors, anyone)
        for name in others:
            empty = block[name].missing[filled]
            block.copy([name], filled[empty & (donors >= 0)], donors[empty & (donors >= 0)])
            alone = filled[empty & (donors < 0)]
            drawn = Condition(missing=False).draw(block.readers[name], len(alone), rng)
            block.set_numbers(name, alone[: len(drawn)], drawn)

    def __str__(self) -> str:
        return f"{', '.join(self.together)} missing together"
