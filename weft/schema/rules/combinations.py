"""Allowed, forbidden and unique combinations of values."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from weft.schema.kinds.kind import Scalar
from weft.schema.rules.column_values import Mask, Values, concatenate_values, joint_keys
from weft.schema.rules.conditions import Conditions, entry_of, format_conditions, plain_value, read_conditions
from weft.schema.rules.implications import Clause
from weft.schema.rules.reference_tables import read_table
from weft.schema.rules.repair_block import Block, match_donors
from weft.schema.rules.rule import Readers, Rows, Rule, RuleError, names_of, validate_point


@dataclass(frozen=True)
class Allowed(Rule):
    """Every row has one of these combinations of values; None represents missing."""

    among: tuple[str, ...]
    allowed: tuple[tuple[Scalar | None, ...], ...]

    key: ClassVar[str] = "allowed"
    keys: ClassVar[tuple[str, ...]] = ("columns", "allowed")
    combines: ClassVar[bool] = True

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Self:
        """Read `columns = [...]` and `allowed = [[...], ...]`, or the name of a CSV file."""
        columns = names_of(entry, "columns", readers) if "columns" in entry else None
        given = entry["allowed"]
        if isinstance(given, str):
            names, rows = read_table(given, folder, readers, "allowed", columns)
            return cls(names, tuple(rows))
        if columns is None:
            raise RuleError('a list of allowed combinations requires columns = ["a", "b"]', "allowed")
        if not isinstance(given, list | tuple) or not all(isinstance(row, list | tuple) for row in given):
            raise RuleError('allowed must be a list such as [["x", "y"], ["x", "z"]], or a CSV file', "allowed")
        return cls(columns, tuple(tuple(parse_list_cell(value) for value in row) for row in given))

    def entry(self) -> dict[str, Any]:
        """Return the columns and all combinations, also those from a file."""
        rows = [[{"missing": True} if value is None else value for value in row] for row in self.allowed]
        return {"columns": list(self.among), "allowed": rows}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in order."""
        return self.among

    def check(self, readers: Readers) -> None:
        """Validate that the list is not empty and that the columns can contain its values."""
        self._check_names(readers, "columns", self.among)
        if not self.allowed:
            raise RuleError("no combination is allowed, so that no row can satisfy it; list at least one", "allowed")
        for row in self.allowed:
            if len(row) != len(self.among):
                raise RuleError(f"each combination must have {len(self.among)} values, one for each column", "allowed")
            for name, value in zip(self.among, row, strict=True):
                if value is not None:
                    validate_point(readers[name], value, "allowed")
                elif not readers[name].column.missing:
                    raise RuleError(
                        f'column "{name}" is never missing; set missing = true in [columns.{name}]', "allowed"
                    )

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Return which rows have a listed combination, looked up column by column."""
        listed = np.zeros(len(self.allowed), np.int64)
        found = np.zeros(len(values[self.among[0]]), np.int64)
        valid = np.ones(len(found), bool)
        for name, column in self._table(values).items():
            known = np.unique(column.numbers[~column.missing])
            here = _find_places(values[name], known)
            keys = found * (len(known) + 1) + here
            prefixes, listed = np.unique(listed * (len(known) + 1) + _find_places(column, known), return_inverse=True)
            found = np.minimum(np.searchsorted(prefixes, keys), len(prefixes) - 1)
            valid &= (here >= 0) & (prefixes[found] == keys)
        return valid

    def _table(self, values: Mapping[str, Values]) -> dict[str, Values]:
        made = {}
        for i, name in enumerate(self.among):
            reader = values[name].reader
            cells = [row[i] for row in self.allowed]
            missing = np.array([cell is None for cell in cells])
            numbers = np.array([0 if cell is None else reader.span(cell)[0] for cell in cells])
            made[name] = Values(numbers, missing, reader)
        return made

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Keep as many leading columns as possible; copy the others from a matching valid row or from the list."""
        rows = rows[~self.holds({name: block[name].take(rows) for name in self.columns})]
        good = np.flatnonzero(self.holds(block)) if len(rows) else rows
        table = self._table(block)
        for kept in range(len(self.among) - 1, -1, -1):
            donors = block.matching(self.among[:kept], rows, good, rng)
            block.copy(self.among[kept:], rows[donors >= 0], donors[donors >= 0])
            rows = rows[donors < 0]
            if len(rows):
                rows = self._list(block, rows, table, kept, rng)

    def _list(self, block: Block, rows: Rows, table: Mapping[str, Values], kept: int, rng: np.random.Generator) -> Rows:
        """Give rows listed combinations with the same leading values; return the rows without one."""
        every = np.arange(len(self.allowed))
        chosen = every[rng.integers(0, len(every), len(rows))]
        if kept:
            pairs = [concatenate_values(block[name].take(rows), table[name]) for name in self.among[:kept]]
            keys = joint_keys(pairs)
            chosen = match_donors(keys[: len(rows)], keys[len(rows) :], every, rng)
        some = chosen >= 0
        for name in self.among[kept:]:
            given = table[name].take(chosen[some])
            block.set_numbers(name, rows[some][~given.missing], given.numbers[~given.missing])
            if given.missing.any():
                block.blank(name, rows[some][given.missing])
        return rows[~some]

    def __str__(self) -> str:
        return f"{', '.join(self.among)} among {len(self.allowed):,} combinations"


