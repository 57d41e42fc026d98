"""Bins of numeric and date columns, and coders of values that are stored as exact integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.marginals.domain import FineGrid, Order
from weft.schema.kinds.kind import Coder, Column, Label, Policies, make_single_label
from weft.values.bins import EACH_CELL, MAX_CODES, BinGrid, measure_roundness, public_cuts
from weft.values.storage import Carrier
from weft.values.text_numbers import NumberFormat

if TYPE_CHECKING:
    from weft.schema.kinds.attributes import AttributePart, Single


@dataclass(frozen=True)
class BinnedColumn(Column):
    """A column of numbers or times with a range or edges, divided into bins."""

    range: tuple[Any, ...] | None = None
    """Smallest and largest possible value, inclusive."""
    bins: int | Literal["each"] | None = field(default=None, kw_only=True)
    """Number of equal-width bins, or "each" for one code per value."""
    edges: tuple[Any, ...] | None = field(default=None, kw_only=True)
    """Edges of the bins, instead of range and bins; a bin contains its left edge, the last bin both edges."""
    special: tuple[Any, ...] = field(default=(), kw_only=True)
    """Values with their own code, inside or outside the range (0, or 999999 for not asked)."""
    after: str | None = field(default=None, kw_only=True)
    """Base column: range, edges and special then describe the difference from it, which is encoded instead."""

    policies: ClassVar[tuple[str, ...]] = ("refuse", "clip")
    outside_remedy = 'a value lies outside the schema. Widen range, add it to special, or set outside = "clip"'
    rounded: ClassVar[bool] = True
    """Whether values are often rounded to multiples of 5, 10, 100, ..."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need(
            self.after is None or (isinstance(self.after, str) and self.after not in ("", self.name)),
            "after must name another column",
            "after",
        )
        for key in ("range", "edges", "special"):
            given = getattr(self, key)
            if given is not None:
                self._need(isinstance(given, tuple), f"{key} must be a list", key)
                self._set(**{key: tuple(self._member(value, key) for value in given)})
        self._need(
            (self.range is None) != (self.edges is None),
            "declare either range = [lowest, highest] or edges = [...]",
            "range" if self.edges is None else "edges",
        )
        self._need(self.bins is None or self.edges is None, "declare either bins or edges, not both", "bins")
        whole = isinstance(self.bins, int) and not isinstance(self.bins, bool)
        self._need(
            self.bins is None
            or (self.bins == "each" and self.kind != "real")
            or (whole and 1 <= int(self.bins) <= MAX_CODES),
            "bins must be a number of bins" + ("" if self.kind == "real" else ' or "each"'),
            "bins",
        )
        if self.range is not None:
            two = len(self.range) == 2 and self.place(self.range[0]) <= self.place(self.range[1])
            self._need(two, "range must be [lowest, highest]", "range")
        if self.edges is not None:
            places = [self.place(edge) for edge in self.edges]
            rising = len(places) >= 2 and all(a < b for a, b in pairwise(places))
            self._need(rising, "edges must be at least two increasing values", "edges")
            self._need(len(places) <= MAX_CODES, f"edges must list at most {MAX_CODES} values", "edges")
        self._need_unlisted(self.special, "special")
        places = [self.place(value) for value in self.special]
        self._need(len(set(places)) == len(places), "special must not repeat a value", "special")

    def _member(self, value: Any, key: str) -> Any:
        raise NotImplementedError

    def place(self, value: Any) -> Any:
        """Return a number that orders the values."""
        return value

    @property
    def ends(self) -> tuple[Any, Any]:
        """Lowest and highest possible value."""
        outer = self.range or self.edges or ()
        return outer[0], outer[-1]

    @property
    def made_from(self) -> tuple[str, ...]:
        """Base column, if any."""
        return () if self.after is None else (self.after,)

    @property
    def extent(self) -> tuple[Any, Any]:
        """Lowest and highest possible value, including special values."""
        places = [*self.ends, *self.special]
        return min(places, key=self.place), max(places, key=self.place)

    def scale(self, arrow_type: pa.DataType, nan: bool) -> Scale:
        """Return how an Arrow type holds the values as exact integers, or raise ColumnError."""
        raise NotImplementedError

    def gaps(self, scale: Scale) -> BinGrid:
        """Compute the bins of the difference from the base column, in units of the scale."""
        raise NotImplementedError

    def check_span(self, scale: Scale, low: int, high: int) -> None:
        """Validate that the text format preserves values from `low` to `high`."""

    def part(self, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]) -> AttributePart:
        """Return the part that encodes the difference from the base column, or by default the column itself."""
        if self.after is None:
            return _make_single_part(self, fields[self.name])
        from weft.schema.kinds.difference import make_difference

        return make_difference(self, fields, columns)

    def order(self, coder: Coder) -> Order:
        """Return the order of the codes: ordered bins, then special values and missing as special codes."""
        assert isinstance(coder, BinCoder)
        return self.order_of(coder.bins, coder.size)

    def order_of(self, bins: Bins, size: int) -> Order:
        """Return the order of `size` codes, the first of which are these bins."""
        return Order(True, frozenset(range(bins.bins, size)), self._grid(bins, size))

    def _grid(self, bins: Bins, size: int) -> FineGrid:
        return fine_grid(bins, size, public_cuts, measure_roundness if self.rounded else None)

    def special_labels(self, write: Callable[[Any], str]) -> list[Label]:
        """Return the labels of the special values."""
        return [make_single_label(f"= {write(value)}", "special") for value in self.special]

    def need_fit(self, fits: bool, arrow_type: pa.DataType, key: str) -> None:
        """Raise ColumnError for a range or special value that the type cannot hold."""
        self._need(fits, f"{key} exceeds what its type {arrow_type} holds exactly", key)

    def need_bins(self, bins: Bins) -> None:
        """Validate that some values of the range are not special."""
        self._need(bins.bins > 0, "special leaves no value in range; declare a category instead", "special")


