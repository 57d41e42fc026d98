"""Releases as data frames: in the types that the private frame declared, and else those of the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from weft.engines.frames import GUESSED_UNIT
from weft.reading.frames import is_pandas, is_polars, is_spark, pandas
from weft.reading.objects import EXACT
from weft.schema import Schema
from weft.schema.kinds import Column
from weft.values.text import is_text


def frame_maker(data: Any, schema: Schema) -> Callable[[pa.Table], Any]:
    """Return what turns a pyarrow Table into the kind of frame that `data` is."""
    if is_pandas(data):
        dtypes = {str(name): dtype for name, dtype in data.dtypes.items()}
        return lambda table: to_pandas(table, dtypes, schema)
    if is_polars(data):
        dtypes = dict(data.schema)
        return lambda table: to_polars(table, dtypes, schema)
    if is_spark(data):
        session = data.sparkSession
        return lambda table: session.createDataFrame(table)
    return as_is


def as_is(table: pa.Table) -> pa.Table:
    """Return a table as it is."""
    return table


def to_pandas(table: pa.Table, dtypes: Mapping[str, Any], schema: Schema) -> Any:
    """Return a release as a pandas frame: in the dtypes that were declared, and else those of the schema.

    Whole numbers that may be missing are floats in pandas's own types, drawn missing or not; where a float would
    not tell them apart they are Int64 or UInt64.
    """
    pd = pandas()
    table = table.unify_dictionaries()
    series = {name: _series(table.column(name), dtypes[name], schema.column(name)) for name in table.column_names}
    return pd.DataFrame(series, columns=table.column_names)


def _series(values: pa.ChunkedArray, dtype: Any, column: Column) -> Any:
    """Return a released column in the family of its dtype: Arrow's, pandas's nullable types, or numpy's."""
    pd = pandas()
    if isinstance(dtype, pd.ArrowDtype):
        return values.to_pandas(types_mapper=pd.ArrowDtype)
    if isinstance(dtype, pd.StringDtype) and dtype.na_value is pd.NA:
        return values.to_pandas(types_mapper=lambda kind: dtype if is_text(kind) else _nullable(kind))
    if isinstance(dtype, pd.api.extensions.ExtensionDtype) and hasattr(dtype, "numpy_dtype"):
        return values.to_pandas(types_mapper=_nullable)
    if pa.types.is_date(values.type):
        return values.to_pandas(date_as_object=False).astype(
            f"datetime64[{GUESSED_UNIT}]"
        )  # pandas has no dates of its own
    if column.missing and pa.types.is_boolean(values.type):
        return values.to_pandas().astype(object)
    if not (column.missing and pa.types.is_integer(values.type)):
        return values.to_pandas()
    if column.largest <= EXACT:
        return values.to_pandas().astype(np.float64)
    return values.to_pandas(types_mapper=_nullable)


def _nullable(kind: pa.DataType) -> Any:
    """Return pandas's nullable dtype for an Arrow type; None where it has none."""
    pd = pandas()
    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    if is_text(kind):
        return pd.StringDtype(na_value=pd.NA)
    if not (pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)):
        return None
    name = str(np.dtype(kind.to_pandas_dtype()))
    return pd.api.types.pandas_dtype(name.replace("uint", "UInt") if name[0] == "u" else name.capitalize())


def to_polars(table: pa.Table, dtypes: Mapping[str, Any], schema: Schema) -> Any:
    """Return a release as a polars frame; an Enum stays one, of the schema's values: its own may be those of rows."""
    import polars as pl

    frame: Any = pl.from_arrow(table)
    for name, dtype in dtypes.items():
        column = schema.column(name) if name in schema else None
        if isinstance(dtype, pl.Enum) and column is not None and column.listed is not None:
            frame = frame.with_columns(pl.col(name).cast(pl.Enum([str(value) for value in column.listed])))
    return frame
