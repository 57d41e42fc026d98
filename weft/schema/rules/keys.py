"""Keys: columns that identify a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from weft.schema.rules.column_values import Mask, Values, joint_keys
from weft.schema.rules.rule import Readers, Rule, RuleError, names_of


@dataclass(frozen=True)
class Unique(Rule):
    """No two rows of a synthetic block have equal values in all of these columns."""

    unique: tuple[str, ...]

    key: ClassVar[str] = "unique"
    keys: ClassVar[tuple[str, ...]] = ("unique",)
    alone: ClassVar[bool] = False

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Self:
        """Read `unique = [...]`."""
        return cls(names_of(entry, "unique", readers))

    def entry(self) -> dict[str, Any]:
        """Return the columns."""
        return {"unique": list(self.unique)}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in order."""
        return self.unique

    def check(self, readers: Readers) -> None:
        """Validate the columns and the policy: input rows are read independently and cannot be checked."""
        self._check_names(readers, "unique", self.unique, ids=True)
        if self.policy == "refuse":
            raise RuleError(
                'input rows are read one by one, so repeated keys cannot be detected; remove policy = "refuse"',
                "policy",
            )

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Return which rows satisfy the rule: the first row with each key."""
        _, first = np.unique(joint_keys([values[name] for name in self.unique]), return_index=True)
        kept = np.zeros(len(values[self.unique[0]]), bool)
        kept[first] = True
        return kept

    def __str__(self) -> str:
        return f"{', '.join(self.unique)} unique"
