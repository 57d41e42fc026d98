"""Boolean columns."""

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from weft.schema.kinds.category import ListedCoder
from weft.schema.kinds.draft_facts import ColumnEvidence, Guess
from weft.schema.kinds.kind import Coder, Column, Label, Scalar, make_single_label


@dataclass(frozen=True)
class Boolean(Column):
    """True or false. With `outside = "clip"`, other values count as missing."""

    kind: ClassVar[str] = "boolean"
    policies: ClassVar[tuple[str, ...]] = ("refuse", "clip")
    outside_remedy = 'a value is neither true nor false. Set outside = "clip" to count it as missing'
    flipped: ClassVar[tuple[str, ...]] = ("missing", "outside")

    def plain_type(self) -> pa.DataType:
        """Return the Arrow Boolean type."""
        return pa.bool_()

    def coder(self, arrow_type: pa.DataType, nan: bool) -> Coder:
        """Return a coder with the codes 0 for false and 1 for true."""
        return ListedCoder(self, arrow_type, nan)

    def labels(self, arrow_type: pa.DataType, size: int) -> list[Label]:
        """Return the labels of both values."""
        return [make_single_label("false", "value"), make_single_label("true", "value")]

    @property
    def listed(self) -> tuple[Scalar, ...]:
        """Possible values."""
        return (False, True)

    @classmethod
    def recognise(cls, evidence: ColumnEvidence) -> Guess | None:
        """Recognise Boolean types."""
        return Guess({"kind": cls.kind}, "True or false.") if pa.types.is_boolean(evidence.type) else None
