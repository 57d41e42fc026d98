"""What a model file holds, looked at before a model is made of it: a damaged value must not be met while sampling.

Everything here raises ModelFileError, which names what is wrong, and takes nothing on trust: numbers are finite and in
range, cliques name columns that exist, tables have the shape, the type and the range that the model needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.errors import ModelFileError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array

MAX_STORED_NUMBER = 1e18
"""Largest count in a table, and largest total: beyond it sums lose their meaning."""

MIN_STORED_NUMBER = 1e-200
"""Smallest count or chance that is told from 0."""

STEEPEST = 1e9
"""Largest logarithm of a factor."""


def make_damage_error(what: str) -> ModelFileError:
    """Return the error for a value that no model holds."""
    return ModelFileError(f"damaged: {what}. Fit the model again")


def read_number(
    values: Mapping[str, Any], key: str, low: float = -MAX_STORED_NUMBER, high: float = MAX_STORED_NUMBER
) -> float:
    """Read a finite number within a range."""
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise make_damage_error(f"{key} is no number from {low:g} to {high:g}")
    return float(value)


def read_total(values: Mapping[str, Any]) -> float:
    """Read a noisy number of rows."""
    return read_number(values, "total", 0.0)


def read_whole_number(values: Mapping[str, Any], key: str, low: int, high: int) -> int:
    """Read a whole number within a range."""
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise make_damage_error(f"{key} is no whole number from {low:,} to {high:,}")
    return value


def read_members(values: Mapping[str, Any], key: str) -> list[Any]:
    """Read a list."""
    value = values.get(key)
    if not isinstance(value, list):
        raise make_damage_error(f"{key} is no list")
    return value


def as_clique(names: Any, domain: Domain) -> Clique:
    """Read a list of columns, sorted and without repeats."""
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name in domain for name in names):
        raise make_damage_error("a table names columns that are not there")
    if list(make_clique(names)) != names:
        raise make_damage_error("the columns of a table are not sorted, or repeat")
    return tuple(names)


def read_cliques(values: Mapping[str, Any], key: str, domain: Domain) -> list[Clique]:
    """Read a list of different cliques."""
    found = [as_clique(names, domain) for names in read_members(values, key)]
    if len(set(found)) != len(found):
        raise make_damage_error(f"{key} repeats a table")
    return found


def read_array(
    arrays: Mapping[str, Array], name: str, shape: Sequence[int], low: float, high: float = MAX_STORED_NUMBER
) -> Array:
    """Read a table of float64 with this shape, every cell within a range.

    With a `low` of -infinity it holds logarithms: -infinity itself may stand there, and otherwise `-high` is least.
    """
    array = arrays.get(name)
    if array is None or array.dtype != np.float64 or array.shape != tuple(shape):
        raise make_damage_error(f"{name} is not a table of {math.prod(shape):,} numbers")
    told = np.where(np.isneginf(array), 0.0, array) if low == -math.inf else array
    # Not-a-number is neither above nor below.
    if array.size and not (told.min() >= max(low, -high) and array.max() <= high):
        raise make_damage_error(f"{name} has cells out of range")
    # What is all but nothing overflows as a divisor; of counts and chances it is nothing.
    return np.where(array < MIN_STORED_NUMBER, 0.0, array) if low >= 0 else array


def read_codes(arrays: Mapping[str, Array], name: str, length: int, size: int) -> Array:
    """Read an array of so many whole numbers from 0 to size - 1."""
    array = arrays.get(name)
    if array is None or array.dtype.kind not in "iu" or array.shape != (length,):
        raise make_damage_error(f"{name} is not a list of {length:,} whole numbers")
    if length and not (int(array.min()) >= 0 and int(array.max()) < size):
        raise make_damage_error(f"{name} has codes out of range")
    return array.astype(np.int64)


def end_to_end(
    arrays: Mapping[str, Array],
    name: str,
    shapes: Sequence[tuple[int, ...]],
    low: float,
    high: float = MAX_STORED_NUMBER,
) -> list[Array]:
    """Read tables that are stored as one array, one after another."""
    cells = [math.prod(shape) for shape in shapes]
    flat = read_array(arrays, name, (sum(cells),), low, high)
    parts = np.split(flat, np.cumsum(cells)[:-1]) if cells else []
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