@dataclass(frozen=True)
class Scale:
    """Representation of a column's values as exact integers."""

    carrier: Carrier
    unit: Fraction
    """Value of the integer 1: a number, or nanoseconds."""
    grain: Fraction
    """Smallest difference between possible values."""
    time: bool = False
    """Whether the values are points in time."""
    zone: str | None = None
    day: int = 0
    """Length of a day in these integers if every value is midnight, otherwise 0."""


class Bins(Protocol):
    """Common interface of `BinGrid` and `FloatBins`."""

    @property
    def bins(self) -> int:
        """Number of bins with a code."""
        ...

    @property
    def size(self) -> int:
        """Number of codes."""
        ...

    def values(self) -> tuple[list[int], list[int]]:
        """Return the first value of each bin as an integer, and its number of values."""
        ...


@runtime_checkable
class BinCoder(Protocol):
    """A coder whose codes are bins, then special values, then missing."""

    size: int
    bins: Bins


def fine_grid(
    bins: Bins,
    size: int,
    cuts: Callable[[int, int], list[int]],
    levels: Callable[[Sequence[int], NDArray[Any]], NDArray[np.int64]] | None,
) -> FineGrid:
    """Compute the grid of the first one-way marginal: one cell per code, or cells between `cuts` for many codes."""
    starts, widths = bins.values()
    cells = np.arange(size)
    if bins.bins > EACH_CELL and max(widths) == 1:
        found = np.searchsorted(cuts(starts[0], starts[-1]), np.array(starts), side="right")
        _, cells[: bins.bins] = np.unique(found, return_inverse=True)
        cells[bins.bins :] -= bins.bins - 1 - cells[bins.bins - 1]
    first = np.unique(cells[: bins.bins], return_index=True)[1]
    held = np.bincount(cells[: bins.bins], weights=np.array(widths, np.float64))
    told = levels is not None and max(map(abs, starts)) < 2**62
    round_ = levels([starts[code] for code in first], held) if levels and told else np.zeros(len(first), np.int64)
    apart = size - bins.bins
    return FineGrid(cells, np.append(round_, np.zeros(apart, np.int64)), np.append(held, np.ones(apart)))


class PlacedCoder:
    """Base class of coders that place values in bins, and apply the policies of a column to the others."""

    _clip: bool
    _outcomes: Policies

    def encode(self, array: pa.Array) -> NDArray[np.int64]:
        """Return the code of each value."""
        return self._outcomes.settle(*self._locate(array, self._clip))

    def fits(self, array: pa.Array) -> NDArray[np.bool_]:
        """Return which values are in the range or special."""
        return self._outcomes.fits(*self._locate(array, clip=False))

    def _locate(self, array: pa.Array, clip: bool) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        raise NotImplementedError


