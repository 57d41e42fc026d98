"""Access to a private table: callers get a curator, never the rows."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.curator.curator import Curator
from weft.curator.query_base import QueryBase
from weft.curator.value_queries import ValueCurator
from weft.engines import BATCH_ROWS, ROOM, Opened, open_engine
from weft.engines.frames import find_ambiguous_types
from weft.engines.sources import names_are_in_file, open_reader, source_name
from weft.engines.value_listing import Listing, open_listing
from weft.errors import DataError
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.io.file_faults import NO_HEADER, NO_LABELS, looks_like_a_row
from weft.marginals.marginal import Array
from weft.memory_plan import MemoryPlan
from weft.privacy import Ledger
from weft.privacy.mechanisms import Release
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Schema
from weft.schema.column_names import names_id, names_person
from weft.schema.kinds import Unknown
from weft.values.storage import decode_dictionary
from weft.values.text_numbers import is_text, repair_text

_Queries = TypeVar("_Queries", bound=QueryBase)


@dataclass(frozen=True)
class PrivateTable:
    """A table that is opened with one or more schemas, each public or derived from released answers."""

    source: Any
    engine: Literal["auto", "memory", "stream"] = "auto"
    dialect: Dialect = DEFAULT_DIALECT
    listener: Listener = ignore_event
    room: MemoryPlan = ROOM
    name: str | None = None
    """Name of the table, if it is one of several of one unit: its queries then have the bound of its schema."""

    def columns(self, schema: Schema | None = None) -> pa.Schema:
        """Return the column names and types, declared or read with a schema; both are public, and no row is read."""
        known: Any = _Anything() if schema is None else schema
        read: pa.Schema = open_reader(self.source, known, BATCH_ROWS, self.dialect).schema
        return read

    def column_names(self) -> list[str]:
        """Return the public column names; DataError if the first line is data, which the names would release."""
        names: list[str] = self.columns().names
        guessed = self.dialect.header is None and names_are_in_file(self.source)
        if guessed and (looks_like_a_row(names) or self._names_are_values(names)):
            told = NO_HEADER if isinstance(self.source, str | os.PathLike | list | tuple) else NO_LABELS
            raise DataError(f"{source_name(self.source)}: {told}")
        return names

    def _names_are_values(self, names: Sequence[str]) -> bool:
        """Return whether a column name in the first line also occurs as a value of that column."""
        reader = open_reader(self.source, _Anything(), BATCH_ROWS, self.dialect)  # type: ignore[arg-type]
        named = [name for name in names if name]
        for batch, _ in reader.start(named):
            for name in named:
                words = batch.column(name)
                if is_text(words.type) and pc.any(pc.equal(_fold_case(words), name.strip().lower())).as_py():
                    return True
        return False

    def ambiguous_types(self) -> dict[str, pa.DataType]:
        """Return the columns of a data frame whose type does not preserve the original text (`weft.engines.frames`)."""
        return find_ambiguous_types(self.source)

    def possible_units(self, names: Sequence[str]) -> list[str]:
        """Return columns whose values repeat like those of persons, likeliest first. PRIVATE: a screen hint only.

        Columns named after persons come first, then those named like an id, then numbers and codes that repeat alike.
        """
        known = [name for name in names if name]
        schema = Schema(tuple(Unknown(name, missing=True) for name in known), extra_columns="ignore")
        listed = self._listing(schema).values(known)
        ranks = {name: 0 if names_person(name) else 1 if names_id(name) else 2 for name in known}
        found = [name for name in known if _comes_back(listed[name], told=ranks[name] < 2)]
        return sorted(found, key=lambda name: ranks[name])[:_MAX_HINTS]

    def has_rows(self, least: int) -> bool:
        """Return whether the table has at least `least` rows. PRIVATE: an exact answer, for the curator's screen."""
        reader = open_reader(self.source, _Anything(), BATCH_ROWS, self.dialect)  # type: ignore[arg-type]
        rows = 0
        for batch, _ in reader.start(reader.schema.names[:1]):
            rows += batch.num_rows
            if rows >= least:
                return True
        return rows >= least

    def first_rows(self, most: int) -> pa.Table:
        """Return the first rows as text. PRIVATE: for the curator's screen only, never used in a release."""
        self.column_names()
        reader = open_reader(self.source, _Anything(), BATCH_ROWS, self.dialect)  # type: ignore[arg-type]
        batch = next((batch for batch, _ in reader.start(reader.schema.names)), None)
        found = reader.schema.empty_table() if batch is None else pa.Table.from_batches([batch.slice(0, most)])
        words = [_format_values(column.combine_chunks()) for column in found.columns]
        return pa.Table.from_arrays(words, names=found.column_names)

    def look(self, schema: Schema, ledger: Ledger, release: Release, whole: float) -> Curator:
        """Open the table with a schema; the curator's shares refer to `whole`, a part of the budget."""
        with report_stage(self.listener, "read"):
            opened = self.open(schema)
        return self._bounded(Curator(opened.engine, ledger, release, whole, self.room.cells), schema)

    def open(self, schema: Schema) -> Opened:
        """Open the table with a schema, within the memory plan."""
        return open_engine(
            self.source, schema, engine=self.engine, listener=self.listener, dialect=self.dialect, room=self.room
        )

    def values(self, schema: Schema, ledger: Ledger, release: Release, whole: float) -> ValueCurator:
        """Open the table to query values as written."""
        return self._bounded(ValueCurator(self._listing(schema), ledger, release, whole), schema)

    def _bounded(self, curator: _Queries, schema: Schema) -> _Queries:
        return curator if self.name is None else curator.of_bound(self.name, schema.rows_per_unit)

    def _listing(self, schema: Schema) -> Listing:
        return open_listing(self.source, schema, BATCH_ROWS, self.dialect, self.listener)


