"""Engine for tables that do not fit on one machine.

The rows are encoded once, on the executors, and the codes are kept there (in memory if possible, else on disk). A count
is a map over blocks of codes and a sum. Tasks that Spark computes again, because a worker was lost or slow, return the
same numbers, and only one attempt of a task is added; the driver draws the noise, once for each charge.
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
from weft.engines.recoding import Deal, RecodedEngine, Recoding
from weft.engines.spark import packed_rows, workers
from weft.engines.spark.packed_rows import BLOCK_ROWS, TakenApart, Words, block_fields, lines_of, spark_fields, width_of
from weft.engines.spill import KEY
from weft.errors import DataError
from weft.io.adbc import hold_open
from weft.io.spark_source import SparkTable, arrow_schema, explain_spark_errors, get_spark_column, override_settings
from weft.marginals.counting import Counter, Counts
from weft.marginals.domain import Clique, Domain
from weft.progress import Listener, ignore_event, report_stage

_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_OCTETS = "spark.sql.execution.arrow.maxBytesPerBatch"
_ANY = str((1 << 31) - 1)  # no limit: Spark would compute the bytes of a batch again for each row, half of its time
_HANDED = 1 << 25  # bytes of codes that a worker gets at a time
_DIRECT = 1 << 22  # maximum cells times tasks for which partial counts are sent directly to the driver


@dataclass(frozen=True)
class Blocks:
    """Encoded rows in Spark."""

    table: SparkTable
    frame: Any
    """A DataFrame with one row for each block."""
    domain: Domain
    tasks: int
    """Number of partitions. For speed only: no answer depends on it."""

    def run(self, work: Callable[[Any], Any], fields: dict[str, pa.DataType], needed: Sequence[str]) -> Any:
        """Return the workers' result for these columns of the blocks as a DataFrame; nothing is computed yet."""
        return self.frame.select(*needed).mapInArrow(work, spark_fields(fields))

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Context for a computation: workers get few blocks at a time, and the table must not change meanwhile."""
        handed = max(1, _HANDED // (BLOCK_ROWS * width_of(self.domain)))
        with explain_spark_errors(self.table.name), override_settings(self.frame, {_BATCH_ROWS: str(handed)}):
            yield
        self.table.require_unchanged()


@dataclass(frozen=True)
class SparkEngine(RecodedEngine):
    """Counts blocks of codes on Spark's workers."""

    blocks: Blocks
    units: bool = False
    """Whether a unit may have several rows, which blocks then identify."""
    listener: Listener = ignore_event

    def count(self, cliques: Sequence[Clique]) -> list[Counts]:
        """Return the exact marginal of each clique, in one pass over the required columns of the blocks."""
        counted = workers.select_counted_domain(self.domain, cliques)
        counter = Counter(counted, tuple(cliques))
        work = workers.Count(self.blocks.domain, self.recoding, tuple(cliques))
        with report_stage(self.listener, "count", len(cliques)) as told:
            flat = self._added(work, len(counter.zeros()), self._columns(self.recoding.sources(counted.names)))
            told.advance(len(cliques))
        return counter.tables(flat)

    def groups(self, names: Sequence[str]) -> tuple[Counts, Counts]:
        """Return the distinct rows over some attributes and their counts, in the driver's memory."""
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
        distinct = [each.astype(np.int64) for each in packed_rows.from_octets(lines[order], domain).columns]
        return np.column_stack(distinct) if distinct else np.zeros((len(lines), 0), np.int64), rows[order]

    def unit_sizes(self, most: int) -> Counts:
        """Return the number of privacy units with 1, 2, ..., `most` rows."""
        if not self.units:
            raise ValueError("unit sizes are not available if every row is a privacy unit")
        return self._added(workers.UnitSizes(most), most, ["owner"])

    def check_order(self) -> None:
        """Accept: rows are divided by their content, not by their position."""

    def split(self, shares: Sequence[float], deal: Deal) -> list[SparkEngine]:
        """Return a view of each part; the division is computed once, with a key, and kept."""
        # Two secret words are drawn as the key of all coins (`weft.engines.spark.workers`).
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

    def _columns(self, names: Sequence[str]) -> list[str]:
        return [f"c{self.blocks.domain.index(name)}" for name in names]

    def _added(self, work: Callable[[Any], Any], cells: int, needed: Sequence[str]) -> Counts:
        """Return the sum of the tasks' counts: small ones are added by the driver, large ones by workers first."""
        flat = np.zeros(cells, np.int64)
        with self.blocks.computing():
            partial = self.blocks.run(work, workers.FIELDS, needed)
            if cells * self.blocks.tasks > _DIRECT:
                most = min(-(-cells // workers.PIECE), self.blocks.tasks)
                partial = partial.repartition(most, "piece").mapInArrow(
                    workers.sum_pieces, spark_fields(workers.FIELDS)
                )
            found = partial.toArrow()
        for batch in found.to_batches():
            workers.add_pieces(batch, flat)
        return flat


def open_spark_engine(
    table: SparkTable, codec: Codec, units: Units, rng: np.random.Generator, listener: Listener
) -> SparkEngine:
    """Encode a table, applying the contribution bound; all rows are validated, so that no later count is refused."""
    domain = codec.domain
    names = units.beside(codec.reads)
    with explain_spark_errors(table.name):
        read, converted = table.frame.select(*map(get_spark_column, names)), table.converted
        words = Words.of(arrow_schema(read))  # the form that Java passes to workers fastest
        if words.places:
            read, converted = read.select(*words.columns()), TakenApart(words, converted)
        if units.column is None:
            coded = read.mapInArrow(workers.Encode(codec, converted), spark_fields(block_fields(domain)))
        else:
            encode = workers.EncodeUnits(codec, converted, units.column, units.markers)
            rows = read.mapInArrow(encode, spark_fields(workers.UNIT_FIELDS))
            near = rows.repartition("unit").sortWithinPartitions("unit")
            keep = workers.Truncate(domain, units.most, rng.bytes(KEY))
            coded = near.mapInArrow(keep, spark_fields(block_fields(domain)))
    with report_stage(listener, "read"):
        # As many rows per batch as fit, or with Spark's byte limit if there is text.
        kinds, handing = arrow_schema(read).types, {_BATCH_ROWS: str(BLOCK_ROWS)}
        if all(map(pa.types.is_primitive, kinds)):
            handing = {_BATCH_ROWS: str(min(BLOCK_ROWS, _HANDED // (8 * len(kinds)))), _BATCH_OCTETS: _ANY}
        blocks = _persist_blocks(table, coded, domain, handing)
    several = units.column is not None and units.most > 1
    return SparkEngine(blocks, several, listener, recoding=Recoding(domain))


def _persist_blocks(table: SparkTable, coded: Any, domain: Domain, handing: dict[str, str]) -> Blocks:
    """Compute blocks and keep them in Spark until the fit ends; DataError if rows were refused."""
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
    def __init__(self, frame: Any) -> None:
        self._java = frame._jdf  # noqa: SLF001 (keeps no reference to the frame, so that it can be finalized)

    def close(self) -> None:
        with suppress(Exception):
            self._java.unpersist(False)


def _combine_chunks(array: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([pa.array([], kind), *(chunk.cast(kind) for chunk in array.chunks)])
