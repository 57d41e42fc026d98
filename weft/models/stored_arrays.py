"""Validation of model-file content before a model is built, so that damaged values never surface during sampling.

Every function raises a ModelFileError that names the problem, unless numbers are finite and in range, cliques name
known attributes, and arrays have the expected shape, type and range.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.errors import ModelFileError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array

MAX_STORED_NUMBER = 1e18  # maximum count or total; sums of larger numbers lose precision
MIN_STORED_NUMBER = 1e-200  # smallest count or probability that is not read as 0
STEEPEST = 1e9  # maximum logarithm of a factor


def make_damage_error(what: str) -> ModelFileError:
    """Return the error for invalid content."""
    return ModelFileError(f"damaged: {what}. Fit the model again")


def read_number(
    values: Mapping[str, Any], key: str, low: float = -MAX_STORED_NUMBER, high: float = MAX_STORED_NUMBER
) -> float:
    """Read a finite number in a range."""
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise make_damage_error(f"{key} is not a number from {low:g} to {high:g}")
    return float(value)


def read_total(values: Mapping[str, Any]) -> float:
    """Read the noisy number of rows."""
    return read_number(values, "total", 0.0)


def read_whole_number(values: Mapping[str, Any], key: str, low: int, high: int) -> int:
    """Read an integer in a range."""
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise make_damage_error(f"{key} is not an integer from {low:,} to {high:,}")
    return value


def read_members(values: Mapping[str, Any], key: str) -> list[Any]:
    """Read a list."""
    value = values.get(key)
    if not isinstance(value, list):
        raise make_damage_error(f"{key} is no list")
    return value


def as_clique(names: Any, domain: Domain) -> Clique:
    """Validate a sorted list of attributes without duplicates."""
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name in domain for name in names):
        raise make_damage_error("a table names unknown attributes")
    if list(make_clique(names)) != names:
        raise make_damage_error("the attributes of a table are not sorted or not unique")
    return tuple(names)


def read_cliques(values: Mapping[str, Any], key: str, domain: Domain) -> list[Clique]:
    """Read a list of distinct cliques."""
    found = [as_clique(names, domain) for names in read_members(values, key)]
    if len(set(found)) != len(found):
        raise make_damage_error(f"{key} repeats a table")
    return found


def read_array(
    arrays: Mapping[str, Array], name: str, shape: Sequence[int], low: float, high: float = MAX_STORED_NUMBER
) -> Array:
    """Read a float64 array of this shape and range; if `low` is -infinity, cells are -infinity or at least `-high`."""
    array = arrays.get(name)
    if array is None or array.dtype != np.float64 or array.shape != tuple(shape):
        raise make_damage_error(f"{name} is not an array of {math.prod(shape):,} numbers")
    told = np.where(np.isneginf(array), 0.0, array) if low == -math.inf else array
    # NaN fails both comparisons.
    if array.size and not (told.min() >= max(low, -high) and array.max() <= high):
        raise make_damage_error(f"{name} has cells out of range")
    # Tiny divisors overflow; as counts and probabilities they are zero.
    return np.where(array < MIN_STORED_NUMBER, 0.0, array) if low >= 0 else array


def read_codes(arrays: Mapping[str, Array], name: str, length: int, size: int) -> Array:
    """Read an array of `length` integers from 0 to size - 1."""
    array = arrays.get(name)
    if array is None or array.dtype.kind not in "iu" or array.shape != (length,):
        raise make_damage_error(f"{name} is not an array of {length:,} integers")
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
    """Read tables that are stored concatenated in one array."""
    cells = [math.prod(shape) for shape in shapes]
    flat = read_array(arrays, name, (sum(cells),), low, high)
    parts = np.split(flat, np.cumsum(cells)[:-1]) if cells else []
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
