"""Engines hold the encoded private rows and compute exact marginals.

Exact counts are private: only the curator queries an engine, and releases answers only with noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from weft.encoding import Codec
from weft.engines.memory_engine import MemoryEngine, TooLargeError, load_records
from weft.engines.privacy_units import Units
from weft.engines.recoding import Deal, Joined, Maps, Recoding
from weft.engines.sources import open_reader
from weft.engines.spark import open_spark_engine
from weft.engines.stream_engine import StreamEngine
from weft.errors import DataError
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.io.reader import Reader
from weft.marginals.counting import Counts, compile_kernels, is_compiled
from weft.marginals.domain import Clique, Domain
from weft.marginals.records import code_dtype
from weft.memory_plan import MemoryPlan
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Schema

__all__ = ["Deal", "Engine", "Joined", "Maps", "MemoryEngine", "Opened", "StreamEngine", "open_engine"]

ROOM = MemoryPlan()

BATCH_ROWS = 1 << 17  # default number of rows per batch


class Engine(Protocol):
    """Encoded private rows that can be counted."""

    @property
    def domain(self) -> Domain:
        """The attributes that can be counted."""
        ...

    def count(self, cliques: Sequence[Clique]) -> list[Counts]:
        """Return the exact marginal of each clique, in one pass over the rows for all of them."""
        ...

    def groups(self, names: Sequence[str]) -> tuple[Counts, Counts]:
        """Return the distinct rows over some attributes, in lexicographic order, and the count of each."""
        ...

    def unit_sizes(self, most: int) -> Counts:
        """Return the number of privacy units with 1, 2, ..., `most` rows."""
        ...

    def check_order(self) -> None:
        """Raise DataError if rows have no fixed position, so that they cannot be divided into parts."""
        ...

    def split(self, shares: Sequence[float], deal: Deal) -> Sequence[Engine]:
        """Return a view of each part of the rows, divided by one secret coin per privacy unit (`recoding`)."""
        ...

    def recode(self, maps: Maps) -> Engine:
        """Return a view in which code c of attribute `name` is `maps[name][0][c]`, of `maps[name][1]` new codes."""
        ...

    def arrange(self, joined: Joined, kept: Sequence[str]) -> Engine:
        """Return a view of the attributes `kept`, including new ones that join recoded codes of others."""
        ...


@dataclass(frozen=True)
class Opened:
    """A table that is ready for counting, and the codec that encoded it."""

    engine: Engine
    codec: Codec


def open_engine(
    source: Any,
    schema: Schema,
    *,
    engine: Literal["auto", "memory", "stream"] = "auto",
    listener: Listener = ignore_event,
    batch_rows: int = BATCH_ROWS,
    threads: int | None = None,
    rng: np.random.Generator | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
    room: MemoryPlan = ROOM,
) -> Opened:
    """Open a table: every row is read and validated here, so that no later count can be refused.

    `source` is a pandas, polars, Spark or Arrow table (anything with an Arrow stream), the path of a file (or a folder,
    a pattern, a list, "-" for standard input), or an address such as `duckdb:...`. By default, codes are held in memory
    if they fit the memory plan `room`, else the rows are read again for each count; DataError if a stated limit cannot
    be kept. At most `schema.rows_per_unit` rows of each privacy unit are kept, chosen by `rng` (None: system entropy).
    """
    if not is_compiled():
        with report_stage(listener, "compile (first run only)"):
            compile_kernels()
    schema = dialect.marking(schema)
    reader = open_reader(source, schema, room.rows_at_once(len(schema.columns), batch_rows), dialect)
    codec = Codec(schema, reader.schema)
    if engine == "stream" and not reader.repeatable:
        raise DataError(f"{reader.name} can be read only once, so it cannot be streamed; use the memory engine")
    markers = () if schema.unit is None else schema.column(schema.unit).markers
    units = Units(codec.unit_column, schema.rows_per_unit, markers, room.spill)
    rng = rng or np.random.default_rng()
    if reader.spark is not None and engine == "auto":
        return Opened(open_spark_engine(reader.spark, codec, units, rng, listener), codec)
    can_stream = reader.repeatable and (codec.unit_column is None or reader.ordered)
    if engine == "memory" or not _should_stream(reader, codec, engine == "stream", room):
        spills = engine == "auto" and can_stream  # a compressed file may be larger than estimated
        try:
            records, owners = load_records(
                reader, codec, units, rng, listener, room.codes if room.stated or spills else None
            )
            return Opened(MemoryEngine(records, listener, threads, owners), codec)
        except TooLargeError:
            if not spills:
                raise
        units = Units(codec.unit_column, schema.rows_per_unit, markers, room.spill)
    # If columns clip or have an `other`, and no row can make a pass fail, no validation is needed before a charge.
    lenient = all(column.outside != "refuse" for column in schema.modelled) and not codec.refusals
    keep, owners = None, None
    if not (reader.sound and lenient and units.column is None):
        for batch, _ in reader.read(units.beside(codec.reads), codec.encode, listener, "check"):
            units.see(batch)
        keep, owners = units.keep(rng)
    return Opened(
        StreamEngine(reader, codec, keep, listener, threads, owners, room.spill, recoding=Recoding(codec.domain)), codec
    )


def _should_stream(reader: Reader, codec: Codec, wanted: bool, room: MemoryPlan) -> bool:
    """Whether to stream the rows. The choice affects speed and memory, never an answer."""
    if not reader.repeatable or (codec.unit_column is not None and not reader.ordered):
        return False  # kept rows are identified by position, which such rows lack
    width = sum(code_dtype(size).itemsize for size in codec.domain.shape)
    rows = reader.most_rows if reader.rows is None else reader.rows
    size = reader.size if rows is None else rows * width
    return wanted or size is None or size > room.codes
