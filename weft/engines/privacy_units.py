"""The privacy unit: keep at most so many rows of each person, before anything is counted.

The argument. Each row gets a random key, and a unit keeps the rows with its smallest keys; no other unit has a
say. Keys are dealt out by position, independent of one another and of the rows, so whichever rows stand before or
between, the keys of the shared rows have the same law in both of two neighbouring tables: pair the runs in which
these keys are equal. In each pair, one unit more or less leaves the kept rows of all others as they were, and adds
or removes at most `most` rows: the sensitivity of one row grows by that factor and no more. Averaging over the
pairs keeps the guarantee. This rests on keys that are drawn afresh from the operating system's entropy for each
opened table and never released: for keys that somebody knows, a row put in front would shift all that follow, and
so change which rows of others stay. The choice is made once, when the table is opened, so all questions see the
same kept rows.

A row that does not say whose it is (a missing id, or an empty or blank text) belongs to no unit and is left out: its
influence is nought. Taking all such rows for one person's would let each of these people displace another, which
is replacing a unit and not adding one, and twice as telling.
"""

from __future__ import annotations

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
"""Octets past which what is known of each row is kept in files, where nobody says how much memory there is."""

Owners = NDArray[np.int64]
"""The number of the privacy unit that each row belongs to."""


@dataclass(frozen=True)
class Units:
    """Gathers the unit column while a table is read, then says which rows stay."""

    column: str | None
    """Name of the unit column; None: every row is a unit, and all stay."""

    most: int
    """Rows of one unit that stay."""

    markers: tuple[Marker, ...] = ()
    """Values of the unit column that stand for a missing id."""

    spill: int = SPILL
    """Octets of ids, or of what is known of each row, past which they are kept in files."""

    chunks: list[pa.Array] = field(default_factory=list)
    buckets: list[Buckets] = field(default_factory=list)
    """Ids that were too many for memory: none, or one."""

    def beside(self, names: Sequence[str]) -> list[str]:
        """Return these column names, with the unit's among them."""
        return [*names] if self.column is None or self.column in names else [*names, self.column]

    def see(self, batch: pa.RecordBatch) -> None:
        """Note the units of the next rows."""
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
        """Mark the rows that stay, by position (None: all), and tell whose each is where a unit may have several."""
        if self.column is None:
            return None, None
        if self.buckets:
            return self._keep_spilled(self.buckets.pop(), rng)
        owners = unit_codes(self.chunks)
        return keep_rows(owners, self.most, rng), owners if self.most > 1 else None

    def _keep_spilled(self, buckets: Buckets, rng: np.random.Generator) -> tuple[NDArray[np.bool_], Owners | None]:
        """Choose bucket by bucket: a unit's rows are in one, and which of them stay is its own affair."""
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
    """Return how many units have 1, 2, ..., `most` of these rows, or of those of them that are kept.

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
    """Number the units of a column given in pieces: equal numbers for equal values, and for no others.

    Blanks around a text are no part of it. Rows whose unit is missing (null, not a number, or an empty text) get -1.
    """
    if not sum(map(len, chunks)):
        return np.empty(0, np.int64)
    coded = pa.chunked_array(map(_trim_ids, chunks)).dictionary_encode().unify_dictionaries()
    return np.concatenate([chunk.indices.fill_null(-1).to_numpy().astype(np.int64) for chunk in coded.chunks])


def unit_names(ids: pa.Array, markers: tuple[Marker, ...]) -> pa.Array:
    """Return the units of a column as octets: equal for equal values and for no others, null for nobody.

    >>> unit_names(pa.array(["", "p1", " ", "p1 ", None]), ()).to_pylist()
    [None, b'p1', None, b'p1', None]
    """
    known = _trim_ids(blank_marked_values(decode_dictionary(ids), markers))
    if pa.types.is_floating(known.type):
        known = pc.add(known, 0.0)  # for nought has two signs
    if not is_text(known.type) and not pa.types.is_binary(known.type):
        known = known.cast(pa.string())
    return known.cast(pa.binary())


def _trim_ids(chunk: pa.Array) -> pa.Array:
    """Return the ids of a piece without blanks around them, null for those that name nobody."""
    ids = decode_dictionary(chunk)
    if is_text(ids.type):
        ids = pc.ascii_trim_whitespace(ids.cast(pa.large_string()))  # as bytes, which need be no sound text
        return pc.if_else(pc.equal(ids, ""), None, ids)
    return pc.if_else(pc.is_nan(ids), None, ids) if pa.types.is_floating(ids.type) else ids


def keep_rows(units: NDArray[np.int64], most: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mark at most `most` rows of each unit, a uniformly random choice in each; none of unit -1, which is nobody's.

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
