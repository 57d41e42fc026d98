"""What a column looks like from its rows: the entry of a draft, by the first kind that recognises it.

A guess is tried on the rows before it is given: whatever is drafted of a table is accepted by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.drafting.accepted import accepts
from weft.drafting.written import Reading, readings, without_markers
from weft.reading.dialect import Dialect
from weft.schema import KINDS
from weft.schema.kinds.evidence import Evidence, Guess
from weft.values.limits import MAX_CODES
from weft.values.markers import Marker, blanked, written

_NUMBERS = ("integer", "real")
_FORMATTED = ("datetime", "time", "duration")


def guess(column: pa.ChunkedArray, name: str, *, declared: bool = True) -> Guess | None:
    """Guess what a column is (None: no kind fits its type), with every fact marked as read from the rows.

    `declared` says whether its type is the source's own, and not itself a guess.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    kind = column.type
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        column = pc.if_else(pc.is_nan(column), None, column)
    missing = column.null_count > 0 or pa.types.is_null(kind)
    found = _recognised(Evidence(name, _whole(_flat(column))))
    return None if found is None else _marked(found, missing, decided=declared and _decides(kind))


def guess_written(column: pa.ChunkedArray, name: str, dialect: Dialect) -> Guess | None:
    """Guess what a column of text is, as a file holds it, with the words in it that stand for missing values."""
    text = _flat(column, keep_nulls=True)
    given = _present(text, dialect.missing)
    kept = blanked(text, ["", *given])
    if pc.any(pc.match_substring_regex(text, r"^\s+$")).as_py():
        given = [*given, ""]  # blanks alone are no value: the marker of nothing takes them
    for reading, kinds in _ways(kept, dialect):
        found = guess(pa.chunked_array([reading.values]), name, declared=False)
        if found is None or (kinds and found.entry["kind"] not in kinds):
            continue
        made = _told(_numbered(found, reading), reading, given)
        if accepts(name, made.entry, column, dialect):
            return made
    listed = _listed(kept, given)
    return listed if listed is not None and accepts(name, listed.entry, column, dialect) else None


def _ways(kept: pa.Array, dialect: Dialect) -> Iterator[tuple[Reading, Sequence[str]]]:
    """Yield readings of a column, and the kinds that each is good for (none: all)."""
    for reading in readings(kept, dialect.number_format):
        yield reading, ()
    if (reduced := without_markers(kept)) is not None:
        yield reduced, _FORMATTED
    yield Reading(kept), ()


def _numbered(found: Guess, reading: Reading) -> Guess:
    """Return a number for what is written as one with signs around it: no code and no id is."""
    if not reading.told or "timezone" in reading.told or found.entry["kind"] in _NUMBERS:
        return found
    ends = pc.min_max(reading.values)
    kind = "integer" if pa.types.is_integer(reading.values.type) else "real"
    kept = {key: value for key, value in found.entry.items() if key == "missing"}
    entry = {"kind": kind, "range": [ends["min"].as_py(), ends["max"].as_py()], **kept}
    return Guess(entry | {"from_data": ["kind", *KINDS[kind].flipped]}, "Numbers.")


def _told(found: Guess, reading: Reading, given: Sequence[Marker]) -> Guess:
    """Add to a guess how the column is written, and what stands for missing values in it."""
    entry, reason = dict(found.entry), found.reason
    marks = entry.pop("from_data")
    if reading.told and KINDS[entry["kind"]].modelled:
        entry |= reading.told
    markers = list(dict.fromkeys([*given, *reading.markers]))
    if markers and KINDS[entry["kind"]].modelled:
        entry["missing"] = markers
    if reading.markers and KINDS[entry["kind"]].modelled:
        reason = f"{reason} Words among them count as missing."
    return replace(found, entry=entry | {"from_data": marks}, reason=reason)


def _listed(kept: pa.Array, given: Sequence[Marker]) -> Guess | None:
    """List every text, where no other guess will do."""
    values = sorted(pc.unique(kept.drop_null()).to_pylist()) or ["unknown"]
    if len(values) > MAX_CODES:
        return None
    missing = {"missing": list(given) or True} if kept.null_count else {}
    marks = ["kind", *KINDS["category"].flipped]
    return Guess({"kind": "category", "values": values, **missing, "from_data": marks}, "Text of many sorts.")


def _present(text: pa.Array, markers: Sequence[Marker]) -> list[Marker]:
    """Return the markers that a column holds."""
    if not markers:
        return []
    held = set(pc.unique(pc.ascii_trim_whitespace(text)).to_pylist())
    return [marker for marker in markers if written(marker) in held]


def _recognised(evidence: Evidence) -> Guess | None:
    return next((found for kind in KINDS.values() if (found := kind.recognise(evidence)) is not None), None)


def _flat(column: pa.ChunkedArray, keep_nulls: bool = False) -> pa.Array:
    values = (column if keep_nulls else column.drop_null()).combine_chunks()
    return pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values


def _whole(values: pa.Array) -> pa.Array:
    """Return floats that are all whole numbers, and small enough to be exact, as such; any other array as it is."""
    if not (pa.types.is_float32(values.type) or pa.types.is_float64(values.type)) or not len(values):
        return values
    floats = values.cast(pa.float64()).to_numpy()
    exact = 2.0**24 if pa.types.is_float32(values.type) else 2.0**53
    whole = np.isfinite(floats).all() and (floats == np.floor(floats)).all() and np.abs(floats).max() <= exact
    return pa.array(floats.astype(np.int64)) if whole else values


def _decides(kind: pa.DataType) -> bool:
    """Whether a declared type alone says which kind a column is, so that no row can flip it."""
    return bool(
        pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    )


def _marked(guess: Guess, missing: bool, decided: bool) -> Guess:
    entry = dict(guess.entry)
    kind = KINDS[entry["kind"]]
    if missing and kind.modelled:
        entry["missing"] = True
    return replace(guess, entry=entry | {"from_data": [*([] if decided else ["kind"]), *kind.flipped]})
