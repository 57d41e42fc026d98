"""Derived columns: computed from other columns by a formula or a public map, never read and never measured.

Privacy: a derived column has no attribute, so that no query depends on its values (sensitivity 0) and it costs nothing.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.schema.kinds.attributes import Arrays, AttributePart, ComputedPart, dictionary_array
from weft.schema.kinds.category import make_listed_array, write_category_value
from weft.schema.kinds.formula import (
    MONTHS,
    Name,
    Node,
    Reader,
    compute_interval,
    evaluate_formula,
    list_formula_names,
    make_number_reader,
    parse_formula,
    piece_interval,
    piece_reader,
    plain_type,
    sources_of,
)
from weft.schema.kinds.integer import Integer
from weft.schema.kinds.kind import Column, ColumnError, Scalar
from weft.schema.kinds.numeric_bins import small_decimal
from weft.values.arithmetic import Interval, NumberArray
from weft.values.storage import decimal_array, decode_dictionary, write_floats
from weft.values.text_numbers import is_text
from weft.values.timestamps import DAY, moment_unit

_EACH = 10_000  # maximum size of an integer range that a map must list completely


class _Computed(ComputedPart):
    """Base class of the parts of derived columns."""

    def __init__(self, column: Derived, fields: Mapping[str, pa.Field]) -> None:
        super().__init__(column.name, column.made_from)
        self._column, self._field = column, fields[column.name]
        self._type = plain_type(self._field)

    def stored(self, array: pa.Array) -> dict[str, pa.Array]:
        """Return the column in the type of its field."""
        if pa.types.is_floating(array.type) and not self._field.nullable:
            array = array.fill_null(float("nan"))
        declared = self._field.type
        return {self.columns[0]: dictionary_array(array, declared) if pa.types.is_dictionary(declared) else array}


class MapPart(_Computed):
    """A column computed from another one by a public map."""

    def __init__(self, column: Derived, source: Column, fields: Mapping[str, pa.Field]) -> None:
        super().__init__(column, fields)
        given = fields[source.name]
        if source.listed is not None:
            listed: Sequence[Scalar] = source.listed
            self._known = make_listed_array(source, source.listed, plain_type(given))
            self._scale = None
        elif isinstance(source, Integer):
            low, high = source.extent
            few = source.after is None and (high - low) // source.step < _EACH
            listed = [*range(low, source.ends[1] + 1, source.step), *source.special] if few else ()
            if not few and column.otherwise is None:
                raise ColumnError(column.name, f'"{source.name}" has too many values to list: add else = "..."', "map")
            self._known = pa.array(column.translation, pa.string())
            self._scale = source.scale(plain_type(given), nan=not given.nullable)
        else:
            raise ColumnError(column.name, f'of must name a category, boolean or integer, not "{source.name}"', "of")
        lacking = [value for value in listed if write_category_value(value) not in column.translation]
        if lacking and column.otherwise is None:
            raise ColumnError(
                column.name, f'map lacks the value "{lacking[0]}" of "{source.name}": add it, or else = "..."', "map"
            )
        otherwise = [] if column.otherwise is None else [column.otherwise]
        keys = listed if self._scale is None else list(column.translation)
        values = [column.translation.get(write_category_value(key), column.otherwise) for key in keys] + otherwise
        outcomes = column.listed or ()
        made = make_listed_array(column, outcomes, self._type)
        places = [outcomes.index(value) for value in values if value is not None]
        self._values = made.take(pa.array(places, pa.int64())).cast(self._type)

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Map the decoded values of the other column."""
        source = decode_dictionary(made[self.needs[0]])
        if self._scale is not None:
            reading = self._scale.carrier.read(source)
            numbers = reading.values // np.array(self._scale.unit.denominator, reading.values.dtype)
            source = pa.array(numbers, mask=reading.missing).cast(pa.string())
        else:
            source = source.cast(self._known.type)
            if pa.types.is_floating(source.type):
                source = pc.if_else(pc.is_nan(source), None, source)
        place = pc.index_in(source, value_set=self._known, skip_nulls=True)
        place = pc.if_else(pc.is_valid(source), pc.fill_null(place, len(self._values) - 1), None)
        return self.stored(self._values.take(place))


