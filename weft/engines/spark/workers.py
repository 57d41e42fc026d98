"""Functions that run on Spark's workers, each on a partition of the table.

All are deterministic and without side effects: computed again, after a worker was lost or was slow, they return the
same result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.encoding import Codec
from weft.engines.privacy_units import sizes_of, unit_names
from weft.engines.recoding import Recoding, group_distinct_rows, part_of
from weft.engines.spark.packed_rows import (
    block_fields,
    from_octets,
    gather_batches,
    lines_of,
    make_binary_array,
    make_block,
    make_refusal,
    octets_of,
    places_in,
    records_of,
    runs_of,
    width_of,
)
from weft.engines.spill import Octets, words_of_names, words_of_rows
from weft.errors import WeftError
from weft.io.spark_source import Converted
from weft.marginals.counting import Counter, Counts
from weft.marginals.domain import Clique, Domain
from weft.marginals.records import Records
from weft.values.text_numbers import Marker

PIECE = 1 << 16  # cells of a piece, into which counts are cut on their way to the driver

_TOGETHER = 64  # pieces per batch

FIELDS = {"piece": pa.int32(), "counts": pa.binary()}


def iterate_count_pieces(flat: Counts) -> Iterator[pa.RecordBatch]:
    """Yield the pieces of a count buffer that are not all zero."""
    cut = ((number, flat[start : start + PIECE]) for number, start in enumerate(range(0, len(flat), PIECE)))
    yield from _batch_pieces((number, cells) for number, cells in cut if cells.any())


def _batch_pieces(cut: Iterator[tuple[int, Counts]]) -> Iterator[pa.RecordBatch]:
    while some := list(islice(cut, _TOGETHER)):
        arrays = [
            pa.array([piece for piece, _ in some], FIELDS["piece"]),
            pa.array([pack_counts(cells) for _, cells in some], FIELDS["counts"]),
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(FIELDS))


def pack_counts(cells: Counts) -> bytes:
    """Return nonnegative counts as bytes: nonzero counts with their positions, or all counts if that is shorter.

    >>> [len(pack_counts(np.array(cells))) for cells in ([0] * 99 + [5], [7] * 100, [70_000] * 100)]
    [5, 102, 402]
    """
    kind = np.min_scalar_type(int(cells.max(initial=0)))
    places = np.flatnonzero(cells)
    sparse = len(places) * (2 + kind.itemsize) < len(cells) * kind.itemsize
    head = bytes([kind.itemsize, sparse])
    if not sparse:
        return head + cells.astype(f"<u{kind.itemsize}").tobytes()
    return head + places.astype("<u2").tobytes() + cells[places].astype(f"<u{kind.itemsize}").tobytes()


def add_packed(octets: Any, into: Counts) -> None:
    """Add the result of `pack_counts` to counts."""
    octets = memoryview(octets)
    width, sparse = octets[0], octets[1]
    if not sparse:
        cells = np.frombuffer(octets[2:], f"<u{width}")[: len(into)]  # a sum has zeros after the last cell
        into[: len(cells)] += cells.astype(np.int64)
        return
    n = (len(octets) - 2) // (2 + width)
    places = np.frombuffer(octets[2 : 2 + 2 * n], "<u2")
    into[places] += np.frombuffer(octets[2 + 2 * n :], f"<u{width}").astype(np.int64)


def add_pieces(batch: pa.RecordBatch | pa.Table, into: Counts) -> None:
    """Add the pieces of several tasks to a buffer."""
    for piece, octets in zip(batch.column("piece").to_pylist(), batch.column("counts"), strict=True):
        add_packed(octets.as_buffer(), into[piece * PIECE : (piece + 1) * PIECE])


def sum_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sum the pieces of one task, which gets all pieces with the same number."""
    sums: dict[int, Counts] = {}
    for batch in batches:
        for piece, octets in zip(batch.column("piece").to_pylist(), batch.column("counts"), strict=True):
            add_packed(octets.as_buffer(), sums.setdefault(piece, np.zeros(PIECE, np.int64)))
    yield from _batch_pieces(iter(sums.items()))


Batches = Iterator[pa.RecordBatch]

UNIT_FIELDS = {"fault": pa.string(), "unit": pa.binary(), "line": pa.binary()}  # a row to be grouped by unit

LINE_FIELDS = {"line": pa.binary()}  # a row to be grouped with equal rows

GROUP_FIELDS = {"line": pa.binary(), "rows": pa.int64()}


