"""True or false."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from weft.schema.kinds.category import ListedCoder
from weft.schema.kinds.draft_facts import ColumnEvidence, Guess
from weft.schema.kinds.kind import Coder, Column, Label, Scalar, make_single_label


@dataclass(frozen=True)
class Boolean(Column):
    """True or false. With `outside = "clip"`, anything else counts as missing."""

    kind: ClassVar[str] = "boolean"
    policies: ClassVar[tuple[str, ...]] = ("refuse", "clip")
    flipped: ClassVar[tuple[str, ...]] = ("missing", "outside")

    def plain_type(self) -> pa.DataType:
        """Return Arrow's truth values."""
        return pa.bool_()

    def coder(self, arrow_type: pa.DataType, nan: bool) -> Coder:
        """Return a code for false and one for true."""
        return ListedCoder(self, arrow_type, nan)

    def labels(self, arrow_type: pa.DataType, size: int) -> list[Label]:
        """Name both values."""
        return [make_single_label("false", "value"), make_single_label("true", "value")]

    @property
    def outside_remedy(self) -> str:
        """What to do about a value that is neither."""
        return 'a value is neither true nor false. Set outside = "clip" to count it as missing'

    @property
    def listed(self) -> tuple[Scalar, ...]:
        """The possible values."""
        return (False, True)

    @classmethod
    def recognise(cls, evidence: ColumnEvidence) -> Guess | None:
        """Take truth values."""
        return Guess({"kind": cls.kind}, "True or false.") if pa.types.is_boolean(evidence.type) else None
