"""The parts of derived columns: they have no attribute, read nothing from rows, and compute a column from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.marginals.domain import Domain
from weft.schema.kinds.base import Column, ColumnError, Scalar
from weft.schema.kinds.binned import small_decimal
from weft.schema.kinds.formula import Name, evaluate
from weft.schema.kinds.integer import Integer
from weft.schema.kinds.labels import Label
from weft.schema.kinds.listed import listed_values, written
from weft.schema.kinds.operands import MONTHS, Reader, moment_unit, plain_type
from weft.schema.kinds.part import Arrays
from weft.schema.kinds.stored import dictionary_array
from weft.values.exact import Interval, Numbers
from weft.values.instants import DAY
from weft.values.storage import decimal_array, decoded, write_floats
from weft.values.text import is_text

if TYPE_CHECKING:
    from weft.schema.kinds.derived import Derived

_EACH = 10_000  # whole numbers of a range that a map is expected to list


class _Computed:
    """What the parts of derived columns share: no attribute, and nothing read from rows."""

    def __init__(self, column: Derived, fields: Mapping[str, pa.Field]) -> None:
        self.columns = (column.name,)
        self.reads: tuple[str, ...] = ()
        self.needs = column.made_from
        self.domain = Domain((), ())
        self._column, self._field = column, fields[column.name]
        self._type = plain_type(self._field)

    def labels(self) -> list[tuple[Label, ...]]:
        """Name nothing: there is no attribute."""
        return []

    def encode(self, arrays: Arrays) -> list[NDArray[np.int64]]:
        """Return nothing: a row adds nothing to any table."""
        return []

    def stored(self, array: pa.Array) -> dict[str, pa.Array]:
        """Return the column as its field stores it."""
        if pa.types.is_floating(array.type) and not self._field.nullable:
            array = array.fill_null(float("nan"))
        declared = self._field.type
        return {self.columns[0]: dictionary_array(array, declared) if pa.types.is_dictionary(declared) else array}


class MapPart(_Computed):
    """A column by a public map of another."""

    def __init__(self, column: Derived, source: Column, fields: Mapping[str, pa.Field]) -> None:
        super().__init__(column, fields)
        given = fields[source.name]
        if source.listed is not None:
            listed: Sequence[Scalar] = source.listed
            self._known = listed_values(source, source.listed, plain_type(given))
            self._scale = None
        elif isinstance(source, Integer):
            low, high = source.extent
            few = source.after is None and (high - low) // source.step < _EACH
            listed = [*range(low, source.ends[1] + 1, source.step), *source.special] if few else ()
            if not few and column.otherwise is None:
                raise ColumnError(column.name, f'"{source.name}" has many values: add else = "..."', "map")
            self._known = pa.array(column.translation, pa.string())
            self._scale = source.scale(plain_type(given), nan=not given.nullable)
        else:
            raise ColumnError(
                column.name, f'of must name a category, a boolean or a whole number; "{source.name}" is none', "of"
            )
        lacking = [value for value in listed if written(value) not in column.translation]
        if lacking and column.otherwise is None:
            raise ColumnError(
                column.name, f'map lacks "{lacking[0]}", a value of "{source.name}": add it, or else = "..."', "map"
            )
        otherwise = [] if column.otherwise is None else [column.otherwise]
        keys = listed if self._scale is None else list(column.translation)
        values = [column.translation.get(written(key), column.otherwise) for key in keys] + otherwise
        outcomes = column.listed or ()
        made = listed_values(column, outcomes, self._type)
        places = [outcomes.index(value) for value in values if value is not None]
        self._values = made.take(pa.array(places, pa.int64())).cast(self._type)

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Translate the values that were made of the other column."""
        source = decoded(made[self.needs[0]])
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
    """A column by a formula over others."""

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
        """Refuse a type that cannot hold every result that the schema allows."""
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
            remedy = 'take a larger type, or "float64"'
            raise ColumnError(column.name, f"formula may reach beyond what its type {kind} holds; {remedy}", "formula")

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Work the formula out on the values that were made of the other columns."""
        read = {name: reader(decoded(made[name.column])) for name, reader in self._readers.items()}
        return self.stored(self._write(evaluate(self._column.node, read.__getitem__, Numbers.of)))

    def _write(self, made: Numbers) -> pa.Array:
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
            return _written(made).cast(kind)
        return pa.array(made.in_units(Fraction(1)), mask=missing).cast(kind)


def _written(made: Numbers) -> pa.Array:
    """Write numbers as text, with all the digits of their unit."""
    digits = next((d for d in range(19) if made.unit is not None and (made.unit * 10**d).denominator == 1), None)
    if digits is None:
        return pa.array(made.floats(), mask=made.missing).cast(pa.string())
    whole = made.in_units(Fraction(1, 10**digits))
    if digits == 0:
        return pa.array(whole, mask=made.missing).cast(pa.string())
    return decimal_array(whole, digits, made.missing).cast(pa.string())