class GridCoder(PlacedCoder):
    """Coder of values that their type stores as exact integers."""

    def __init__(self, column: BinnedColumn, grid: BinGrid, carrier: Carrier) -> None:
        column.need_bins(grid)
        self.bins: BinGrid = grid
        self._carrier = carrier
        self._clip = column.outside == "clip"
        self._outcomes = Policies(column, grid.size)
        self.size = self._outcomes.size

    def _locate(self, array: pa.Array, clip: bool) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        reading = self._carrier.read(array)
        codes = self.bins.locate(reading.values, reading.off, clip)
        missing = reading.missing
        if reading.unreadable is not None:
            codes[reading.unreadable] = -1
            if clip:
                missing = missing | reading.unreadable
        return codes, missing

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """Sample a value for each code."""
        codes = codes.astype(np.int64)
        missing = self._outcomes.is_missing(codes)
        return self._carrier.write(self.bins.draw(np.where(missing, 0, codes), rng), missing)

    def held(self, array: pa.Array) -> NDArray[np.int64]:
        """Return the integers that represent the values; arbitrary where a value is missing or unreadable."""
        return self._carrier.read(array).values.astype(np.int64)

    def write(self, codes: NDArray[np.int64], values: NDArray[np.int64], rng: np.random.Generator) -> pa.Array:
        """Return the values that have the expected codes, with a sampled value of that code in place of others."""
        fits = self.bins.locate(values, None, clip=False) == codes
        missing = self._outcomes.is_missing(codes)
        drawn = self.bins.draw(np.where(missing, 0, codes), rng)
        return self._carrier.write(np.where(fits, values.view(np.uint64), drawn), missing)


def small_decimal(arrow_type: pa.DataType) -> bool:
    """Return whether 64-bit integers can hold a decimal type in units of its last digit."""
    return bool(pa.types.is_decimal(arrow_type) and arrow_type.bit_width <= 128 and 0 <= arrow_type.scale <= 18)


@lru_cache(maxsize=32)
def _make_single_part(column: BinnedColumn, field: pa.Field) -> Single:
    """Return the part of a single column, cached because fine bins are slow to compute; depends on the schema only."""
    from weft.schema.kinds.attributes import Single

    return Single(column, field)


_MARKS = (".", ",", " ", "'", "\u2019", "\u00a0", "\u202f", "_")


@dataclass(frozen=True)
class Number(BinnedColumn):
    """A number and its format in text; typed columns do not use the format."""

    prefix: str = field(default="", kw_only=True)
    """Text before a number, such as "$"; optional when read, always written."""
    suffix: str = field(default="", kw_only=True)
    """Text after a number, such as "%" or " EUR"."""
    thousands: str = field(default="", kw_only=True)
    """Separator between groups of three digits, such as ","."""
    decimal: str = field(default=".", kw_only=True)
    """Decimal separator."""
    accounting: bool = field(default=False, kw_only=True)
    """Whether negative numbers are written in parentheses."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("prefix", "suffix"):
            text = getattr(self, key)
            fits = isinstance(text, str) and not any(sign.isdigit() or sign in "+-()\r\n" for sign in text)
            self._need(fits, f'{key} must be text without digits or signs, such as "$" or "%"', key)
        self._need(self.thousands in ("", *_MARKS), 'thousands must be a separator such as "," or "."', "thousands")
        self._need(self.decimal in (".", ","), 'decimal must be "." or ","', "decimal")
        self._need(self.decimal != self.thousands, "thousands and decimal must differ", "thousands")
        self._need(isinstance(self.accounting, bool), "accounting must be true or false", "accounting")

    @property
    def number_format(self) -> NumberFormat | None:
        """Declared format of numbers in text."""
        made = NumberFormat(self.prefix, self.suffix, self.thousands, self.decimal, self.accounting)
        return None if made == NumberFormat() else replace(made, digits=self.fraction)

    @property
    def fraction(self) -> int:
        """Decimal places of every number that is written in a declared number format."""
        return 0
