"""Check a card's statements about its rows: values and ranges, formulas, per-person constants, and schema rules.

Rows are checked block by block; columns of checks that compare rows of different blocks are kept until the end.
Only synthetic rows are read.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.display import format_count
from weft.encoding import Codec
from weft.encoding.date_pieces import find_misfits
from weft.encoding.persons import find_repeats
from weft.schema.kinds import Derived
from weft.schema.kinds.attributes import AttributePart, coder_of, plain_coder
from weft.schema.kinds.kind import CheckingCoder
from weft.schema.rules import Block
from weft.values.storage import decode_dictionary

Mask = NDArray[np.bool_]

_NEAR = 1e-9  # relative difference between float64 values attributed to rounding

NO_FITS = "this column kind does not support validation of values"


@dataclass(frozen=True)
class RowStatement:
    """One statement of a card about every row, and the result of its check."""

    what: str
    broken_rows: int | None = None
    """Number of rows (or values) that violate it; None if not checked."""
    reason: str | None = None
    """Why it was not checked, or which columns violate it."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"what": self.what, "broken_rows": self.broken_rows, "reason": self.reason}


class TableChecks:
    """Validate blocks of synthetic rows against their schema."""

    def __init__(self, codec: Codec) -> None:
        self._codec, schema = codec, codec.schema
        self._coders = {
            column.name: plain_coder(coder_of(column, codec.readers[column.name].field))
            for column in schema.columns
            if column.modelled and column.in_table and getattr(column, "after", None) is None
        }
        self._derived: list[AttributePart] = [
            p for p in codec.parts if isinstance(schema.column(p.columns[0]), Derived)
        ]
        self._same = codec.table_columns(schema.per_unit) if schema.unit is not None else []
        self._rules = schema.rules
        across = [name for rule in self._rules if not rule.alone for name in rule.columns]
        unit = [schema.unit] if self._same and schema.unit is not None else []
        self._held: dict[str, list[pa.Array]] = {name: [] for name in (*across, *self._same, *unit)}
        self._outside: dict[str, int] = {}
        self._misfits = 0
        self._wrong = dict.fromkeys(range(len(self._derived)), 0)
        self._broken = dict.fromkeys((i for i, rule in enumerate(self._rules) if rule.alone), 0)

    def watch(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield each block of rows after checking it."""
        for table in tables:
            self.add(table)
            yield table

    def add(self, table: pa.Table, unreadable: dict[str, int] | None = None) -> None:
        """Check a block of rows in the codec's types; `unreadable` counts values by column that do not fit the type."""
        for name, count in (unreadable or {}).items():
            self._outside[name] = self._outside.get(name, 0) + count
        arrays = self._codec.arrays(table)
        for name, coder in self._coders.items():
            if isinstance(coder, CheckingCoder):
                outside = int((~coder.fits(arrays[name])).sum())
                self._outside[name] = self._outside.get(name, 0) + outside
        self._misfits += int(find_misfits(self._codec.parts, arrays, self._codec.readers).sum())
        rng = np.random.default_rng(0)  # required by the signature; formulas are deterministic
        for place, part in enumerate(self._derived):
            name = part.columns[0]
            self._wrong[place] += int((~_find_equal(arrays[name], part.decode([], arrays, rng)[name])).sum())
        block = Block({name: arrays[name] for name in self._codec.readers}, self._codec.readers)
        for place in self._broken:
            self._broken[place] += int((~self._rules[place].holds(block)).sum())
        for name, kept in self._held.items():
            kept.append(decode_dictionary(arrays[name]))

    def statements(self) -> list[RowStatement]:
        """Return the results over all rows so far."""
        return [*self._columns(), *self._formulas(), *self._constants(), *self._rule_statements()]

    def _columns(self) -> Iterator[RowStatement]:
        checked = [name for name, coder in self._coders.items() if isinstance(coder, CheckingCoder)]
        bad = [f'"{name}"' for name, count in self._outside.items() if count]
        total = sum(self._outside.values())
        yield RowStatement(
            f"{format_count(len(checked), 'column')}: every value is listed or in range",
            total,
            f"{', '.join(bad)}: values not listed or out of range" if bad else None,
        )
        for name in sorted(set(self._coders) - set(checked)):
            yield RowStatement(f'"{name}": every value is valid', None, NO_FITS)
        spanning = [
            part.columns[0]
            for part in self._codec.parts
            if len(part.domain) and (part.needs or not self._codec.schema.column(part.columns[0]).in_table)
        ]
        if spanning:
            listed = ", ".join(f'"{name}"' for name in spanning)
            yield RowStatement(f"{listed}: in range, as differences or combinations of columns", self._misfits)

    def _formulas(self) -> Iterator[RowStatement]:
        for place, part in enumerate(self._derived):
            column = self._codec.schema.column(part.columns[0])
            assert isinstance(column, Derived)
            told = f"{column.name} = {column.formula}" if column.formula else f"{column.name} = map of {column.of}"
            yield RowStatement(told, self._wrong[place])

    def _constants(self) -> Iterator[RowStatement]:
        unit = self._codec.schema.unit
        for name in self._same:
            assert unit is not None
            person, value = self._number(unit), self._number(name)
            _, first, places = np.unique(person, return_index=True, return_inverse=True)
            wrong = int((value != value[first][places]).sum()) if len(value) else 0
            yield RowStatement(f"{name} is the same in all rows of a {unit}", wrong)

    def _rule_statements(self) -> Iterator[RowStatement]:
        for place, rule in enumerate(self._rules):
            if rule.alone:
                broken = self._broken[place]
            else:
                broken = int(find_repeats([self._number(name) for name in rule.columns])[0].sum())
            yield RowStatement(f"rule {place + 1}: {rule}", broken)

    def _number(self, name: str) -> NDArray[np.int64]:
        """Return an integer code for each value of a column over all blocks, equal for equal values."""
        chunks = self._held[name]
        if not chunks:
            return np.zeros(0, np.int64)
        values = pa.chunked_array(chunks).combine_chunks()
        codes = values.dictionary_encode(null_encoding="encode").indices
        return np.asarray(codes.to_numpy(zero_copy_only=False), np.int64)


def rule_statements(codec: Codec, statements: Sequence[RowStatement]) -> list[RowStatement]:
    """Return the statements about rules, in the order of the schema."""
    return list(statements[len(statements) - len(codec.schema.rules) :]) if codec.schema.rules else []


def _find_equal(given: pa.Array, computed: pa.Array) -> Mask:
    """Return which values are equal: floats up to rounding, missing values with each other."""
    given, computed = decode_dictionary(given), decode_dictionary(computed)
    if pa.types.is_floating(given.type) and pa.types.is_floating(computed.type):
        pair = [x.cast(pa.float64()).fill_null(float("nan")).to_numpy(zero_copy_only=False) for x in (given, computed)]
        near = _NEAR if pa.types.is_float64(given.type) else 1e-3 if pa.types.is_float16(given.type) else 1e-6
        return np.asarray(np.isclose(pair[0], pair[1], rtol=near, atol=0, equal_nan=True))
    both = pc.and_(pc.is_null(given), pc.is_null(computed))
    same = pc.or_(pc.fill_null(pc.equal(given, computed.cast(given.type)), False), both)
    return np.asarray(same.to_numpy(zero_copy_only=False), dtype=bool)