@dataclass(frozen=True)
class Encode:
    """Encodes rows as blocks; errors are returned as data, because Spark would retry and log an exception."""

    codec: Codec
    converted: Converted

    def __call__(self, batches: Batches) -> Batches:
        """Encode a partition."""
        for batch in gather_batches(batches):
            try:
                made = make_block(self.codec.encode(self.converted(batch)))
            except WeftError as fault:
                made = make_refusal(block_fields(self.codec.domain), str(fault))
            yield made


@dataclass(frozen=True)
class EncodeUnits:
    """Encodes rows as lines of codes with their unit; rows without a unit are dropped."""

    codec: Codec
    converted: Converted
    unit: str
    markers: tuple[Marker, ...]

    def __call__(self, batches: Batches) -> Batches:
        """Encode a partition."""
        for batch in gather_batches(batches):
            try:
                read = self.converted(batch)
                lines = octets_of(self.codec.encode(read))
                names = unit_names(read.column(self.unit), self.markers)
            except WeftError as fault:
                yield make_refusal(UNIT_FIELDS, str(fault))
                continue
            known = names.is_valid()
            arrays = [pa.nulls(len(names), pa.string()), names, make_binary_array(lines)]
            yield pa.RecordBatch.from_arrays([each.filter(known) for each in arrays], names=list(UNIT_FIELDS))