class FormulaPart(_Computed):
    """A column computed from others by a formula."""

    def __init__(
        self,
        column: Derived,
        readers: Mapping[Name, Reader],
        fields: Mapping[str, pa.Field],
        columns: Mapping[str, Column],
    ) -> None:
        super().__init__(column, fields)
        self._readers = readers
        self._text = column.plain_type() == pa.string()
        self._require_room(column.interval(columns))

    def _require_room(self, held: Interval) -> None:
        """Validate that the type can hold every result that the schema allows."""
        kind, column = self._type, self._column
        if is_text(kind) or (not self._text and pa.types.is_floating(kind) and not pa.types.is_float16(kind)):
            return
        unit = moment_unit(kind)
        zoned = pa.types.is_timestamp(kind) and kind.tz is not None and kind.tz.upper() != "UTC"
        if self._text or zoned or not (pa.types.is_integer(kind) or small_decimal(kind) or unit is not None):
            raise column.unfit(kind)
        if small_decimal(kind):
            top = 10 ** min(kind.precision, 18) - 1
            low, high, one = -top, top, Fraction(1, 10**kind.scale)
        else:
            info = np.iinfo(np.int32 if pa.types.is_date32(kind) else np.int64 if unit else kind.to_pandas_dtype())
            low, high, one = int(info.min), min(int(info.max), 2**62), Fraction(unit or DAY, DAY)
        if held.low is None or held.high is None or not (low * one <= held.low and held.high <= high * one):
            remedy = 'use a larger type, or "float64"'
            raise ColumnError(column.name, f"formula may exceed the limits of its type {kind}; {remedy}", "formula")

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Compute the formula from the decoded values of the other columns."""
        read = {name: reader(decode_dictionary(made[name.column])) for name, reader in self._readers.items()}
        return self.stored(self._write(evaluate_formula(self._column.node, read.__getitem__, NumberArray.of)))

    def _write(self, made: NumberArray) -> pa.Array:
        kind, missing = self._type, made.missing
        if self._text:
            return pa.array(MONTHS).take(pa.array(made.in_units(Fraction(1)) - 1, mask=missing)).cast(kind)
        if pa.types.is_floating(kind):
            return write_floats(made.floats(), missing, kind, nan=False)
        if small_decimal(kind):
            return decimal_array(made.in_units(Fraction(1, 10**kind.scale)), kind.scale, missing).cast(kind)
        unit = moment_unit(kind)
        if unit is not None:
            whole = made.in_units(Fraction(unit, DAY), floor=True)
            whole = whole - whole % (DAY // unit) if pa.types.is_date64(kind) else whole
            stored = pa.int32() if pa.types.is_date32(kind) else pa.int64()
            return pa.array(whole, mask=missing).cast(stored).cast(kind)
        if is_text(kind):
            return _write_numbers(made).cast(kind)
        return pa.array(made.in_units(Fraction(1)), mask=missing).cast(kind)


def _write_numbers(made: NumberArray) -> pa.Array:
    """Format numbers with all digits of their unit."""
    digits = next((d for d in range(19) if made.unit is not None and (made.unit * 10**d).denominator == 1), None)
    if digits is None:
        return pa.array(made.floats(), mask=made.missing).cast(pa.string())
    whole = made.in_units(Fraction(1, 10**digits))
    if digits == 0:
        return pa.array(whole, mask=made.missing).cast(pa.string())
    return decimal_array(whole, digits, made.missing).cast(pa.string())


Pairs = tuple[tuple[str, Scalar], ...]

_HELP = 'declare formula = "a + b", or of = "column" and map = {"from" = "to"}'


@dataclass(frozen=True)
class Derived(Column):
    """A column computed from others by a formula, or from one of them by a map."""

    formula: str | None = None
    """Arithmetic over columns, such as "nights + week_nights" or "year(arrival)"."""
    of: str | None = field(default=None, kw_only=True)
    """Column to which the map is applied."""
    map: Pairs | Mapping[Any, Scalar] | str | None = field(default=None, kw_only=True)
    """Value of this column for each value of the other one, or a CSV file with a header and these two columns."""
    otherwise: Scalar | None = field(default=None, kw_only=True)
    """Default for values that the map does not list; `else` in a schema file."""

    kind: ClassVar[str] = "derived"
    modelled: ClassVar[bool] = False
    read: ClassVar[bool] = False
    spelling: ClassVar[Mapping[str, str]] = {"otherwise": "else"}
    flipped: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need((self.formula is None) == (self.of is not None), _HELP, "formula" if self.formula else "of")
        self._need((self.of is None) == (self.map is None), "of and map require each other: " + _HELP, "map")
        self._need(self.otherwise is None or self.map is not None, "else requires a map", "else")
        if self.formula is not None:
            self._need(isinstance(self.formula, str), 'formula must be a string, such as "a + b"', "formula")
            try:
                found = list_formula_names(parse_formula(self.formula))
            except ValueError as error:
                raise ColumnError(self.name, f"formula: {error}", "formula") from None
            self._need(len(found) > 0, "formula names no column; name at least one", "formula")
            whole = isinstance(self.node, Name) or all(name.piece != "monthname" for name in found)
            self._need(whole, "monthname is text and cannot be combined: formula = 'monthname(arrival)'", "formula")
        else:
            self._need(isinstance(self.of, str), "of must name a column", "of")
            self._set(map=self._pairs())

    def _pairs(self) -> Pairs:
        """Return the map as pairs, read from its file if necessary, so that the schema is self-contained."""
        given = self.map
        if isinstance(given, str):
            given = self._file(Path(given))
        pairs = tuple(given.items()) if isinstance(given, Mapping) else tuple(tuple(pair) for pair in given or ())
        self._need(all(len(pair) == 2 for pair in pairs) and len(pairs) > 0, 'map must be a table: {"x" = "X"}', "map")
        values = [value for _, value in pairs] + ([] if self.otherwise is None else [self.otherwise])
        kinds = {type(value) for value in values}
        self._need(
            len(kinds) == 1 and kinds <= {str, int, float, bool},
            "results of map and else must be all strings, all whole numbers, all decimal numbers or all booleans",
            "map",
        )
        keys = [write_category_value(key) for key, _ in pairs]
        self._need(len(set(keys)) == len(keys), "map lists a value twice", "map")
        return tuple((key, value) for key, (_, value) in zip(keys, pairs, strict=True))

    def _file(self, path: Path) -> dict[str, str]:
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = [row for row in csv.reader(file) if row]
        except (OSError, UnicodeDecodeError, csv.Error):
            raise ColumnError(
                self.name, f"map: cannot read {path}; expected a UTF-8 CSV file, relative to the working folder", "map"
            ) from None
        self._need(all(len(row) == 2 for row in rows), f"map: {path} must have two columns and a header", "map")
        keys = [row[0] for row in rows[1:]]
        self._need(len(set(keys)) == len(keys), f"map: {path} lists a value twice", "map")
        return dict(rows[1:])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, the map as a table."""
        entry = super().to_dict()
        if self.map is not None:
            entry["map"] = dict(self._map)
        return entry

    @cached_property
    def node(self) -> Node:
        """The parsed formula."""
        return parse_formula(self.formula or "")

    @property
    def _map(self) -> Pairs:
        assert isinstance(self.map, tuple)
        return self.map

    @property
    def made_from(self) -> tuple[str, ...]:
        """Columns from which this one is computed."""
        if self.of is not None:
            return (self.of,)
        return tuple(dict.fromkeys(name.column for name in list_formula_names(self.node)))

    @property
    def listed(self) -> tuple[Scalar, ...] | None:
        """Possible results of the map."""
        if self.map is None:
            return None
        return tuple(
            dict.fromkeys([value for _, value in self._map] + ([] if self.otherwise is None else [self.otherwise]))
        )

    @property
    def _piece(self) -> str | None:
        return self.node.piece if self.formula is not None and isinstance(self.node, Name) else None

    def plain_type(self) -> pa.DataType:
        """Return the type of the map's results, integers or text for pieces of dates, and floats by default."""
        if self.listed is not None:
            first = self.listed[0]
            kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
            return kinds[type(first)]
        if self._piece == "monthname":
            return pa.string()
        return pa.float64() if self._piece is None else pa.int64()

    def interval(self, columns: Mapping[str, Column]) -> Interval:
        """Compute the interval of possible values from the schema."""
        if self.formula is None:
            return compute_interval(self, columns)

        def named(name: Name) -> Interval:
            column = columns[name.column]
            own = column.interval(columns) if isinstance(column, Derived) else compute_interval(column, columns)
            return own if name.piece is None else piece_interval(name.piece, own)

        return evaluate_formula(self.node, named, Interval.of)

    def may_be_missing(self, columns: Mapping[str, Column]) -> bool:
        """Return whether values may be missing, because of a missing source value or a division by zero."""
        for name in self.made_from:
            column = columns[name]
            if column.may_be_missing(columns) if isinstance(column, Derived) else column.missing:
                return True
        return self.formula is not None and self.interval(columns).low is None

    def part(self, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]) -> AttributePart:
        """Return the part that computes the column from others."""
        sources = sources_of(self, columns, "formula" if self.formula is not None else "of")
        own = fields[self.name]
        says_nan = pa.types.is_floating(plain_type(own))
        self._need(
            own.nullable or self.missing or says_nan or not self.may_be_missing(columns),
            "a column that it is computed from may be missing: set missing = true",
            "missing",
        )
        if self.of is not None:
            return MapPart(self, sources[0], fields)
        return FormulaPart(self, self._readers(fields, columns), fields, columns)

    def _readers(self, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]) -> dict[Name, Reader]:
        readers = {}
        for name in list_formula_names(self.node):
            column, source = columns[name.column], fields[name.column]
            found = (
                make_number_reader(column, source) if name.piece is None else piece_reader(column, source, name.piece)
            )
            wanted = "a number or a date" if name.piece is None else "a date"
            if found is None:
                raise ColumnError(self.name, f'formula: "{name.column}" is not {wanted}', "formula")
            readers[name] = found
        return readers

    @property
    def translation(self) -> dict[str, Scalar]:
        """The map, keyed by values as text."""
        return dict(self._map)
