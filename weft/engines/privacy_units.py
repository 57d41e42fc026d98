"""Contribution bound: keep at most `most` rows of each privacy unit, before anything is counted.

Privacy: each row gets a random key, and a unit keeps the rows with its smallest keys; no other unit affects this
choice. Keys are assigned by position, independently of one another and of the rows. Hence, wherever rows are inserted,
the keys of the rows that two neighbouring tables share have the same distribution in both: couple the runs in which
these keys are equal. In each coupled pair, adding or removing a unit leaves the kept rows of all other units unchanged,
and adds or removes at most `most` rows: the sensitivity is at most `most` times that of one row. Averaging over the
pairs preserves the guarantee. This requires keys that are drawn afresh from the operating system's entropy for each
opened table and are never released: with known keys, a row inserted at the front would shift the keys of all rows after
it, and so change which rows of other units are kept. The choice is made once, when the table is opened, so all queries
see the same kept rows.

A row without an id (missing, or empty or blank text) belongs to no unit and is dropped: its influence is zero. If all
such rows were one unit, each of these persons could displace another, which replaces a unit instead of adding one, and
doubles the influence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.engines.spill import Buckets, allocate_zeros, iterate_chunks
from weft.values.storage import decode_dictionary
from weft.values.text_numbers import Marker, blank_marked_values, is_text

SPILL = 1 << 28
"""Default for the bytes of an array with an entry per row above which it is stored in a file."""

Owners = NDArray[np.int64]  # the number of the privacy unit of each row


@dataclass(frozen=True)
class Units:
    """Collects the unit column while a table is read, then chooses the rows to keep."""

    column: str | None
    """Name of the unit column; None: every row is a unit, and all are kept."""
    most: int
    """Contribution bound: the maximum number of kept rows per unit."""
    markers: tuple[Marker, ...] = ()
    """Values of the unit column that mark a missing id."""
    spill: int = SPILL
    """Bytes of ids, or of an array with an entry per row, above which they are stored in files."""
    chunks: list[pa.Array] = field(default_factory=list)
    buckets: list[Buckets] = field(default_factory=list)
    """Ids that exceed `spill`: empty, or one element."""

    def beside(self, names: Sequence[str]) -> list[str]:
        """Return these column names, with the unit column included."""
        return [*names] if self.column is None or self.column in names else [*names, self.column]

    def see(self, batch: pa.RecordBatch) -> None:
        """Append the units of the next rows."""
        if self.column is None:
            return
        self.chunks.append(blank_marked_values(decode_dictionary(batch.column(self.column)), self.markers))
        if self.buckets or sum(chunk.nbytes for chunk in self.chunks) > self.spill:
            if not self.buckets:
                self.buckets.append(Buckets(np.random.default_rng()))
            for chunk in self.chunks:
                self.buckets[0].add(unit_names(chunk, ()))
            self.chunks.clear()

    def keep(self, rng: np.random.Generator) -> tuple[NDArray[np.bool_] | None, Owners | None]:
        """Return a mask of the kept rows (None: all), and the unit of each row if a unit may have several."""
        if self.column is None:
            return None, None
        if self.buckets:
            return self._keep_spilled(self.buckets.pop(), rng)
        owners = unit_codes(self.chunks)
        return keep_rows(owners, self.most, rng), owners if self.most > 1 else None

    def _keep_spilled(self, buckets: Buckets, rng: np.random.Generator) -> tuple[NDArray[np.bool_], Owners | None]:
        """Choose rows bucket by bucket: all rows of a unit are in one, and the choice depends on no other unit."""
        keep = allocate_zeros(buckets.rows, np.bool_, self.spill)
        owners = allocate_zeros(buckets.rows, np.int64, self.spill) if self.most > 1 else None
        seen = 0
        for places, units in buckets.each():
            keep[places] = keep_rows(units, self.most, rng)
            if owners is not None:
                owners[places] = units + seen
            seen += int(units.max(initial=-1)) + 1
        return keep, owners


def sizes_of(owners: Owners, most: int, keep: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """Return the number of units with 1, 2, ..., `most` of these rows, or of the kept ones.

    >>> sizes_of(np.array([3, 7, 3, 5]), 3).tolist()
    [2, 1, 0]
    """
    last = max((int(owners[cut].max(initial=-1)) for cut in iterate_chunks(len(owners))), default=-1)
    rows = allocate_zeros(last + 1, np.int64, SPILL)
    for cut in iterate_chunks(len(owners)):
        np.add.at(rows, owners[cut] if keep is None else owners[cut][keep[cut]], 1)
    found = np.zeros(most + 1, np.int64)
    for cut in iterate_chunks(len(rows)):
        found += np.bincount(rows[cut], minlength=most + 1)[: most + 1]
    return found[1:]


def unit_codes(chunks: Sequence[pa.Array]) -> NDArray[np.int64]:
    """Number the distinct values of a chunked unit column, trimmed; -1 for a missing unit (null, NaN, empty text)."""
    if not sum(map(len, chunks)):
        return np.empty(0, np.int64)
    coded = pa.chunked_array(map(_trim_ids, chunks)).dictionary_encode().unify_dictionaries()
    return np.concatenate([chunk.indices.fill_null(-1).to_numpy().astype(np.int64) for chunk in coded.chunks])


def unit_names(ids: pa.Array, markers: tuple[Marker, ...]) -> pa.Array:
    """Return the units of a column as bytes: equal for equal values and only for these, null if missing.

    >>> unit_names(pa.array(["", "p1", " ", "p1 ", None]), ()).to_pylist()
    [None, b'p1', None, b'p1', None]
    """
    known = _trim_ids(blank_marked_values(decode_dictionary(ids), markers))
    if pa.types.is_floating(known.type):
        known = pc.add(known, 0.0)  # -0.0 becomes 0.0
    if not is_text(known.type) and not pa.types.is_binary(known.type):
        known = known.cast(pa.string())
    return known.cast(pa.binary())


def _trim_ids(chunk: pa.Array) -> pa.Array:
    ids = decode_dictionary(chunk)
    if is_text(ids.type):
        ids = pc.ascii_trim_whitespace(ids.cast(pa.large_string()))  # as bytes, which may be invalid UTF-8
        return pc.if_else(pc.equal(ids, ""), None, ids)
    return pc.if_else(pc.is_nan(ids), None, ids) if pa.types.is_floating(ids.type) else ids


def keep_rows(units: NDArray[np.int64], most: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask of at most `most` uniformly chosen rows of each unit; none of unit -1, the missing unit.

    >>> keep = keep_rows(np.array([0, 1, 0, 0, 1]), 2, np.random.default_rng(1))
    >>> int(keep[[0, 2, 3]].sum()), keep[[1, 4]].tolist()
    (2, [True, True])
    """
    keep = np.zeros(len(units), np.bool_)
    if not len(units):
        return keep
    order = np.lexsort((rng.random(len(units)), units))
    first = np.r_[True, np.diff(units[order]) != 0]
    start = np.maximum.accumulate(np.where(first, np.arange(len(units)), 0))
    keep[order[np.arange(len(units)) - start < most]] = True
    return keep & (units >= 0)
