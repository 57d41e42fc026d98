"""Codec: encodes rows as integer codes and decodes codes into rows of the table's own types."""

from __future__ import annotations

import base64
import math
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.encoding.column_groups import ColumnGroup
from weft.encoding.date_pieces import Piece, Pieces, find_misfits, order_parts, recompute_columns
from weft.encoding.row_repair import Repair
from weft.encoding.rule_compilation import compile_rules
from weft.errors import DataError, ModelFileError, SchemaError, raise_together
from weft.marginals.domain import Domain
from weft.marginals.records import Codes, Records, code_dtype
from weft.schema.kinds import Column, ColumnError, Datetime, Id
from weft.schema.kinds.attributes import AttributePart, cast_to_stored_type, dictionary_array
from weft.schema.kinds.identifier import IdMaker
from weft.schema.rules import Block, ColumnReader, check_rules
from weft.schema.schema import Schema, check_names
from weft.schema.type_conversion import choose_released_type, interpret_values
from weft.values.storage import decode_dictionary
from weft.values.text_numbers import is_text


class Codec:
    """Encodes rows as records over a public domain, and decodes records into rows of the input's Arrow schema.

    The domain depends only on the schema and the declared Arrow types, which are public (decision 002), never on rows.
    """

    def __init__(self, schema: Schema, arrow_schema: pa.Schema) -> None:
        self.schema = schema
        check_names(schema, arrow_schema.names)
        kept = [
            field.with_type(choose_released_type(schema.column(field.name), field.type))
            for field in arrow_schema
            if field.name in schema
        ]
        fields = {field.name: field for field in kept}
        fields |= {c.name: pa.field(c.name, pa.date32()) for c in schema.columns if not c.in_table}
        self._ids: dict[str, tuple[IdMaker, pa.DataType]] = {}
        columns = {column.name: column for column in schema.columns}
        parts: list[AttributePart] = []
        dates = [c for c in schema.columns if isinstance(c, Datetime) and not c.in_table]
        self._dates = {column.name: Pieces(column, fields, columns) for column in dates}
        pieces = {r.column.name: (date, p, r) for date, made in self._dates.items() for p, r in made.readers.items()}
        faults: list[SchemaError] = []
        for column in schema.columns:
            field = fields[column.name]
            try:
                if isinstance(_value_type(field.type), pa.BaseExtensionType):
                    told = f"its type {field.type} is not supported; store it as a plain Arrow type"
                    raise ColumnError(column.name, told, "type")
                if isinstance(column, Id):
                    self._ids[column.name] = column.maker(_value_type(field.type)), field.type
                elif column.name in pieces:
                    parts.append(Piece(*pieces[column.name]))
                else:
                    parts.append(self._dates.get(column.name) or column.part(fields, columns))
            except ColumnError as fault:
                faults.append(fault)
        raise_together(faults)
        rules = schema.rules
        self._fields = fields
        readers = self.readers if rules else {}
        check_rules(rules, readers)  # with the types of the table
        compiled = compile_rules(schema, parts, readers)
        self.parts = compiled.parts
        """Parts that convert between columns and attributes."""
        self.forms = compiled.forms
        """How each rule is enforced."""
        self.refusals = tuple((index, rule) for index, rule in enumerate(rules) if rule.policy == "refuse")
        """Rules that every input row must satisfy, with their indices in the schema."""
        if not any(len(part.domain) for part in parts):
            raise SchemaError("the schema has no column to model: every column is an id or derived")
        self._ordered = tuple(order_parts(self.parts, self._ids))
        self._repair = Repair(rules, readers, self._ordered, self._random) if rules else None
        self.domain = replace(_join_domains(self.parts), impossible=compiled.impossible)
        # Metadata is dropped: libraries store facts about the rows there. Columns with missing values are nullable.
        blank = {f.name: schema.column(f.name).missing and not pa.types.is_floating(f.type) for f in kept}
        self.arrow_schema = pa.schema([pa.field(f.name, f.type, f.nullable or blank[f.name]) for f in kept])

    @cached_property
    def readers(self) -> dict[str, ColumnReader]:
        """Reader of each column for rules and conditions, in the type of the table."""
        return {column.name: ColumnReader(column, self._fields[column.name]) for column in self.schema.columns}

    def count_keys(self) -> float:
        """Return the largest number of rows whose keys can all differ; infinite if there is no limit."""
        most = math.inf
        for rule in self.schema.rules:
            known = [self.readers[name].codes for name in rule.columns]
            if not rule.alone and all(values is not None for values in known):
                most = min(most, math.prod(len(values) for values in known if values is not None))
        return most

    @property
    def unit_column(self) -> str | None:
        """Id column that identifies the privacy unit."""
        return self.schema.unit

    def part(self, attribute: str) -> AttributePart:
        """Return the part that an attribute belongs to."""
        return next(part for part in self.parts if attribute in part.domain)

    @property
    def reads(self) -> list[str]:
        """Columns that `encode` reads."""
        refused = [name for _, rule in self.refusals for name in rule.columns]
        read = dict.fromkeys([*(name for part in self.parts for name in part.reads), *refused])
        pieces = [r.column.name for name in read if name in self._dates for r in self._dates[name].readers.values()]
        return [name for name in dict.fromkeys([*read, *pieces]) if name not in self._dates]

    def part_of(self, column: str) -> AttributePart | None:
        """Return the part of a column; None for an id, which is generated."""
        return next((part for part in self.parts if column in part.columns), None)

    def codes_of(self, column: str) -> int | None:
        """Return the number of codes of a column alone; None if it is not encoded by itself."""
        part = self.part_of(column)
        if isinstance(part, ColumnGroup):
            return part.shape[part.columns.index(column)]
        return self.domain.size(column) if column in self.domain else None

    def narrowed(self, names: Collection[str]) -> Codec:
        """Return a codec that encodes only these attributes, with the same codes, and cannot decode."""
        made = copy(self)
        made.parts = tuple(part for part in self.parts if any(name in names for name in part.domain))
        every = _join_domains(made.parts)
        made.domain = every.project([name for name in every if name in names])  # a part may have further attributes
        made.refusals = ()  # the full codec has validated the rows already
        return made

    def encode(self, data: pa.Table | pa.RecordBatch) -> Records:
        """Return one record per row; raise DataError if a row violates the schema under the refuse policy."""
        batches = data.to_batches() if isinstance(data, pa.Table) else [data]
        pieces = [self._encode(batch) for batch in batches]
        return pieces[0] if len(pieces) == 1 else Records.concatenate([Records.empty(self.domain), *pieces])

    @np.errstate(all="ignore")  # a warning would disclose a row, even if the policy accepts every value
    def _encode(self, batch: pa.RecordBatch) -> Records:
        arrays = {name: self._values(name, batch.column(name)) for name in self.reads}
        needed = {name for part in self.parts for name in part.reads}
        needed |= {name for _, rule in self.refusals for name in rule.columns}
        arrays |= {name: date.assembled(arrays) for name, date in self._dates.items() if name in needed}
        columns: list[Codes] = []
        faults: list[DataError] = []
        for part in self.parts:
            try:
                for name, size, codes in zip(part.domain, part.domain.shape, part.encode(arrays), strict=True):
                    if name in self.domain:
                        columns.append(codes.astype(code_dtype(size)))
            except DataError as fault:
                faults.append(fault)
        raise_together(faults)
        for index, rule in self.refusals:
            if not rule.holds({name: self.readers[name].read(arrays[name]) for name in rule.columns}).all():
                raise DataError(f'rule {index + 1} ({rule}): a row breaks it. Correct the rows, or set policy = "keep"')
        return Records(self.domain, tuple(columns))

    def _values(self, name: str, array: pa.Array) -> pa.Array:
        expected = self.arrow_schema.field(name).type
        # Compare value types: dictionary encoding is only storage, and a null column has its declared type.
        wanted = _value_type(expected)
        if _value_type(choose_released_type(self.schema.column(name), array.type)) != wanted:
            raise SchemaError(f'column "{name}": the type changed from {expected} to {array.type} between batches')
        array = decode_dictionary(array)
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), wanted)
        return interpret_values(array, self.schema.column(name))

    def decode(self, records: Records, rng: np.random.Generator, start: int = 0) -> pa.Table:
        """Return one row per record, in the input's types and order; `start` rows exist already (for unique ids)."""
        made = self._decode(records, rng, start)
        if self._repair is not None:
            made = self._repair(made, rng)
        rows = [_format_numbers(made[field.name], self.schema.column(field.name)) for field in self.arrow_schema]
        return pa.Table.from_arrays(rows, schema=self.arrow_schema)

    def _decode(self, records: Records, rng: np.random.Generator, start: int) -> dict[str, pa.Array]:
        made: dict[str, pa.Array] = {}
        numbers = np.arange(start, start + len(records), dtype=np.int64)
        for name in self._ids:
            made[name] = self.ids(name, numbers, rng)
        for part in self._ordered:
            made |= part.decode([records.column(name) for name in part.domain], made, rng)
        return made

    def _random(self, count: int, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return rows of uniformly random codes, independent of any data."""
        codes = [rng.integers(0, size, count) for size in self.domain.shape]
        return self._decode(Records.of(self.domain, codes), rng, 0)

    def broken(self, table: pa.Table) -> NDArray[np.bool_]:
        """Return a mask of the rows of a synthetic table that break any rule of the schema."""
        return np.asarray(np.logical_or.reduce([np.zeros(len(table), bool), *self.breaches(table)]))

    def breaches(self, table: pa.Table) -> list[NDArray[np.bool_]]:
        """Return for each rule a mask of the rows that break it."""
        block = self.block(table)
        return [~rule.holds(block) for rule in self.schema.rules]

    def block(self, table: pa.Table) -> Block:
        """Return a synthetic table as the numeric values that rules and conditions compare."""
        arrays = self.arrays(table)
        return Block({name: arrays[name] for name in self.readers}, self.readers)

    def arrays(self, table: pa.Table) -> dict[str, pa.Array]:
        """Return the columns of a synthetic table as the schema interprets them, and dates assembled from pieces."""
        arrays = {
            name: interpret_values(
                decode_dictionary(table.column(name).unify_dictionaries().combine_chunks()), self.schema.column(name)
            )
            for name in table.column_names
            if name in self.schema
        }
        return arrays | {name: date.assembled(arrays) for name, date in self._dates.items()}

    def table_columns(self, names: Sequence[str]) -> list[str]:
        """Return the table columns that store these schema columns: for a date in pieces, its pieces."""
        pieces = self._list_pieces()
        return list(dict.fromkeys(each for name in names for each in pieces.get(name, [name])))

    def _list_pieces(self) -> dict[str, list[str]]:
        """Return the table columns that store each date in pieces."""
        return {name: [r.column.name for r in date.readers.values()] for name, date in self._dates.items()}

    def replace_columns(
        self, table: pa.Table, columns: Mapping[str, pa.ChunkedArray], rng: np.random.Generator
    ) -> pa.Table:
        """Replace columns of a synthetic table, and recompute the columns that depend on them."""
        made = table
        for name, values in columns.items():
            made = made.set_column(made.schema.get_field_index(name), made.schema.field(name), values)
        changed = {*columns, *(name for name, pieces in self._list_pieces().items() if set(columns) & set(pieces))}
        if not any(changed & set(part.needs) for part in self._ordered):
            return made
        found = recompute_columns(self._ordered, self.arrays(table), self.arrays(made), changed, rng)
        for name, array in found.items():
            if name in made.column_names and name not in columns:
                field = made.schema.field(name)
                stored = _format_numbers(
                    cast_to_stored_type(decode_dictionary(array), field.type), self.schema.column(name)
                )
                made = made.set_column(made.schema.get_field_index(name), field, stored)
        return made

    def find_broken(self, table: pa.Table) -> NDArray[np.bool_]:
        """Return a mask of rows that break a single-row rule (not a key) or lie outside a range that spans columns."""
        arrays = self.arrays(table)
        block = Block({name: arrays[name] for name in self.readers}, self.readers)
        broken = find_misfits(self._ordered, arrays, self.readers)
        for rule in self.schema.rules:
            if rule.alone:
                broken |= ~rule.holds(block)
        return broken

    def ids(self, name: str, numbers: NDArray[np.int64], rng: np.random.Generator) -> pa.Array:
        """Return the ids for these row numbers, in the type of an id column."""
        maker, arrow_type = self._ids[name]
        array = maker.of(numbers, rng)
        return dictionary_array(array, arrow_type) if array.type != arrow_type else array

    def to_dict(self) -> dict[str, Any]:
        """Return the schema and the Arrow types, without metadata, as JSON values."""
        serialised = base64.b64encode(self.arrow_schema.serialize().to_pybytes()).decode("ascii")
        return {"schema": self.schema.to_dict(), "arrow_schema": serialised}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Codec:
        """Rebuild a codec from the result of `to_dict`; raise ModelFileError if it is invalid."""
        try:
            octets = base64.b64decode(document["arrow_schema"], validate=True)
            arrow_schema = pa.ipc.read_schema(pa.py_buffer(octets))
            return cls(Schema.from_dict(document["schema"]), arrow_schema)
        except (KeyError, TypeError, ValueError, AttributeError, OSError, pa.ArrowException, SchemaError):
            raise ModelFileError("the schema in the model file is damaged; obtain the file again") from None


def count_broken_rows(table: pa.Table, schema: Schema) -> dict[str, int]:
    """Count the rows that break each rule. Only for synthetic tables: counts of private rows must not be released."""
    found = Codec(schema, table.schema).breaches(table)
    told = (f"rule {index + 1}: {rule}" for index, rule in enumerate(schema.rules))
    return {rule: int(rows.sum()) for rule, rows in zip(told, found, strict=True)}


def _value_type(arrow_type: pa.DataType) -> pa.DataType:
    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


def _join_domains(parts: Sequence[AttributePart]) -> Domain:
    domains = [part.domain for part in parts]
    names = tuple(name for domain in domains for name in domain)
    sizes = tuple(size for domain in domains for size in domain.shape)
    return Domain(names, sizes, tuple(domain.order(name) for domain in domains for name in domain))


def _format_numbers(array: pa.Array, column: Column) -> pa.Array:
    """Format the numbers of a text column as the column writes them."""
    form = column.number_format
    if form is None or not is_text(_value_type(array.type)):
        return array
    return cast_to_stored_type(form.dressed(decode_dictionary(array)).cast(_value_type(array.type)), array.type)
