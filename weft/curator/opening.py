"""Opening a private table: whoever asks gets a curator for it, never the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from weft.curator.curator import Curator
from weft.curator.values import ValueCurator
from weft.engines import BATCH_ROWS, ROOM, Opened, open_engine
from weft.engines.frames import spans_of
from weft.engines.listing import Listing, open_listing
from weft.engines.sources import open_reader
from weft.privacy import Ledger
from weft.privacy.mechanisms import Release
from weft.progress import Listener, silence, stage
from weft.reading.dialect import PLAIN, Dialect
from weft.room import Room
from weft.schema import Schema
from weft.schema.kinds import Unknown
from weft.schema.naming import names_id, names_person


@dataclass(frozen=True)
class PrivateTable:
    """A table that is opened with one schema after another, each of them public or made from released answers."""

    source: Any
    engine: Literal["auto", "memory", "stream"] = "auto"
    dialect: Dialect = PLAIN
    listener: Listener = silence
    room: Room = ROOM

    def columns(self, schema: Schema | None = None) -> pa.Schema:
        """Return the names of the columns, and their types, declared or as a schema has them read.

        Both are public, and no row is read.
        """
        known: Any = _Anything() if schema is None else schema
        read: pa.Schema = open_reader(self.source, known, BATCH_ROWS, self.dialect).schema
        return read

    def spans(self) -> set[str]:
        """Return the columns of a data frame that hold lengths of time: in words they have no shape of their own."""
        return spans_of(self.source)

    def possible_units(self, names: Sequence[str]) -> list[str]:
        """Return the columns that are named like somebody's id and whose values come back in several rows.

        For the curator's eyes: what it says leads to a question to the person who runs the program, or to a refusal
        before anything is spent, and into nothing that is released.
        """
        likely = [name for name in names if names_id(name) or names_person(name)]
        if not likely:
            return []
        schema = Schema(tuple(Unknown(name, missing=True) for name in likely), extra_columns="ignore")
        listed = self._listing(schema).values(likely)
        return [name for name in likely if _comes_back(listed[name][0].tolist())]

    def first_rows(self, most: int) -> pa.Table:
        """Return the first rows as they are read. For the curator's eyes: they are private, and go into nothing."""
        reader = open_reader(self.source, _Anything(), BATCH_ROWS, self.dialect)  # type: ignore[arg-type]
        batch = next((batch for batch, _ in reader.start(reader.schema.names)), None)
        return reader.schema.empty_table() if batch is None else pa.Table.from_batches([batch.slice(0, most)])

    def look(self, schema: Schema, ledger: Ledger, release: Release, whole: float) -> Curator:
        """Open the table with a schema; the curator's shares are of `whole`, a part of the budget."""
        with stage(self.listener, "read"):
            opened = self.open(schema)
        return Curator(opened.engine, ledger, release, whole, self.room.cells)

    def open(self, schema: Schema) -> Opened:
        """Open the table with a schema, in the room that there is."""
        return open_engine(
            self.source, schema, engine=self.engine, listener=self.listener, dialect=self.dialect, room=self.room
        )

    def values(self, schema: Schema, ledger: Ledger, release: Release, whole: float) -> ValueCurator:
        """Open the table to ask for values as they are written."""
        return ValueCurator(self._listing(schema), ledger, release, whole)

    def _listing(self, schema: Schema) -> Listing:
        return open_listing(self.source, schema, BATCH_ROWS, self.dialect, self.listener)


class _Anything:
    """A schema that knows nothing and has every column: for opening a table to see which columns it has."""

    columns: tuple[Unknown, ...] = ()
    extra_columns = "ignore"
    unit = None
    rules: tuple[Any, ...] = ()

    def __contains__(self, name: object) -> bool:
        return bool(name)

    def column(self, name: str) -> Unknown:
        """Return a column of which nothing is known."""
        return Unknown(name, missing=True)


def _comes_back(rows: Sequence[int]) -> bool:
    """Whether values repeat as persons do: many of them, most with a few rows each."""
    return len(rows) > _FEW and sum(rows) > len(rows) and sum(rows) / len(rows) <= _ROWS_EACH


_FEW = 30
_ROWS_EACH = 100
