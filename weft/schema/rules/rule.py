"""What every rule shares, and what a rule has to say for itself.

A rule is a public fact about every row. It says how it is written, which columns it speaks of, whether a row keeps it,
and how a synthetic row that breaks it is mended. One file holds one sort of rule.
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
    """A fault in a rule; `key` is what to mend, `index` the rule's place in the list."""

    def __init__(self, text: str, key: str | None = None, index: int | None = None) -> None:
        super().__init__(text if index is None else f"rule {index + 1}: {text}")
        self.text, self.key, self.index = text, key, index

    def at(self, index: int) -> RuleError:
        """Return the fault with the place of its rule."""
        return RuleError(self.text, self.key, index)


@dataclass(frozen=True)
class Rule:
    """A public fact about every row."""

    policy: RowPolicy = field(default="keep", kw_only=True)
    """Input rows that break it: counted as they are, or refused before anything is spent."""

    key: ClassVar[str] = ""
    """Key of the TOML table by which this sort of rule is known."""
    keys: ClassVar[tuple[str, ...]] = ()
    """All its keys, beside policy."""
    alone: ClassVar[bool] = True
    """Whether each row keeps or breaks it by itself."""
    combines: ClassVar[bool] = False
    """Whether it says which combinations of values are possible."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it speaks of, those that decide first."""
        raise NotImplementedError

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Rule:
        """Make a rule from a TOML table; RuleError if it is not one. Files are looked for in `folder`, if any."""
        raise NotImplementedError

    def entry(self) -> dict[str, Any]:
        """Return plain values in the shape of its TOML table, without the policy."""
        raise NotImplementedError

    def check(self, readers: Readers) -> None:
        """Refuse a rule that its columns cannot keep."""
        raise NotImplementedError

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Say which rows keep the rule."""
        raise NotImplementedError

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Change synthetic rows that break the rule, as little as it takes."""
        raise NotImplementedError

    def __str__(self) -> str:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return plain values in the shape of its TOML table."""
        return self.entry() | ({} if self.policy == "keep" else {"policy": self.policy})

    def _check_names(self, readers: Readers, key: str, names: Sequence[str], ids: bool = False) -> None:
        for name in names:
            require_column(name, readers, key)
            if isinstance(readers[name].column, Id) and not ids:
                raise RuleError(f'column "{name}" is an id, which is made anew; leave it out of {key}', key)
        if len(set(names)) != len(names):
            raise RuleError(f"{key} names a column twice; name it once", key)


def require_column(name: Any, readers: Readers, key: str) -> str:
    """Return the name of a column; RuleError if there is none."""
    if not isinstance(name, str):
        raise RuleError(f'{key} must name columns, in quotes, such as "age"', key)
    if name not in readers:
        raise RuleError(
            f'{key} names "{name}", which is no column of the schema.{suggest_known_word(name, readers)}', key
        )
    return name


def names_of(entry: Mapping[str, Any], key: str, readers: Readers, least: int = 1) -> tuple[str, ...]:
    """Return a list of columns."""
    given = entry.get(key)
    if not isinstance(given, list | tuple) or len(given) < least:
        some = "one column" if least == 1 else f"{least} columns"
        raise RuleError(f'{key} must be a list of at least {some}, such as ["a", "b"]', key)
    return tuple(require_column(name, readers, key) for name in given)


def validate_point(reader: ColumnReader, value: Any, key: str) -> Any:
    """Return the number of a value that a rule names; RuleError if its column can never hold it."""
    try:
        return reader.point(value)
    except UnfitValueError as fault:
        raise RuleError(f'column "{reader.column.name}": {format_toml_value(value)} {fault}', key) from None


def format_toml_value(value: Any) -> str:
    """Write a value as TOML does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
