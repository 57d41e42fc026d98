"""`when` some conditions hold, `then` others do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from weft.schema.rules.base import Readers, Rows, Rule, RuleError
from weft.schema.rules.block import Block
from weft.schema.rules.clause import Clause
from weft.schema.rules.condition import Conditions, entry_of, read_conditions, shown_all
from weft.schema.rules.values import Mask, Values


@dataclass(frozen=True)
class Implication(Rule):
    """Rows that meet all of `when` meet all of `then`."""

    when: Conditions
    then: Conditions

    key: ClassVar[str] = "then"
    keys: ClassVar[tuple[str, ...]] = ("when", "then")
    combines: ClassVar[bool] = True

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Self:
        """Read `when = {...}` and `then = {...}`."""
        return cls(read_conditions(entry.get("when"), readers, "when"), read_conditions(entry["then"], readers, "then"))

    def entry(self) -> dict[str, Any]:
        """Return both tables."""
        return {"when": entry_of(self.when), "then": entry_of(self.then)}

    @property
    def clause(self) -> Clause:
        """What it says."""
        return Clause(self.when, self.then)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of both."""
        return self.clause.columns

    def check(self, readers: Readers) -> None:
        """Refuse a column that stands on both sides."""
        for key, side in (("when", self.when), ("then", self.then)):
            self._check_names(readers, key, [name for name, _ in side])
            for name, condition in side:
                condition.check(readers[name], key)
        both = {name for name, _ in self.when} & {name for name, _ in self.then}
        if both:
            raise RuleError(f'column "{min(both)}" stands in when and in then; leave it out of one of them', "then")

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Rows to which it does not apply keep it."""
        return self.clause.holds(values)

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Replace the columns of `then`."""
        self.clause.mend(block, rows, rng)

    def __str__(self) -> str:
        return f"when {shown_all(self.when)} then {shown_all(self.then)}"
