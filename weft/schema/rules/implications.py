"""Implications: rows that meet the conditions in `when` meet those in `then`, or have missing values."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from weft.schema.rules.column_values import Mask, Values
from weft.schema.rules.conditions import Condition, Conditions, all_hold, entry_of, format_conditions, read_conditions
from weft.schema.rules.repair_block import Block
from weft.schema.rules.rule import Readers, Rows, Rule, RuleError, names_of


@dataclass(frozen=True)
class Clause:
    """Rows that meet `when` must meet `then`; with `negate`, must not. Used by implications and forbidden patterns."""

    when: Conditions
    then: Conditions
    negate: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of `when`, then of `then`."""
        return tuple(dict.fromkeys(name for name, _ in (*self.when, *self.then)))

    def applies(self, values: Mapping[str, Values]) -> Mask:
        """Return which rows meet `when`."""
        return all_hold(self.when, values) if self.when else np.ones(len(values[self.then[0][0]]), bool)

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Return which rows satisfy the clause."""
        return np.asarray(~self.applies(values) | (all_hold(self.then, values) != self.negate))

    def check(self, readers: Readers, key: str) -> None:
        """Validate that a row can satisfy the clause."""
        name, condition = self.then[-1]
        if self.negate and not condition.possible(readers[name], negate=True):
            raise RuleError(f'it excludes every value of column "{name}"; change the last condition', key)

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Copy values from valid rows to which it applies to those that violate it, or sample allowed values."""
        rows = rows[~self.holds({name: block[name].take(rows) for name in self.columns})]
        names = [name for name, _ in self.then]
        if not len(rows):
            return
        good = np.flatnonzero(self.applies(block) & (all_hold(self.then, block) != self.negate))
        # Values that only become missing require no donor.
        if self.negate or any(condition != Condition(missing=True) for _, condition in self.then):
            # A donor that agrees in the columns of `when` is preferred: it preserves correlations.
            for kept in ([name for name, _ in self.when], []):
                donors = block.matching(kept, rows, good, rng)
                block.copy(names, rows[donors >= 0], donors[donors >= 0])
                rows = rows[donors < 0]
        for name, condition in self.then:
            self._redraw(block, name, condition, rows, rng)

    def _redraw(self, block: Block, name: str, condition: Condition, rows: Rows, rng: np.random.Generator) -> None:
        rows = rows[condition.holds(block[name].take(rows)) == self.negate]
        held = np.flatnonzero((condition.holds(block[name]) != self.negate) & ~block[name].missing)
        if not len(rows):
            return
        if len(held):
            block.copy([name], rows, held[rng.integers(0, len(held), len(rows))])
            return
        drawn = condition.draw(block.readers[name], len(rows), rng, self.negate)
        if len(drawn):
            block.set_numbers(name, rows, drawn)
        elif block.readers[name].column.missing:
            block.blank(name, rows)


@dataclass(frozen=True)
class ClauseRule(Rule):
    """A rule that is one clause."""

    combines: ClassVar[bool] = True

    @property
    def clause(self) -> Clause:
        """The rule as a clause."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of `when`, then of `then`."""
        return self.clause.columns

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Return which rows satisfy the rule, including those that do not meet `when`."""
        return self.clause.holds(values)


@dataclass(frozen=True)
class Implication(ClauseRule):
    """Rows that meet all of `when` meet all of `then`."""

    when: Conditions
    then: Conditions

    key: ClassVar[str] = "then"
    keys: ClassVar[tuple[str, ...]] = ("when", "then")

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Self:
        """Read `when = {...}` and `then = {...}`."""
        return cls(read_conditions(entry.get("when"), readers, "when"), read_conditions(entry["then"], readers, "then"))

    def entry(self) -> dict[str, Any]:
        """Return `when` and `then`."""
        return {"when": entry_of(self.when), "then": entry_of(self.then)}

    @property
    def clause(self) -> Clause:
        """The rule as a clause."""
        return Clause(self.when, self.then)

    def check(self, readers: Readers) -> None:
        """Validate the conditions, and that no column is in both `when` and `then`."""
        for key, side in (("when", self.when), ("then", self.then)):
            self._check_names(readers, key, [name for name, _ in side])
            for name, condition in side:
                condition.check(readers[name], key)
        both = {name for name, _ in self.when} & {name for name, _ in self.then}
        if both:
            raise RuleError(f'column "{min(both)}" is in both when and then; remove it from one of them', "then")

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Replace the columns of `then`."""
        self.clause.mend(block, rows, rng)

    def __str__(self) -> str:
        return f"when {format_conditions(self.when)} then {format_conditions(self.then)}"


@dataclass(frozen=True)
class MissingWhen(ClauseRule):
    """Rows that meet all of `when` have missing values in these columns."""

    missing: tuple[str, ...]
    when: Conditions

    key: ClassVar[str] = "missing"
    keys: ClassVar[tuple[str, ...]] = ("missing", "when")

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Self:
        """Read `missing = [...]` and `when = {...}`."""
        return cls(names_of(entry, "missing", readers), read_conditions(entry.get("when"), readers, "when"))

    def entry(self) -> dict[str, Any]:
        """Return the columns and the conditions."""
        return {"missing": list(self.missing), "when": entry_of(self.when)}

    @property
    def clause(self) -> Clause:
        """The rule as a clause."""
        return Clause(self.when, tuple((name, Condition(missing=True)) for name in self.missing))

    def check(self, readers: Readers) -> None:
        """Validate that the columns can be missing and are not in `when`."""
        self._check_names(readers, "missing", self.missing)
        for name, condition in self.when:
            if name in self.missing:
                raise RuleError(f'column "{name}" is in both missing and when; remove it from one', "missing")
            condition.check(readers[name], "when")
        for name, condition in self.clause.then:
            condition.check(readers[name], "missing")

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Make the values missing."""
        broken = rows[~self.holds({name: block[name].take(rows) for name in self.columns})]
        for name in self.missing:
            block.blank(name, broken)

    def __str__(self) -> str:
        return f"{', '.join(self.missing)} missing when {format_conditions(self.when)}"


@dataclass(frozen=True)
class MissingTogether(Rule):
    """In each row, either all of these columns are missing or none is."""

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
        """Validate that all columns can be missing."""
        self._check_names(readers, self.key, self.together)
        for name in self.together:
            Condition(missing=True).check(readers[name], self.key)

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Return which rows have all values missing, or none."""
        first = values[self.together[0]].missing
        return np.asarray(np.logical_and.reduce([values[name].missing == first for name in self.together]))

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Make the others missing if the first column is; otherwise fill them from complete rows."""
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
