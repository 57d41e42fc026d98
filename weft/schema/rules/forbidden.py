"""Combinations that never occur."""

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
class Forbidden(Rule):
    """No row meets all conditions of any of these patterns."""

    patterns: tuple[Conditions, ...]

    key: ClassVar[str] = "forbid"
    keys: ClassVar[tuple[str, ...]] = ("forbid",)
    combines: ClassVar[bool] = True

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Self:
        """Read `forbid = [{...}, ...]`; one table need not stand in a list."""
        given = entry["forbid"]
        given = [given] if isinstance(given, Mapping) else given
        if not isinstance(given, list | tuple) or not given:
            raise RuleError('forbid must be a list of combinations, such as [{sex = "m", pregnant = true}]', "forbid")
        return cls(tuple(read_conditions(pattern, readers, "forbid") for pattern in given))

    def entry(self) -> dict[str, Any]:
        """Return the list."""
        return {"forbid": [entry_of(pattern) for pattern in self.patterns]}

    @property
    def clauses(self) -> list[Clause]:
        """What it says of the last column of each pattern, when the others hold."""
        return [Clause(pattern[:-1], pattern[-1:], negate=True) for pattern in self.patterns]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of all patterns."""
        return tuple(dict.fromkeys(name for pattern in self.patterns for name, _ in pattern))

    def check(self, readers: Readers) -> None:
        """Refuse patterns that leave a column no value."""
        self._check_names(readers, "forbid", self.columns)
        for pattern, clause in zip(self.patterns, self.clauses, strict=True):
            for name, condition in pattern:
                condition.check(readers[name], "forbid")
            clause.check(readers, "forbid")

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Rows that meet no pattern keep it."""
        return np.asarray(np.logical_and.reduce([clause.holds(values) for clause in self.clauses]))

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Replace the last column of each pattern."""
        for clause in self.clauses:
            clause.mend(block, rows, rng)

    def __str__(self) -> str:
        more = f" and {len(self.patterns) - 1} more" if len(self.patterns) > 1 else ""
        return f"never {shown_all(self.patterns[0])}{more}"
