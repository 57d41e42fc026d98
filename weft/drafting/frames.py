"""Data frames as drafts read them: in the types that their library gave them, objects as a CSV would hold them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from weft.errors import DataError
from weft.reading.objects import word


def frame_table(source: Any) -> pa.Table:
    """Return a pandas, polars, Spark or Arrow table as an Arrow table. DataError if it is none."""
    name = f"the {type(source).__name__}"
    try:
        if _is(source, "pandas"):
            columns = [_array(source.iloc[:, place]) for place in range(source.shape[1])]
            return pa.Table.from_arrays(columns, [str(each) for each in source.columns])
        if _is(source, "polars"):
            source = source.lazy().collect()
        elif _is(source, "pyspark"):
            source = source.toArrow()
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError):  # what these say may quote a value
        pass
    raise DataError(f"{name} is no table that can be read; give a pandas, polars, Spark or Arrow table, or a file")


def _is(source: Any, library: str) -> bool:
    """Whether an object is a frame of a library, told without importing it."""
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(source).__mro__}
    return bool(kinds & {(library, "DataFrame"), (library, "LazyFrame")})


def _array(series: Any) -> pa.ChunkedArray | pa.Array:
    if series.dtype != object:
        return pa.array(series, from_pandas=True)
    values = series.to_numpy(object)
    words = np.full(len(values), None, object)
    present = ~import_module("pandas").isna(values)
    words[present] = [word(value) for value in values[present]]
    return pa.array(words, pa.large_string())
