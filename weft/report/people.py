"""Rows per person: how many rows people have, and whether what stays the same for a person does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.report.figures import Agreement, PeopleFigures
from weft.report.grouping import Floats
from weft.schema import Schema
from weft.values.storage import decoded
from weft.values.text import is_text


def people_figures(schema: Schema, synth: pa.Table, real: pa.Table | None = None) -> PeopleFigures | None:
    """Compare how many rows people have; None where every person has one. With `real` it is PRIVATE.

    Of private people the rows beyond `rows_per_unit` are left out, as they were when the model was learned.
    """
    if schema.unit is None or schema.rows_per_unit == 1:
        return None
    sizes = [None if table is None else _sizes(table, schema.unit) for table in (real, synth)]
    before, after = (None if found is None else _shares(found, schema.rows_per_unit) for found in sizes)
    agree = [_agreement(table, schema) for table in (real, synth)]
    return PeopleFigures(
        schema.unit,
        schema.rows_per_unit,
        None if sizes[0] is None else len(sizes[0]),
        0 if sizes[1] is None else len(sizes[1]),
        None if before is None else tuple(before.tolist()),
        () if after is None else tuple(after.tolist()),
        tuple(Agreement(name, agree[0].get(name), agree[1].get(name)) for name in schema.per_unit),
    )


def _sizes(table: pa.Table, unit: str) -> Floats:
    """Return how many rows each person has; rows that name nobody are left out."""
    counts = pc.value_counts(_known(table, unit).drop_null()).field("counts")
    return np.asarray(counts.to_numpy(zero_copy_only=False), np.float64)


def _shares(sizes: Floats, most: int) -> Floats:
    """Return the share of people with 1, 2, ..., `most` rows."""
    held = np.minimum(sizes, most).astype(np.int64)
    return np.asarray(np.bincount(held, minlength=most + 1)[1:] / max(len(held), 1), np.float64)


def _agreement(table: pa.Table | None, schema: Schema) -> dict[str, float]:
    """Return the share of the people with several rows in whose rows a column is the same."""
    if table is None or schema.unit is None or not schema.per_unit:
        return {}
    columns = {name: decoded(table.column(name).combine_chunks()) for name in schema.per_unit}
    held = pa.table(columns).append_column("", _known(table, schema.unit))  # no column has an empty name
    held = held.filter(pc.is_valid(held.column("")))
    every = pc.CountOptions(mode="all")
    found = held.group_by("").aggregate([("", "count"), *((name, "count_distinct", every) for name in columns)])
    several = found.filter(pc.greater(found.column("_count"), 1))
    if not len(several):
        return {}
    return {name: float(pc.mean(pc.equal(several.column(f"{name}_count_distinct"), 1)).as_py()) for name in columns}


def _known(table: pa.Table, unit: str) -> pa.Array:
    """Return whose each row is; null for rows that name nobody."""
    ids = decoded(table.column(unit).combine_chunks())
    if is_text(ids.type):
        ids = ids.cast(pa.large_string())
        return pc.if_else(pc.equal(ids, ""), None, ids)
    return pc.if_else(pc.is_nan(ids), None, ids) if pa.types.is_floating(ids.type) else ids
