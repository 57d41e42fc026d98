"""Released noisy marginals in a model file, for queries.

A query on a measured marginal needs the measurements themselves: the model is estimated from them, and does not contain
their standard errors. Counts are stored in the smallest sufficient integer type, and interaction terms in single
precision, far below the noise. Files without them remain readable; older readers ignore them.

Privacy: the measurements are released and charged already; storing them has no further cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.errors import ModelFileError
from weft.marginals.domain import Domain
from weft.marginals.marginal import Array, Measured, NoisyMarginal
from weft.marginals.pooling import Released
from weft.models.stored_arrays import MAX_STORED_NUMBER

_MIN_SIGMA = 1e-9  # minimum standard deviation of a valid marginal: none is released with less noise
WHOLE, PARTS, CODES = "released-counts", "released-interactions", "released-codes"
"""Names of the arrays: concatenated marginals, interaction terms, and codes of merged values."""

_MAX_ORDER = 64
_NONE: Array = np.zeros(0, np.int64)


def to_arrays(released: Sequence[Released]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the metadata and arrays to store."""
    codings: dict[tuple[str, bytes], int] = {}
    arrays: list[Array] = []
    names: list[str] = []
    places = []
    for held in released:
        own: list[int | None] = []
        for name in held.clique:
            codes = held.coding.get(name)
            if codes is None:
                own.append(None)
                continue
            key = (name, np.asarray(codes, np.int64).tobytes())
            if key not in codings:
                codings[key] = len(names)
                names.append(name)
                arrays.append(codes)
            own.append(codings[key])
        places.append(own)
    meta = {
        "tables": [
            [list(held.clique), list(held.noisy.table.shape), held.noisy.sigma, held.noisy.order, own]
            for held, own in zip(released, places, strict=True)
        ],
        "codings": names,
    }
    whole = [held.noisy.table.ravel() for held in released if not held.noisy.order]
    parts = [held.noisy.table.ravel() for held in released if held.noisy.order]
    made = {
        WHOLE: _shrink_integers(np.concatenate([_NONE, *whole])),
        PARTS: np.concatenate([_NONE, *parts]).astype(np.float32),
        CODES: _shrink_integers(np.concatenate([_NONE, *arrays])),
    }
    made = {name: array for name, array in made.items() if array.size}
    return meta | {"arrays": sorted(made)}, made


def _shrink_integers(values: Array) -> Array:
    """Convert integers to the smallest sufficient signed type."""
    kept = values.astype(np.int64)
    for dtype in (np.int8, np.int16, np.int32):
        if kept.size == 0 or (kept.min() >= np.iinfo(dtype).min and kept.max() <= np.iinfo(dtype).max):
            return kept.astype(dtype)
    return kept


def from_arrays(domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> tuple[Released, ...]:
    """Read the released marginals; raise ModelFileError if they do not fit the domain."""
    codings = _read_codings(domain, meta["codings"], arrays.get(CODES, _NONE))
    flat = {False: arrays.get(WHOLE, _NONE), True: arrays.get(PARTS, _NONE).astype(np.float64)}
    at = {False: 0, True: 0}
    made = []
    for names, shape, sigma, order, own in meta["tables"]:
        asked = validate_table_head(domain, names, shape, sigma)
        if not isinstance(order, int) or not 0 <= order <= _MAX_ORDER or len(own) != len(names):
            raise _make_damage_error()
        coding = {}
        for name, size, place in zip(asked.clique, asked.shape, own, strict=True):
            if place is not None:
                of, codes = codings[place]
                if of != name or int(codes.max()) + 1 != size:
                    raise _make_damage_error()
                coding[name] = codes
            elif size != domain.size(name):
                raise _make_damage_error()
        part = bool(order)
        cells = flat[part][at[part] : at[part] + asked.cells]
        at[part] += asked.cells
        # NaN fails both comparisons.
        if cells.size != asked.cells or not ((cells >= -MAX_STORED_NUMBER) & (cells <= MAX_STORED_NUMBER)).all():
            raise _make_damage_error()
        made.append(Released(NoisyMarginal(asked.clique, cells.reshape(asked.shape), asked.sigma, order), coding))
    if any(at[part] != flat[part].size for part in flat):
        raise _make_damage_error()
    return tuple(made)


def _read_codings(domain: Domain, names: list[str], flat: Array) -> list[tuple[str, Array]]:
    made, at = [], 0
    for name in names:
        codes = flat[at : at + domain.size(name)]
        at += domain.size(name)
        if codes.dtype.kind != "i" or codes.size != domain.size(name) or int(codes.min()) < 0:
            raise _make_damage_error()
        made.append((name, codes.astype(np.int64)))
    if at != flat.size:
        raise _make_damage_error()
    return made


def validate_table_head(domain: Domain, names: list[str], shape: list[int], sigma: float, order: int = 0) -> Measured:
    """Validate the description of a measured marginal; raise ModelFileError if it does not fit the domain."""
    fits = len(names) == len(shape) and all(1 <= size <= domain.size(n) for n, size in zip(names, shape, strict=True))
    if (
        not fits
        or sorted(set(names)) != names
        or not _MIN_SIGMA <= sigma <= MAX_STORED_NUMBER
        or order not in range(len(names) + 1)
    ):
        raise ModelFileError("damaged: its list of measured marginals does not fit its attributes")
    return Measured(tuple(names), tuple(int(size) for size in shape), float(sigma), int(order))


def _make_damage_error() -> ModelFileError:
    return ModelFileError("damaged: its released marginals do not fit its attributes. Fit the model again")
