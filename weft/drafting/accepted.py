"""Whether a table is accepted by the entry that was drafted for its column: tried with the code of a release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from weft.codec.codec import Codec
from weft.errors import DataError, SchemaError
from weft.reading.columns import finished
from weft.reading.dialect import Dialect
from weft.schema import KINDS, Schema
from weft.schema.kinds import column_from_dict

_BESIDE = "weft column beside"  # a schema of ids alone has nothing to model


def accepts(name: str, entry: Mapping[str, Any], array: pa.ChunkedArray, dialect: Dialect | None) -> bool:
    """Whether every row of a column is read by its entry; with a dialect the column is text, as a file holds it."""
    try:
        column = column_from_dict(name, dict(entry))
        beside = KINDS["boolean"](_BESIDE)
        schema = Schema((column, beside))
        table = pa.table({name: array, _BESIDE: pa.array([True]).take(pa.array([0] * len(array), pa.int64()))})
        batches = table.to_batches()
        if dialect is not None:
            batches = [finished(batch, dialect.marking(schema), name, dialect.number_format) for batch in batches]
        codec = Codec(schema, batches[0].schema if batches else table.schema)
        for batch in batches:
            codec.encode(batch)
    except (DataError, SchemaError):
        return False
    return True