@dataclass(frozen=True)
class Truncate:
    """Keeps at most `most` rows of each unit, as blocks; the rows arrive sorted, all rows of a unit in one call.

    Privacy: which rows of a unit are kept depends only on its name, its own rows and the key. The word of a row is the
    keyed hash of its unit's word, of its number among equal rows of the unit, and of its codes; the rows with the
    smallest words are kept. For every key, adding or removing another unit leaves the kept rows of this one unchanged:
    the sensitivity is that of `weft.engines.privacy_units`, at most `most` times that of one row, there on average over
    keys and here for every key. Numbering equal rows makes the choice uniform; which of them is kept has no effect.
    """

    domain: Domain
    most: int
    key: bytes

    def __call__(self, batches: Batches) -> Batches:
        """Apply the contribution bound to a partition."""
        held: list[pa.RecordBatch] = []
        for batch in gather_batches(batches):
            for fault in batch.column("fault").drop_null().unique().to_pylist():
                yield make_refusal(block_fields(self.domain), fault)
            known = batch.filter(batch.column("unit").is_valid())
            if not len(known):
                continue
            names = known.column("unit")
            last = len(names) - int(pc.sum(pc.equal(names, names[-1])).as_py())
            # The last unit may continue in the next batch.
            if last == 0 and held and held[-1].column("unit")[0] == names[0]:
                held.append(known)
                continue
            if held or last:
                yield self._kept([*held, known.slice(0, last)])
            held = [known.slice(last)]
        if held:
            yield self._kept(held)

    def _kept(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        names = pa.concat_arrays([batch.column("unit") for batch in batches])
        lines = np.concatenate([lines_of(batch.column("line"), width_of(self.domain)) for batch in batches])
        owners = names.dictionary_encode().indices.to_numpy().astype(np.int64)
        words = words_of_names(names, self.key)
        _, content = np.unique(lines.view(f"S{lines.shape[1]}").reshape(-1), return_inverse=True)
        order = np.lexsort((content, owners))
        owners, words, lines, content = owners[order], words[order], lines[order], content[order]
        equal = places_in(owners * (content.max(initial=0) + 1) + content)
        keyed = words_of_rows(np.hstack([_view_as_bytes(words), _view_as_bytes(equal), lines]), self.key)
        order = np.lexsort((keyed, owners))
        kept = order[places_in(owners[order]) < self.most]
        records = from_octets(lines[kept], self.domain)
        return make_block(records, owner=owners[kept].astype("<u4").tobytes(), word=words[kept].astype("<u8").tobytes())


@dataclass(frozen=True)
class Lines:
    """Converts blocks to lines, one per row."""

    domain: Domain

    def __call__(self, batches: Batches) -> Batches:
        """Convert a partition."""
        for batch in batches:
            for row in range(len(batch)):
                lines = octets_of(records_of(batch, row, self.domain, self.domain.names))
                yield pa.RecordBatch.from_arrays([make_binary_array(lines)], names=list(LINE_FIELDS))


@dataclass(frozen=True)
class DivideRows:
    """Divides rows into parts, as blocks; the rows arrive sorted, all equal rows in one call.

    Privacy (`weft.engines.recoding`): the word of a row is the keyed hash of its codes and its number among equal rows.
    A table with one more row has one more pair of codes and number, and all other pairs are unchanged: for every key,
    every other row stays in its part. A row that is replaced by another gets another pair. Exchange the words of these
    two pairs: the words of a random function then have the same distribution, every other row stays in its part, and
    the new row takes the part of the old one. The key is drawn for this division and never released.
    """

    domain: Domain
    shares: tuple[float, ...]
    key: bytes

    def __call__(self, batches: Batches) -> Batches:
        """Divide a partition."""
        last, seen = None, 0
        for batch in gather_batches(batches):
            lines = lines_of(batch.column("line"), width_of(self.domain))
            runs = runs_of(lines)
            places = places_in(runs)
            if last is not None and (lines[0] == last).all():  # the run continues
                places[runs == 0] += seen
            last, seen = lines[-1].copy(), int(places[-1]) + 1
            words = words_of_rows(np.hstack([_view_as_bytes(places), lines]), self.key)
            yield from _by_part(from_octets(lines, self.domain), part_of(words, self.shares), self.shares)


@dataclass(frozen=True)
class DivideUnits:
    """Divides blocks into parts, each unit by its own word, which depends only on its name and the keys."""

    domain: Domain
    shares: tuple[float, ...]
    key: bytes

    def __call__(self, batches: Batches) -> Batches:
        """Divide a partition."""
        for batch in batches:
            for row in range(len(batch)):
                records = records_of(batch, row, self.domain, self.domain.names)
                owners = np.frombuffer(batch.column("owner")[row].as_buffer(), "<u4")
                words = np.frombuffer(batch.column("word")[row].as_buffer(), "<u8")
                part = part_of(words_of_rows(_view_as_bytes(words), self.key), self.shares)
                yield from _by_part(records, part, self.shares, owners, words)


@dataclass(frozen=True)
class Count:
    """Computes the marginals of some cliques."""

    domain: Domain
    recoding: Recoding
    cliques: tuple[Clique, ...]

    def __call__(self, batches: Batches) -> Batches:
        """Count a partition."""
        counted = select_counted_domain(self.recoding.domain, self.cliques)
        counter = Counter(counted, self.cliques, threads=1)
        flat = counter.zeros()
        needed = self.recoding.sources(counted.names)
        for batch in batches:
            for row in range(len(batch)):
                records = records_of(batch, row, self.domain, needed)
                counter.add(self.recoding.apply(records, counted.names), flat)
        yield from iterate_count_pieces(flat)


@dataclass(frozen=True)
class BlockGroups:
    """Computes the distinct rows over some attributes in each block, and the count of each."""

    domain: Domain
    recoding: Recoding
    names: tuple[str, ...]

    def __call__(self, batches: Batches) -> Batches:
        """Count the distinct rows of a partition."""
        needed = self.recoding.sources(self.names) or list(self.domain.names[:1])
        for batch in batches:
            for row in range(len(batch)):
                records = self.recoding.apply(records_of(batch, row, self.domain, needed), self.names)
                distinct, rows = group_distinct_rows(records)
                lines = octets_of(Records.of(records.domain, list(distinct.T)))
                yield pa.RecordBatch.from_arrays([make_binary_array(lines), pa.array(rows)], names=list(GROUP_FIELDS))


@dataclass(frozen=True)
class UnitSizes:
    """Computes the number of units with 1, 2, ..., `most` rows; all rows of a unit are in one block."""

    most: int

    def __call__(self, batches: Batches) -> Batches:
        """Count the units of a partition."""
        sizes = np.zeros(self.most, np.int64)
        for batch in batches:
            for owners in batch.column("owner"):
                sizes += sizes_of(np.frombuffer(owners.as_buffer(), "<u4").astype(np.int64), self.most)
        yield from iterate_count_pieces(sizes)


def select_counted_domain(domain: Domain, cliques: Sequence[Clique]) -> Domain:
    """Return the domain of the attributes in cliques, at least one."""
    asked = {name for clique in cliques for name in clique}
    return domain.project([name for name in domain if name in asked] or domain.names[:1])


def _view_as_bytes(words: Any) -> Octets:
    return np.ascontiguousarray(words).astype("<u8").view(np.uint8).reshape(-1, 8)


def _by_part(
    records: Records, part: Any, shares: Sequence[float], owners: Any = None, words: Any = None
) -> Iterator[pa.RecordBatch]:
    for number in range(len(shares)):
        chosen = part == number
        if chosen.any():
            beside = {} if owners is None else {"owner": owners[chosen].tobytes(), "word": words[chosen].tobytes()}
            yield make_block(records.take(chosen), part=number, **beside)
