"""Column with an incomplete description: discovery finds the rest privately, for a share of the budget."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from weft.schema.kinds.attributes import AttributePart
from weft.schema.kinds.kind import Coder, Column, ColumnError

NEEDED: Mapping[str, tuple[str, ...]] = {
    "category": ("values", "other"),
    "integer": ("range", "edges"),
    "real": ("range", "edges"),
    "datetime": ("range", "edges"),
    "duration": ("range", "edges"),
}
"""Kinds that discovery supports, and the facts of each; one of them makes a description complete."""


@dataclass(frozen=True)
class Unknown(Column):
    """A column whose kind, values or range is not declared. It cannot be encoded before discovery."""

    stated: tuple[tuple[str, Any], ...] = field(default=(), kw_only=True)
    """Declared facts, as in a schema file."""

    kind: ClassVar[str] = "unknown"
    modelled: ClassVar[bool] = False
    as_written: ClassVar[bool] = True

    def to_dict(self) -> dict[str, Any]:
        """Return the declared facts."""
        return {"kind": self.kind} | {
            key: list(value) if isinstance(value, tuple) else value for key, value in self.stated
        }

    def plain_type(self) -> pa.DataType:
        """Return text: each value as written, independently of the type that a library inferred."""
        return pa.string()

    def coder(self, arrow_type: pa.DataType, nan: bool) -> Coder:
        """Raise ColumnError: codes are not defined before discovery."""
        raise self._unfound()

    def part(self, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]) -> AttributePart:
        """Raise ColumnError: attributes are not defined before discovery."""
        raise self._unfound()

    def _unfound(self) -> ColumnError:
        kind = dict(self.stated).get("kind", "unknown")
        wanted = NEEDED.get(str(kind), ("kind",))[0]
        return ColumnError(self.name, f"its {wanted} is not declared; declare it, or use private discovery", wanted)


def is_partial(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry of a schema file lacks a fact that its kind requires.

    >>> is_partial({"kind": "integer"}), is_partial({"kind": "integer", "range": [0, 9]}), is_partial({"kind": "time"})
    (True, False, False)
    """
    kind = entry.get("kind")
    if kind == Unknown.kind:
        return True
    needed = NEEDED.get(str(kind), ())
    whole = "after" in entry or "pieces" in entry  # validated by the kind, with a specific error
    return bool(needed) and not whole and not any(key in entry for key in needed)