def _find_places(values: Values, known: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of each value in sorted numbers, `len(known)` for missing, -1 for other values."""
    if not len(known):
        return np.where(values.missing, 0, -1)
    place = np.minimum(np.searchsorted(known, values.numbers), len(known) - 1)
    return np.where(values.missing, len(known), np.where(known[place] == values.numbers, place, -1))


def parse_list_cell(value: Any) -> Any:
    """Parse a cell of the list; None for missing."""
    if isinstance(value, Mapping):
        if dict(value) != {"missing": True}:
            raise RuleError("a cell of allowed must be a value, or {missing = true}", "allowed")
        return None
    return plain_value(value)


@dataclass(frozen=True)
class Forbidden(Rule):
    """No row meets all conditions of any of these patterns."""

    patterns: tuple[Conditions, ...]

    key: ClassVar[str] = "forbid"
    keys: ClassVar[tuple[str, ...]] = ("forbid",)
    combines: ClassVar[bool] = True

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Self:
        """Read `forbid = [{...}, ...]`, or a single table."""
        given = entry["forbid"]
        given = [given] if isinstance(given, Mapping) else given
        if not isinstance(given, list | tuple) or not given:
            raise RuleError('forbid must be a list of combinations, such as [{sex = "m", pregnant = true}]', "forbid")
        return cls(tuple(read_conditions(pattern, readers, "forbid") for pattern in given))

    def entry(self) -> dict[str, Any]:
        """Return the patterns."""
        return {"forbid": [entry_of(pattern) for pattern in self.patterns]}

    @property
    def clauses(self) -> list[Clause]:
        """Clauses that restrict the last column of each pattern if the others match."""
        return [Clause(pattern[:-1], pattern[-1:], negate=True) for pattern in self.patterns]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of all patterns."""
        return tuple(dict.fromkeys(name for pattern in self.patterns for name, _ in pattern))

    def check(self, readers: Readers) -> None:
        """Validate the conditions, and that no pattern excludes every value of a column."""
        self._check_names(readers, "forbid", self.columns)
        for pattern, clause in zip(self.patterns, self.clauses, strict=True):
            for name, condition in pattern:
                condition.check(readers[name], "forbid")
            clause.check(readers, "forbid")

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Return which rows match no pattern."""
        return np.asarray(np.logical_and.reduce([clause.holds(values) for clause in self.clauses]))

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Replace the last column of each pattern."""
        for clause in self.clauses:
            clause.mend(block, rows, rng)

    def __str__(self) -> str:
        more = f" and {len(self.patterns) - 1} more" if len(self.patterns) > 1 else ""
        return f"never {format_conditions(self.patterns[0])}{more}"


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
