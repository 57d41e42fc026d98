"""A column that follows from others, by a formula or a public map: computed, never read and never measured.

Whatever can be said publicly need not be learned, and the budget goes elsewhere. The part of such a column has no
attribute: a row adds nothing to any table on its account.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from weft.schema.kinds.base import Column, ColumnError, Scalar
from weft.schema.kinds.computed import FormulaPart, MapPart
from weft.schema.kinds.formula import Name, Node, evaluate, names, parse
from weft.schema.kinds.listed import written
from weft.schema.kinds.operands import (
    Reader,
    interval,
    piece_interval,
    piece_reader,
    plain_type,
    reader,
    sources_of,
)
from weft.schema.kinds.part import Part
from weft.values.exact import Interval

Pairs = tuple[tuple[str, Scalar], ...]

_HELP = 'give formula = "a + b", or of = "column" and map = {"from" = "to"}'


@dataclass(frozen=True)
class Derived(Column):
    """A column that follows from others: by a formula, or from one of them by a map."""

    formula: str | None = None
    """Arithmetic over columns, such as "nights + week_nights" or "year(arrival)"."""
    of: str | None = field(default=None, kw_only=True)
    """Column whose values the map translates."""
    map: Pairs | Mapping[Any, Scalar] | str | None = field(default=None, kw_only=True)
    """Value of this column for each value of the other, or a CSV file with a header and these two columns."""
    otherwise: Scalar | None = field(default=None, kw_only=True)
    """Value for whatever the map does not list; `else` in a schema file."""

    kind: ClassVar[str] = "derived"
    modelled: ClassVar[bool] = False
    read: ClassVar[bool] = False
    spelling: ClassVar[Mapping[str, str]] = {"otherwise": "else"}
    flipped: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need((self.formula is None) == (self.of is not None), _HELP, "formula" if self.formula else "of")
        self._need((self.of is None) == (self.map is None), "of and map go together: " + _HELP, "map")
        self._need(self.otherwise is None or self.map is not None, "else goes with a map", "else")
        if self.formula is not None:
            self._need(isinstance(self.formula, str), 'formula must be text, such as "a + b"', "formula")
            try:
                found = names(parse(self.formula))
            except ValueError as error:
                raise ColumnError(self.name, f"formula: {error}", "formula") from None
            self._need(len(found) > 0, "formula names no column; name one that it follows from", "formula")
            whole = isinstance(self.node, Name) or all(name.piece != "monthname" for name in found)
            self._need(whole, "monthname is text, and stands alone: formula = 'monthname(arrival)'", "formula")
        else:
            self._need(isinstance(self.of, str), "of must name a column", "of")
            self._set(map=self._pairs())

    def _pairs(self) -> Pairs:
        """Return the map as pairs, read from its file if it is one, so that a schema holds all that it says."""
        given = self.map
        if isinstance(given, str):
            given = self._file(Path(given))
        pairs = tuple(given.items()) if isinstance(given, Mapping) else tuple(tuple(pair) for pair in given or ())
        self._need(
            all(len(pair) == 2 for pair in pairs) and len(pairs) > 0, 'map must be a table such as {"x" = "X"}', "map"
        )
        values = [value for _, value in pairs] + ([] if self.otherwise is None else [self.otherwise])
        kinds = {type(value) for value in values}
        self._need(
            len(kinds) == 1 and kinds <= {str, int, float, bool},
            "map and else must give all texts, all whole numbers, all decimal numbers or all booleans",
            "map",
        )
        keys = [written(key) for key, _ in pairs]
        self._need(len(set(keys)) == len(keys), "map lists a value twice", "map")
        return tuple((key, value) for key, (_, value) in zip(keys, pairs, strict=True))

    def _file(self, path: Path) -> dict[str, str]:
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = [row for row in csv.reader(file) if row]
        except (OSError, UnicodeDecodeError, csv.Error):
            raise ColumnError(
                self.name, f"map: cannot read {path}; give a CSV file in UTF-8, from the folder where Weft runs", "map"
            ) from None
        self._need(all(len(row) == 2 for row in rows), f"map: {path} must have two columns and a header", "map")
        keys = [row[0] for row in rows[1:]]
        self._need(len(set(keys)) == len(keys), f"map: {path} lists a value twice", "map")
        return dict(rows[1:])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, the map as a table."""
        entry = super().to_dict()
        if self.map is not None:
            entry["map"] = dict(self._map)
        return entry

    @cached_property
    def node(self) -> Node:
        """The formula, parsed."""
        return parse(self.formula or "")

    @property
    def _map(self) -> Pairs:
        assert isinstance(self.map, tuple)
        return self.map

    @property
    def made_from(self) -> tuple[str, ...]:
        """Columns that this one follows from."""
        if self.of is not None:
            return (self.of,)
        return tuple(dict.fromkeys(name.column for name in names(self.node)))

    @property
    def listed(self) -> tuple[Scalar, ...] | None:
        """The values of the map."""
        if self.map is None:
            return None
        return tuple(
            dict.fromkeys([value for _, value in self._map] + ([] if self.otherwise is None else [self.otherwise]))
        )

    @property
    def _piece(self) -> str | None:
        return self.node.piece if self.formula is not None and isinstance(self.node, Name) else None

    def plain_type(self) -> pa.DataType:
        """Return the type of the map's values, whole numbers for pieces of dates, and else floats."""
        if self.listed is not None:
            first = self.listed[0]
            kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
            return kinds[type(first)]
        if self._piece == "monthname":
            return pa.string()
        return pa.float64() if self._piece is None else pa.int64()

    def interval(self, columns: Mapping[str, Column]) -> Interval:
        """Return where its numbers may lie, from the schema alone."""
        if self.formula is None:
            return interval(self, columns)

        def named(name: Name) -> Interval:
            column = columns[name.column]
            own = column.interval(columns) if isinstance(column, Derived) else interval(column, columns)
            return own if name.piece is None else piece_interval(name.piece, own)

        return evaluate(self.node, named, Interval.of)

    def may_be_missing(self, columns: Mapping[str, Column]) -> bool:
        """Whether a value may be missing, because one that it follows from is, or by a division by zero."""
        for name in self.made_from:
            column = columns[name]
            if column.may_be_missing(columns) if isinstance(column, Derived) else column.missing:
                return True
        return self.formula is not None and self.interval(columns).low is None

    def part(self, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]) -> Part:
        """Return what computes the column from others."""
        sources = sources_of(self, columns, "formula" if self.formula is not None else "of")
        own = fields[self.name]
        says_nan = pa.types.is_floating(plain_type(own))
        self._need(
            own.nullable or self.missing or says_nan or not self.may_be_missing(columns),
            "what it follows from may be missing, and then so is this column: set missing = true",
            "missing",
        )
        if self.of is not None:
            return MapPart(self, sources[0], fields)
        return FormulaPart(self, self._readers(fields, columns), fields, columns)

    def _readers(self, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]) -> dict[Name, Reader]:
        readers = {}
        for name in names(self.node):
            column, source = columns[name.column], fields[name.column]
            found = reader(column, source) if name.piece is None else piece_reader(column, source, name.piece)
            wanted = "a number or a date" if name.piece is None else "a date"
            if found is None:
                raise ColumnError(self.name, f'formula: "{name.column}" is not {wanted}', "formula")
            readers[name] = found
        return readers

    @property
    def translation(self) -> dict[str, Scalar]:
        """The map, by the values as they are written."""
        return dict(self._map)
