"""The engine for tables that one machine does not hold.

The rows are coded once, where they are, and the codes are kept there (in memory as far as it goes, else on the
executors' disks). A count is a map over blocks of codes and a sum. What Spark computes again, because a worker was lost
or slow, gives the same numbers, and of all tries of a task one is added; noise is drawn by the driver, once for each
charge.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from weft.encoding import Codec
from weft.engines.privacy_units import Units
from weft.engines.recoding import Deal, Joined, Maps, Recoding
from weft.engines.spark import workers
from weft.engines.spark.packed_rows import (
    BLOCK_ROWS,
    TakenApart,
    Words,
    block_fields,
    from_octets,
    lines_of,
    spark_fields,
    width_of,
)
from weft.engines.spark.workers import FIELDS, PIECE, add_pieces, sum_pieces
from weft.engines.spill import KEY
from weft.errors import DataError
from weft.io.adbc import hold_open
from weft.io.spark_source import (
    Converted,
    SparkTable,
    arrow_schema,
    explain_spark_errors,
    get_spark_column,
    override_settings,
)
from weft.marginals.counting import Counter, Counts
from weft.marginals.domain import Clique, Domain
from weft.progress import Listener, ignore_event, report_stage

_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_OCTETS = "spark.sql.execution.arrow.maxBytesPerBatch"
_ANY = str((1 << 31) - 1)  # no limit: Spark would reckon the octets of a batch anew with each row, half of its time
_HANDED = 1 << 25  # octets of codes that a worker is handed at a time
_DIRECT = 1 << 22  # cells times tasks, up to which partial counts go straight to the driver


@dataclass(frozen=True)
class Blocks:
    """Coded rows where Spark keeps them."""

    table: SparkTable
    frame: Any
    """A DataFrame with one row for each block."""
    domain: Domain
    tasks: int
    """Parts of the table that are worked on by themselves. For speed only: no answer depends on it."""

    def run(self, work: Callable[[Any], Any], fields: dict[str, pa.DataType], needed: Sequence[str]) -> Any:
        """Return what workers make of these columns of the blocks, as a DataFrame; nothing is computed yet."""
        return self.frame.select(*needed).mapInArrow(work, spark_fields(fields))

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute: a worker is handed few blocks at a time, and the table must not have changed meanwhile."""
        handed = max(1, _HANDED // (BLOCK_ROWS * width_of(self.domain)))
        with explain_spark_errors(self.table.name), override_settings(self.frame, {_BATCH_ROWS: str(handed)}):
            yield
        self.table.require_unchanged()


@dataclass(frozen=True)
class SparkEngine:
    """Counts blocks of codes on Spark's workers."""

    blocks: Blocks
    recoding: Recoding
    units: bool = False
    """Whether the rows of a unit are known."""
    listener: Listener = ignore_event

    @property
    def domain(self) -> Domain:
        """The attributes that can be counted."""
        return self.recoding.domain

    def count(self, cliques: Sequence[Clique]) -> list[Counts]:
        """Return the exact table of each clique, in one pass over the columns of the blocks that it needs."""
        counted = workers.select_counted_domain(self.domain, cliques)
        counter = Counter(counted, tuple(cliques))
        work = workers.Count(self.blocks.domain, self.recoding, tuple(cliques))
        with report_stage(self.listener, "count", len(cliques)) as told:
            flat = self._added(work, len(counter.zeros()), self._columns(self.recoding.sources(counted.names)))
            told.advance(len(cliques))
        return counter.tables(flat)

    def groups(self, names: Sequence[str]) -> tuple[Counts, Counts]:
        """Return the distinct rows over some attributes and how many there are of each; the driver holds these."""
        from pyspark.sql import functions

        work = workers.BlockGroups(self.blocks.domain, self.recoding, tuple(names))
        needed = self.recoding.sources(names) or list(self.blocks.domain.names[:1])
        with self.blocks.computing():
            made = self.blocks.run(work, workers.GROUP_FIELDS, self._columns(needed))
            found = made.groupBy("line").agg(functions.sum("rows").alias("rows")).toArrow().combine_chunks()
        domain = self.domain.project(names)
        lines = lines_of(_combine_chunks(found.column("line"), pa.binary()), width_of(domain))
        rows = _combine_chunks(found.column("rows"), pa.int64()).to_numpy().astype(np.int64)
        order = np.lexsort(lines.T[::-1]) if lines.shape[1] else np.arange(len(lines))
        distinct = [each.astype(np.int64) for each in from_octets(lines[order], domain).columns]
        return np.column_stack(distinct) if distinct else np.zeros((len(lines), 0), np.int64), rows[order]

    def unit_sizes(self, most: int) -> Counts:
        """Return how many privacy units have 1, 2, ..., `most` rows."""
        if not self.units:
            raise ValueError("rows that are units of their own have no numbers to ask for")
        return self._added(workers.UnitSizes(most), most, ["owner"])

    def check_order(self) -> None:
        """Refuse nothing: rows are told apart by what they say, and not by their place."""

    def split(self, shares: Sequence[float], deal: Deal) -> list[SparkEngine]:
        """Return a view of each part; the division is made once, by a key, and kept."""
        # The driver is dealt two words, which are the key of all coins (`weft.engines.spark.workers`).
        key = np.asarray(deal(np.arange(2, dtype=np.uint64)), "<u8").tobytes()
        domain, parts = self.blocks.domain, tuple(shares)
        every = self._columns(domain.names)
        fields = block_fields(domain)
        with explain_spark_errors(self.blocks.table.name):
            if self.units:
                divided = self.blocks.run(workers.DivideUnits(domain, parts, key), fields, ["owner", "word", *every])
            else:
                lines = self.blocks.run(workers.Lines(domain), workers.LINE_FIELDS, every)
                near = lines.repartition("line").sortWithinPartitions("line")
                divided = near.mapInArrow(workers.DivideRows(domain, parts, key), spark_fields(fields))
        with report_stage(self.listener, "divide"):
            blocks = _persist_blocks(self.blocks.table, divided, domain, {_BATCH_ROWS: str(BLOCK_ROWS)})
        return [
            replace(self, blocks=replace(blocks, frame=blocks.frame.filter(f"part = {i}"))) for i in range(len(parts))
        ]

    def recode(self, maps: Maps) -> SparkEngine:
        """Return a view in which some attributes have their codes replaced."""
        return replace(self, recoding=self.recoding.then(maps))

    def arrange(self, joined: Joined, kept: Sequence[str]) -> SparkEngine:
        """Return a view of some attributes, and of new ones that join others."""
        return replace(self, recoding=self.recoding.arranged(joined, kept))

    def _columns(self, names: Sequence[str]) -> list[str]:
        return [f"c{self.blocks.domain.index(name)}" for name in names]

    def _added(self, work: Callable[[Any], Any], cells: int, needed: Sequence[str]) -> Counts:
        """Return the sum of what the tasks counted: small tables are added by the driver, large ones on the way."""
        flat = np.zeros(cells, np.int64)
        with self.blocks.computing():
            partial = self.blocks.run(work, FIELDS, needed)
            if cells * self.blocks.tasks > _DIRECT:
                most = min(-(-cells // PIECE), self.blocks.tasks)
                partial = partial.repartition(most, "piece").mapInArrow(sum_pieces, spark_fields(FIELDS))
            found = partial.toArrow()
        for batch in found.to_batches():
            add_pieces(batch, flat)
        return flat


def open_spark_engine(
    table: SparkTable, codec: Codec, units: Units, rng: np.random.Generator, listener: Listener
) -> SparkEngine:
    """Code a table where it is; every row is read and checked here, so that no later count can be refused.

    Of each unit at most so many rows are kept, by a key that the driver draws.
    """
    domain = codec.domain
    names = units.beside(codec.reads)
    with explain_spark_errors(table.name):
        read, converted = _pack_for_workers(table.frame.select(*map(get_spark_column, names)), table.converted)
        if units.column is None:
            coded = read.mapInArrow(workers.Encode(codec, converted), spark_fields(block_fields(domain)))
        else:
            encode = workers.EncodeUnits(codec, converted, units.column, units.markers)
            rows = read.mapInArrow(encode, spark_fields(workers.UNIT_FIELDS))
            near = rows.repartition("unit").sortWithinPartitions("unit")
            keep = workers.Truncate(domain, units.most, rng.bytes(KEY))
            coded = near.mapInArrow(keep, spark_fields(block_fields(domain)))
    with report_stage(listener, "read"):
        blocks = _persist_blocks(table, coded, domain, _choose_batch_rows(read))
    return SparkEngine(blocks, Recoding(domain), units.column is not None and units.most > 1, listener)


def _pack_for_workers(read: Any, converted: Converted) -> tuple[Any, Converted]:
    """Return rows as Java hands them to workers fastest, and how workers get back what they were."""
    words = Words.of(arrow_schema(read))
    return (read.select(*words.columns()), TakenApart(words, converted)) if words.places else (read, converted)


def _choose_batch_rows(read: Any) -> dict[str, str]:
    """Return how many rows a worker is handed at a time: as many as fit, or as Spark reckons where there are texts."""
    kinds = arrow_schema(read).types
    if not all(map(pa.types.is_primitive, kinds)):
        return {_BATCH_ROWS: str(BLOCK_ROWS)}
    return {_BATCH_ROWS: str(min(BLOCK_ROWS, _HANDED // (8 * len(kinds)))), _BATCH_OCTETS: _ANY}


def _persist_blocks(table: SparkTable, coded: Any, domain: Domain, handing: dict[str, str]) -> Blocks:
    """Compute blocks and keep them where they are, until the fit ends; DataError if rows were refused."""
    coded = coded.persist()
    end = _Kept(coded)
    with explain_spark_errors(table.name), override_settings(coded, handing):
        faults = sorted({row.fault for row in coded.select("fault").filter("fault IS NOT NULL").collect()})
        tasks = int(coded.rdd.getNumPartitions())
    table.require_unchanged()
    if faults:
        end.close()
        raise DataError(faults[0])
    blocks = Blocks(table, coded, domain, tasks)
    if not hold_open(end):
        weakref.finalize(coded, end.close)
    return blocks


class _Kept:
    """Blocks that Spark keeps."""

    def __init__(self, frame: Any) -> None:
        self._java = frame._jdf  # noqa: SLF001 (to let go of a frame does not need the frame)

    def close(self) -> None:
        """Let go of them."""
        with suppress(Exception):
            self._java.unpersist(False)


def _combine_chunks(array: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([pa.array([], kind), *(chunk.cast(kind) for chunk in array.chunks)])
