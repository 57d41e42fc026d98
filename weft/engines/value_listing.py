"""List the distinct values of columns whose values no schema states, for discovery."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.engines.privacy_units import Units
from weft.engines.sources import open_reader
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.io.reader import Reader
from weft.marginals.counting import Counts
from weft.marginals.domain import Domain
from weft.progress import Listener, ignore_event
from weft.schema import Schema
from weft.values.storage import decode_dictionary
from weft.values.text_numbers import blank_marked_values, repair_text

_TEXT = pa.large_string()

_MERGED = 32  # batches whose value counts are held before they are merged


@dataclass(frozen=True)
class Listing:
    """Counts the distinct values of columns, without missing values, blanks and markers."""

    reader: Callable[[], Reader]
    """Opens the table again, for each query."""
    schema: Schema
    rng: np.random.Generator
    """Chooses the kept rows of each unit, independently for each query, as in `weft.engines.privacy_units`."""
    listener: Listener = ignore_event

    @property
    def domain(self) -> Domain:
        """Empty domain: nothing is encoded yet."""
        return Domain((), ())

    def values(self, columns: Sequence[str]) -> dict[str, list[Counts]]:
        """Return packed values and their counts by column, in one pass; with a unit, all texts are held in memory."""
        unit = None if self.schema.unit is None else self.schema.column(self.schema.unit)
        units = Units(self.schema.unit, self.schema.rows_per_unit, () if unit is None else unit.markers)
        held: dict[str, list[Any]] = {name: [] for name in columns}
        read = self.reader().read(units.beside(columns), lambda b: self._words(b, columns), self.listener, "count")
        for batch, words in read:
            units.see(batch)
            for name, array in zip(columns, words, strict=True):
                held[name].append(array if unit is not None else _count_values(array))
                if unit is None and len(held[name]) >= _MERGED:
                    held[name] = [_merge_counts(held[name])]
        keep, _ = units.keep(self.rng)
        if keep is not None:
            kept = pa.array(keep)
            held = {name: [_count_values(pa.chunked_array(each, _TEXT).filter(kept))] for name, each in held.items()}
        packed = {}
        for name, each in held.items():
            merged = _merge_counts([_count_values(pa.array([], _TEXT)), *each])
            values, rows = (merged.column(part).combine_chunks() for part in ("value", "rows"))
            packed[name] = pack_value_counts(values, rows.to_numpy(zero_copy_only=False))
        return packed

    def _words(self, batch: pa.RecordBatch, columns: Sequence[str]) -> list[pa.Array]:
        return [self._written(batch.column(name), name) for name in columns]

    def _written(self, array: pa.Array, name: str) -> pa.Array:
        array = decode_dictionary(array)
        array = pa.nulls(len(array), _TEXT) if pa.types.is_null(array.type) else array
        words = repair_text(array.cast(_TEXT))
        words = blank_marked_values(words, self.schema.column(name).markers)
        return pc.if_else(pc.equal(pc.utf8_trim_whitespace(words), ""), None, words)


def open_listing(
    source: Any, schema: Schema, batch_rows: int, dialect: Dialect = DEFAULT_DIALECT, listener: Listener = ignore_event
) -> Listing:
    """Open a table to list its values; at most `schema.rows_per_unit` rows of each privacy unit are kept."""
    schema = dialect.marking(schema)
    reader = partial(open_reader, source, schema, batch_rows, dialect)
    return Listing(reader, schema, np.random.default_rng(), listener)


def _count_values(array: pa.Array | pa.ChunkedArray) -> pa.Table:
    found = pc.value_counts(array.drop_null())
    return pa.table({"value": found.field("values"), "rows": found.field("counts")})


def _merge_counts(pieces: Sequence[pa.Table]) -> pa.Table:
    both = pa.concat_tables(pieces).group_by("value", use_threads=False).aggregate([("rows", "sum")])
    return pa.table({"value": both.column("value"), "rows": both.column("rows_sum")})


def pack_value_counts(values: pa.Array, counts: Counts) -> list[Counts]:
    """Return counts, lengths and bytes of texts (`weft.privacy.partitions`), in the order of their bytes.

    >>> [array.tolist() for array in pack_value_counts(pa.array(["bc", "a"]), np.array([3, 5]))]
    [[5, 3], [1, 2], [97, 98, 99]]
    """
    order = pc.array_sort_indices(values.cast(pa.large_binary()))
    texts = pa.concat_arrays([values.cast(pa.large_binary()).take(order)])
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[: len(texts) + 1] if len(texts) else np.zeros(1, np.int64)
    octets = np.frombuffer(data, np.uint8)[: ends[-1]] if data is not None else np.empty(0, np.uint8)
    return [np.asarray(counts, np.int64)[order.to_numpy(zero_copy_only=False)], np.diff(ends), octets]
