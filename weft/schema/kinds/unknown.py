"""A column of which not everything is stated: what is left out is found privately, for a share of the budget."""

from __future__ import annotations

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
"""Kinds that can be found out about, and the facts of which each needs one."""


@dataclass(frozen=True)
class Unknown(Column):
    """A column whose kind, values or range nobody has stated. Nothing can be counted by it before they are found."""

    stated: tuple[tuple[str, Any], ...] = field(default=(), kw_only=True)
    """What is stated all the same, as a schema file would say it."""

    kind: ClassVar[str] = "unknown"
    modelled: ClassVar[bool] = False
    as_written: ClassVar[bool] = True

    def to_dict(self) -> dict[str, Any]:
        """Return what is stated."""
        return {"kind": self.kind} | {
            key: list(value) if isinstance(value, tuple) else value for key, value in self.stated
        }

    def plain_type(self) -> pa.DataType:
        """Return text: each value as it is written, whatever a library made of it."""
        return pa.string()

    def coder(self, arrow_type: pa.DataType, nan: bool) -> Coder:
        """Refuse: there are no codes yet."""
        raise self._unfound()

    def part(self, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]) -> AttributePart:
        """Refuse: there are no attributes yet."""
        raise self._unfound()

    def _unfound(self) -> ColumnError:
        kind = dict(self.stated).get("kind", "unknown")
        wanted = NEEDED.get(str(kind), ("kind",))[0]
        return ColumnError(self.name, f"its {wanted} is not stated; state it, or have it found privately", wanted)


def is_partial(entry: Mapping[str, Any]) -> bool:
    """Whether the entry of a schema file leaves out what its kind needs.

    >>> is_partial({"kind": "integer"}), is_partial({"kind": "integer", "range": [0, 9]}), is_partial({"kind": "time"})
    (True, False, False)
    """
    kind = entry.get("kind")
    if kind == Unknown.kind:
        return True
    needed = NEEDED.get(str(kind), ())
    whole = "after" in entry or "pieces" in entry  # what such a column needs is told with its own error
    return bool(needed) and not whole and not any(key in entry for key in needed)
