"""Category columns: one of a list of values."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.marginals.domain import Order
from weft.schema.kinds.draft_facts import (
    COMMON,
    MAX_CATEGORY_INTEGERS,
    MAX_LISTED_TEXTS,
    MAX_UNREMARKED_TEXTS,
    ColumnEvidence,
    Guess,
)
from weft.schema.kinds.kind import Coder, Column, ColumnError, Label, Policies, Scalar, make_single_label
from weft.values.bins import MAX_CODES
from weft.values.storage import missing_of
from weft.values.text_numbers import is_text


class ListedCoder:
    """Coder of listed values: one code per value, in schema order, compared in the column's type."""

    def __init__(self, column: Column, arrow_type: pa.DataType, nan: bool, other: Scalar | None = None) -> None:
        self._type, self._nan = arrow_type, nan
        listed = column.listed or ()
        self.values = make_listed_array(column, listed, arrow_type)
        self._outcomes = Policies(column, len(listed), None if other is None else listed.index(other))
        self.size = self._outcomes.size
        try:
            self.encode(pa.array([], arrow_type))
            self.decode(np.empty(0, np.int64), np.random.default_rng(0))
        except pa.ArrowException:  # Arrow implements no lookup for this type
            raise column.unfit(arrow_type) from None

    def encode(self, array: pa.Array) -> NDArray[np.int64]:
        """Return the code of each value."""
        return self._outcomes.settle(*self._locate(array))

    def fits(self, array: pa.Array) -> NDArray[np.bool_]:
        """Return which values are in the list."""
        return self._outcomes.fits(*self._locate(array))

    def _locate(self, array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        array = array.cast(self.values.type)
        if pa.types.is_floating(array.type):
            array = pc.if_else(pc.is_nan(array), None, pc.add(array, pa.scalar(0.0, array.type)))
        codes = pc.index_in(array, value_set=self.values, skip_nulls=True).fill_null(-1)
        return codes.to_numpy(zero_copy_only=False).astype(np.int64), missing_of(array)

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """Return the value of each code."""
        array = self.values.take(self.indices(codes))
        if self._nan and pa.types.is_floating(array.type):
            array = array.fill_null(float("nan"))
        return array.cast(self._type)

    def indices(self, codes: NDArray[Any]) -> pa.Array:
        """Return indices into the list of values, null for missing."""
        return pa.array(codes.astype(np.int64), mask=self._outcomes.is_missing(codes))


def make_listed_array(column: Column, listed: tuple[Scalar, ...], arrow_type: pa.DataType) -> pa.Array:
    """Return the listed values in the column's type, or in an equivalent type for which Arrow implements a lookup."""
    if is_text(arrow_type):
        target = pa.large_string() if pa.types.is_string_view(arrow_type) else arrow_type
        plain: list[Any] = [write_category_value(value) for value in listed]
    elif pa.types.is_decimal256(arrow_type):
        # Invalid whatever the rows hold: Arrow has no lookup for this type, and a cast may fail on a value.
        raise column.unfit(arrow_type)
    else:
        small_decimal = pa.types.is_decimal(arrow_type) and not pa.types.is_decimal128(arrow_type)
        target = pa.decimal128(38, arrow_type.scale) if small_decimal else arrow_type
        target = pa.large_binary() if pa.types.is_binary_view(arrow_type) else target
        plain = list(listed)
    try:
        array = _cast_values(plain, target)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise ColumnError(column.name, f"its values do not fit its type {arrow_type}; convert them", "values") from None
    if len(pc.unique(array)) < len(array):
        raise ColumnError(column.name, f"two of its values are equal in the column's type {arrow_type}", "values")
    return array


def _cast_values(plain: list[Any], target: pa.DataType) -> pa.Array:
    if isinstance(plain[0], float) and pa.types.is_decimal(target):
        plain = [repr(value) for value in plain]
    if isinstance(plain[0], int) and not isinstance(plain[0], bool) and pa.types.is_integer(target):
        return pa.array(plain, type=target)
    array = pa.array(plain).cast(target)
    if pa.types.is_floating(target):
        array = pc.add(array, pa.scalar(0.0, target))  # -0.0 is 0.0
    return array


def write_category_value(value: Scalar) -> str:
    """Return a value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


@dataclass(frozen=True)
class Category(Column):
    """One of a list of values: all strings, all integers, all decimal numbers or all Booleans."""

    values: tuple[Scalar, ...] = ()
    """Possible values, in the order of their codes."""
    other: Scalar | None = field(default=None, kw_only=True)
    """Optional value that represents all unlisted ones; added to `values` if not listed."""

    kind: ClassVar[str] = "category"
    policies: ClassVar[tuple[str, ...]] = ("refuse", "other")
    outside_remedy = 'a value is not listed in the schema. Add it to values, or declare other = "..."'
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
            "values must all be strings, all whole numbers, all decimal numbers (1.0, 2.5) or all booleans",
            "values",
        )
        self._need(
            all(math.isfinite(v) for v in self.values if isinstance(v, float)),
            "values must be finite; for NaN set missing = true",
            "values",
        )
        self._need(len(set(self.values)) == len(self.values), "values must not repeat a value", "values")
        self._need(len(self.values) <= MAX_CODES, f"values must list at most {MAX_CODES} values", "values")
        self._need_unlisted(self.values, "values")
        self._need(
            (self.outside == "other") == (self.other is not None),
            'outside = "other" requires other: declare other = "..." (the value that represents the rest)',
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
        """Return a coder with one code per value."""
        return ListedCoder(self, arrow_type, nan, self.other)

    def order(self, coder: Coder) -> Order:
        """Return an unordered `Order` whose special codes are `other` and missing."""
        other = frozenset() if self.other is None else frozenset([self.values.index(self.other)])
        return Order(apart=super().order(coder).apart | other)

    def labels(self, arrow_type: pa.DataType, size: int) -> list[Label]:
        """Return the values as labels."""
        return [make_single_label(str(value), "value") for value in self.values]

    @property
    def listed(self) -> tuple[Scalar, ...]:
        """Possible values."""
        return self.values

    @classmethod
    def recognise(cls, evidence: ColumnEvidence) -> Guess | None:
        """Recognise text with few different values, integers that look like codes, and columns without values."""
        if pa.types.is_null(evidence.type):
            return Guess({"kind": cls.kind, "values": ["unknown"]}, "Only missing values were seen.")
        if is_text(evidence.type):
            if not len(evidence.values):
                return Guess({"kind": cls.kind, "values": ["unknown"]}, "No value was seen: list the possible values.")
            several = len(evidence.different) > MAX_LISTED_TEXTS
            if several and not pc.any(pc.match_substring_regex(evidence.different, "[\r\n]")).as_py():
                order = np.lexsort((np.arange(len(evidence.counts)), -evidence.counts))[:COMMON]
                values = sorted(evidence.different.take(pa.array(order)).to_pylist())
                told = (
                    "Text with very many different values: the most common are listed, and other represents the rest."
                )
                return Guess({"kind": "category", "values": values, "other": "other"}, told)
            reason = "Text with a limited number of different values."
            if len(evidence.different) > MAX_UNREMARKED_TEXTS:
                reason = "Text with very many different values: keep common ones and declare other, or make it an id."
            return Guess({"kind": cls.kind, "values": sorted(evidence.different.to_pylist())}, reason)
        if pa.types.is_integer(evidence.type) and 0 < len(evidence.different) <= MAX_CATEGORY_INTEGERS:
            values = sorted(evidence.different.to_pylist())
            return Guess({"kind": cls.kind, "values": values}, "Whole numbers that look like codes.")
        return None
