"""Columns that are missing when some conditions hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from weft.schema.rules.base import Readers, Rows, Rule, RuleError, names_of
from weft.schema.rules.block import Block
from weft.schema.rules.clause import Clause
from weft.schema.rules.condition import Condition, Conditions, entry_of, read_conditions, shown_all
from weft.schema.rules.values import Mask, Values


@dataclass(frozen=True)
class MissingWhen(Rule):
    """Rows that meet all of `when` have no value in these columns."""

    missing: tuple[str, ...]
    when: Conditions

    key: ClassVar[str] = "missing"
    keys: ClassVar[tuple[str, ...]] = ("missing", "when")
    combines: ClassVar[bool] = True

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Self:
        """Read `missing = [...]` and `when = {...}`."""
        return cls(names_of(entry, "missing", readers), read_conditions(entry.get("when"), readers, "when"))

    def entry(self) -> dict[str, Any]:
        """Return the columns and the conditions."""
        return {"missing": list(self.missing), "when": entry_of(self.when)}

    @property
    def clause(self) -> Clause:
        """What it says."""
        return Clause(self.when, tuple((name, Condition(missing=True)) for name in self.missing))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that decide, then those that are missing."""
        return self.clause.columns

    def check(self, readers: Readers) -> None:
        """Refuse columns that cannot be missing, and one that would decide about itself."""
        self._check_names(readers, "missing", self.missing)
        for name, condition in self.when:
            if name in self.missing:
                raise RuleError(f'column "{name}" stands in missing and in when; leave it out of one', "missing")
            condition.check(readers[name], "when")
        for name, condition in self.clause.then:
            condition.check(readers[name], "missing")

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Rows to which it does not apply keep it."""
        return self.clause.holds(values)

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Take the values away."""
        broken = rows[~self.holds({name: block[name].take(rows) for name in self.columns})]
        for name in self.missing:
            block.blank(name, broken)

    def __str__(self) -> str:
        return f"{', '.join(self.missing)} missing when {shown_all(self.when)}"
