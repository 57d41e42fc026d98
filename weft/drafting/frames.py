"""Data frames as drafts read them: in the types that their library gave them, objects as a CSV would hold them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from weft.errors import DataError
from weft.reading.frames import collected, in_words, is_pandas, is_spark
from weft.reading.objects import word


def frame_table(source: Any) -> pa.Table:
    """Return a pandas, polars, Spark or Arrow table as an Arrow table. DataError if it is none."""
    name = f"the {type(source).__name__}"
    try:
        source = collected(source)
        if is_pandas(source):
            columns = [_array(source.iloc[:, place]) for place in range(source.shape[1])]
            return pa.Table.from_arrays(columns, [str(each) for each in source.columns])
        if is_spark(source):
            source = source.toArrow()
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError):  # what these say may quote a value
        pass
    raise DataError(f"{name} is no table that can be read; give a pandas, polars, Spark or Arrow table, or a file")


def _array(series: Any) -> pa.ChunkedArray | pa.Array:
    if series.dtype != object:
        return pa.array(series, from_pandas=True)
    return in_words(word, series.to_numpy(object), str(series.name))
