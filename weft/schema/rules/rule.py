"""Base class of rules.

A rule is a public fact about every row. It implements reading and writing of its TOML table, a test whether rows
satisfy it, and the repair of synthetic rows that violate it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from weft.errors import SchemaError
from weft.schema.kinds.identifier import Id
from weft.schema.kinds.kind import suggest_known_word
from weft.schema.rules.column_values import ColumnReader, Mask, UnfitValueError, Values

if TYPE_CHECKING:
    from weft.schema.rules.repair_block import Block

Readers = Mapping[str, ColumnReader]
RowPolicy = Literal["keep", "refuse"]
Rows = NDArray[np.int64]


class RuleError(SchemaError):
    """Error for an invalid rule; `key` is the key to correct, `index` the position of the rule."""

    def __init__(self, text: str, key: str | None = None, index: int | None = None) -> None:
        super().__init__(text if index is None else f"rule {index + 1}: {text}")
        self.text, self.key, self.index = text, key, index

    def at(self, index: int) -> RuleError:
        """Return the error with the position of its rule."""
        return RuleError(self.text, self.key, index)


@dataclass(frozen=True)
class Rule:
    """A public fact about every row."""

    policy: RowPolicy = field(default="keep", kw_only=True)
    """Treatment of input rows that violate it: "keep" counts them unchanged, "refuse" fails before any charge."""

    key: ClassVar[str] = ""
    """Key of the TOML table that identifies the type of rule."""
    keys: ClassVar[tuple[str, ...]] = ()
    """All keys of the table except policy."""
    alone: ClassVar[bool] = True
    """Whether each row satisfies or violates it independently of other rows."""
    combines: ClassVar[bool] = False
    """Whether it restricts the possible combinations of values."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the rule, those of its conditions first."""
        raise NotImplementedError

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Rule:
        """Make a rule from a TOML table, or raise RuleError; files are read from the optional `folder`."""
        raise NotImplementedError

    def entry(self) -> dict[str, Any]:
        """Return the TOML table as plain values, without the policy."""
        raise NotImplementedError

    def check(self, readers: Readers) -> None:
        """Validate that the columns can satisfy the rule."""
        raise NotImplementedError

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Return which rows satisfy the rule."""
        raise NotImplementedError

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Repair synthetic rows that violate the rule, with as few changes as possible."""
        raise NotImplementedError

    def __str__(self) -> str:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the TOML table as plain values."""
        return self.entry() | ({} if self.policy == "keep" else {"policy": self.policy})

    def _check_names(self, readers: Readers, key: str, names: Sequence[str], ids: bool = False) -> None:
        for name in names:
            require_column(name, readers, key)
            if isinstance(readers[name].column, Id) and not ids:
                raise RuleError(f'column "{name}" is an id, which is not modelled; remove it from {key}', key)
        if len(set(names)) != len(names):
            raise RuleError(f"{key} names a column twice; name it once", key)


def require_column(name: Any, readers: Readers, key: str) -> str:
    """Return the name of a column; raise RuleError if it is invalid."""
    if not isinstance(name, str):
        raise RuleError(f'{key} must name columns, in quotes, such as "age"', key)
    if name not in readers:
        raise RuleError(f'{key} names "{name}", which is not a column.{suggest_known_word(name, readers)}', key)
    return name


def names_of(entry: Mapping[str, Any], key: str, readers: Readers, least: int = 1) -> tuple[str, ...]:
    """Return the columns that an entry lists."""
    given = entry.get(key)
    if not isinstance(given, list | tuple) or len(given) < least:
        some = "one column" if least == 1 else f"{least} columns"
        raise RuleError(f'{key} must be a list of at least {some}, such as ["a", "b"]', key)
    return tuple(require_column(name, readers, key) for name in given)


def validate_point(reader: ColumnReader, value: Any, key: str, inside: bool = True) -> Any:
    """Return the number of a value in a rule; raise RuleError if the column cannot contain it (unless not `inside`)."""
    try:
        return reader.point(value) if inside else reader.bound(value)
    except UnfitValueError as fault:
        raise RuleError(f'column "{reader.column.name}": {format_toml_value(value)} {fault}', key) from None


def format_toml_value(value: Any) -> str:
    """Format a value as in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
