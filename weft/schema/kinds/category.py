"""One of a list of values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.marginals.domain import Order
from weft.schema.kinds.base import Coder, Column, Scalar
from weft.schema.kinds.evidence import COMMON, FEW, MANY, VERY_MANY, Evidence, Guess
from weft.schema.kinds.labels import Label, one
from weft.schema.kinds.listed import ListedCoder
from weft.values.limits import MAX_CODES
from weft.values.text import is_text


@dataclass(frozen=True)
class Category(Column):
    """One of a list of values, all texts, all whole numbers, all decimal numbers or all booleans."""

    values: tuple[Scalar, ...] = ()
    """The possible values; their order is the order of the codes."""
    other: Scalar | None = field(default=None, kw_only=True)
    """Value that stands for every unknown one; added to `values` if it is not there."""

    kind: ClassVar[str] = "category"
    policies: ClassVar[tuple[str, ...]] = ("refuse", "other")
    flipped: ClassVar[tuple[str, ...]] = ("values", "missing")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need(isinstance(self.values, tuple), "values must be a list", "values")
        if self.other is not None and self.other not in self.values:
            self._set(values=(*self.values, self.other))
        self._need(len(self.values) > 0, 'values must list at least one value, such as ["a", "b"]', "values")
        kinds = {type(value) for value in self.values}
        self._need(
            len(kinds) == 1 and kinds <= {str, int, float, bool},
            "values must all be texts, all whole numbers, all decimal numbers (1.0, 2.5) or all booleans",
            "values",
        )
        self._need(
            all(math.isfinite(v) for v in self.values if isinstance(v, float)),
            "values must be finite; for not-a-number set missing = true",
            "values",
        )
        self._need(len(set(self.values)) == len(self.values), "values must differ from one another", "values")
        self._need(len(self.values) <= MAX_CODES, f"values must be at most {MAX_CODES}", "values")
        self._need_unlisted(self.values, "values")
        self._need(
            (self.outside == "other") == (self.other is not None),
            'outside = "other" and other go together: declare other = "..." (the value that stands for the rest)',
            "other",
        )

    def plain_type(self) -> pa.DataType:
        """Return the type of the listed values."""
        first = self.values[0]
        if isinstance(first, bool):
            return pa.bool_()
        if isinstance(first, int):
            return pa.uint64() if self.largest >= 2**63 else pa.int64()
        return pa.float64() if isinstance(first, float) else pa.string()

    def coder(self, arrow_type: pa.DataType, nan: bool) -> Coder:
        """Return one code a value."""
        return ListedCoder(self, arrow_type, nan, self.other)

    def order(self, coder: Coder) -> Order:
        """The value that stands for all others, and missing, stand apart."""
        other = frozenset() if self.other is None else frozenset([self.values.index(self.other)])
        return Order(apart=super().order(coder).apart | other)

    def labels(self, arrow_type: pa.DataType, size: int) -> list[Label]:
        """Name each value as it is."""
        return [one(str(value), "value") for value in self.values]

    @property
    def outside_remedy(self) -> str:
        """What to do about a value that is not listed."""
        return 'a value is not among the schema\'s. Add it to values, or declare other = "..."'

    @property
    def listed(self) -> tuple[Scalar, ...]:
        """The possible values."""
        return self.values

    @classmethod
    def recognise(cls, evidence: Evidence) -> Guess | None:
        """Take text with a limited number of values, whole numbers that look like codes, and columns without values."""
        if pa.types.is_null(evidence.type):
            return Guess({"kind": cls.kind, "values": ["unknown"]}, "Nothing but missing values.")
        if is_text(evidence.type):
            if not len(evidence.values):
                return Guess({"kind": cls.kind, "values": ["unknown"]}, "No value was seen: list the possible ones.")
            if len(evidence.different) > VERY_MANY and not _breaks(evidence.different):
                return _commonest(evidence)
            reason = "Text with a limited number of different values."
            if len(evidence.different) > MANY:
                reason = (
                    "Text with very many different values: keep the common ones and declare other, or make it an id."
                )
            return Guess({"kind": cls.kind, "values": sorted(evidence.different.to_pylist())}, reason)
        if pa.types.is_integer(evidence.type) and 0 < len(evidence.different) <= FEW:
            values = sorted(evidence.different.to_pylist())
            return Guess({"kind": cls.kind, "values": values}, "Whole numbers that look like codes.")
        return None


def _commonest(evidence: Evidence) -> Guess:
    order = np.lexsort((np.arange(len(evidence.counts)), -evidence.counts))[:COMMON]
    values = sorted(evidence.different.take(pa.array(order)).to_pylist())
    reason = "Text with very many different values: the commonest are listed, and other stands for the rest."
    return Guess({"kind": "category", "values": values, "other": "other"}, reason)


def _breaks(words: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(words, "[\r\n]")).as_py())
