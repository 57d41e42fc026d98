"""Data frames, told without importing their libraries, and their objects as the text that a CSV would hold."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.errors import DataError

Objects = NDArray[np.object_]


def is_spark(source: Any) -> bool:
    """Whether an object is a DataFrame of Spark, told without importing it."""
    return _is(source, "pyspark")


def is_pandas(source: Any) -> bool:
    """Whether an object is a pandas data frame, told without importing pandas."""
    return _is(source, "pandas")


def is_polars(source: Any) -> bool:
    """Whether an object is a polars data frame, told without importing polars."""
    return _is(source, "polars")


def collected(source: Any) -> Any:
    """Return the frame of a polars LazyFrame, computed; anything else as it is.

    What a lazy query does to rows is the caller's own: the rows of its result are what is protected.
    """
    return source.collect() if _is(source, "polars", "LazyFrame") else source


def _is(source: Any, library: str, name: str = "DataFrame") -> bool:
    kinds = type(source).__mro__
    return any(kind.__name__ == name and kind.__module__.partition(".")[0] == library for kind in kinds)


def pandas() -> Any:
    """Return pandas."""
    return import_module("pandas")  # only where a frame shows that it is there


def in_words(write: Callable[[Any], str], values: Objects, name: str, *, is_id: bool = False) -> pa.Array:
    """Return the objects of a column of pandas as text, each written by itself; null where one is missing."""
    return texts(_each(write, values, name), name, is_id=is_id)


def texts(words: Any, name: str, *, is_id: bool = False) -> pa.Array:
    """Return a column of text; what is no sound text is none that a schema knows, and refused if it is an id."""
    try:
        return in_one(pa.array(words, pa.large_string(), from_pandas=True))
    except UnicodeEncodeError:  # half a surrogate pair
        if is_id:
            raise DataError(
                f'column "{name}": an id is no sound text (half a surrogate pair), so that two persons could '
                "become one. Mend the ids"
            ) from None
        whole = _each(lambda word: word.encode("utf-8", "replace").decode("utf-8"), np.asarray(words, object), name)
        return pa.array(whole, pa.large_string(), from_pandas=True)


def in_one(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return an array in one piece."""
    return array.unify_dictionaries().combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _each(write: Callable[[Any], str], values: Objects, name: str) -> Objects:
    """Apply a function to the values that are not missing."""
    words = np.full(len(values), None, object)
    try:
        present = ~pandas().isna(values)
        words[present] = np.frompyfunc(write, 1, 1)(values[present])
    except (ValueError, ArithmeticError):  # 5,000 digits, a moment before the first year, a signalling NaN
        raise DataError(
            f'column "{name}": an object cannot be written as text, its value is beyond all bounds'
        ) from None
    return words
