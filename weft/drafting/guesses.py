"""What a column looks like from its rows: the entry of a draft, by the first kind that recognises it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.schema import KINDS
from weft.schema.kinds.evidence import Evidence, Guess


def guess(
    column: pa.ChunkedArray, name: str, written: pa.ChunkedArray | None = None, *, declared: bool = True
) -> Guess | None:
    """Guess what a column is (None: no kind fits its type), with every fact marked as read from the rows.

    `written` is the column as text, where words in it such as NA were taken for missing values. `declared` says whether
    its type is the source's own, and not itself a guess.
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
    if found is None:
        return None
    if written is not None and found.entry["kind"] == "category":
        return guess(written, name, declared=declared)  # its values must all be of one type
    if written is not None and KINDS[found.entry["kind"]].modelled:
        reason = f"{found.reason} Words in it, such as NA, count as missing."
        found = Guess(found.entry | {"outside": "clip"}, reason)
    return _marked(found, missing, decided=declared and _decides(kind))


def _recognised(evidence: Evidence) -> Guess | None:
    return next((found for kind in KINDS.values() if (found := kind.recognise(evidence)) is not None), None)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    values = column.drop_null().combine_chunks()
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