class _Anything:
    """A schema that accepts every column without any knowledge of it, to list the columns of a table."""

    columns: tuple[Unknown, ...] = ()
    extra_columns = "ignore"
    unit = None
    rules: tuple[Any, ...] = ()

    def __contains__(self, name: object) -> bool:
        return bool(name)

    def column(self, name: str) -> Unknown:
        return Unknown(name, missing=True)


def _fold_case(words: pa.Array) -> pa.Array:
    return pc.utf8_lower(pc.utf8_trim_whitespace(repair_text(words)))


def _format_values(array: pa.Array) -> pa.Array:
    """Return values as text, formatted by Arrow: Python has no dates beyond the year 9999."""
    try:
        return decode_dictionary(array).cast(pa.string())
    except pa.ArrowException:
        return pa.array([str(value) for value in decode_dictionary(array).to_pylist()])


def _comes_back(listed: Sequence[Array], told: bool) -> bool:
    """Return whether values repeat like identifiers of persons: many distinct values, with few rows each on average.

    Unless the name of the column is `told` to suggest it, values must also be whole numbers or codes, and none may be
    much more frequent than the others, as round amounts are.
    """
    rows, lengths, octets = listed
    if len(rows) <= _MIN_DISTINCT_IDS or rows.sum() <= len(rows) or rows.mean() > _ROWS_EACH:
        return False
    codes = np.isin(octets, _CODE_OCTETS).all() and np.isin(octets, _DIGITS).mean() >= _MIN_DIGITS
    return bool(told or (codes and rows.max() <= _MAX_RATIO * rows.mean() and lengths.max() >= _MIN_LENGTH))


_MIN_DISTINCT_IDS = 30
_ROWS_EACH = 100
_MAX_HINTS = 3
_MAX_RATIO = 15.0  # of the most frequent value to the average, unless a name suggests an id
_MIN_LENGTH = 4
_MIN_DIGITS = 0.5
_DIGITS = np.frombuffer(b"0123456789", np.uint8)
_CODE_OCTETS = np.frombuffer(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", np.uint8)
