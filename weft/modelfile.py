"""The model file: a zip of JSON and plain numeric arrays, that can be read but never run.

| member | what it holds |
|---|---|
| `weft.json` | format version, the method and its options, which marginals were measured with how much noise |
| `schema.json` | the schema, and the Arrow types of the table it was fitted on |
| `ledger.json` | the budget and every question that was paid for |
| `model.json` | the model's type and its plain values |
| `arrays/*.npy` | the model's arrays |

No private row or exact count is inside. Nothing in the file is executed: JSON is parsed, arrays are read with pickling
off, and sizes are checked before anything is unpacked.
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.atomic import staged
from weft.domain import Domain, clique
from weft.errors import ModelFileError, WeftError
from weft.marginal import Array, Measured
from weft.models import Model, model_class
from weft.privacy import Ledger
from weft.schema import Codec, Schema

FORMAT = 1
"""Version of the file format; readers refuse a newer one."""

MAX_BYTES = 8 << 30
"""Unpacked size past which a file is refused: a zip can claim more than it carries."""

DATE = (1980, 1, 1, 0, 0, 0)
"""The date of every member. A clock would tell how long a fit took, and so of the number of rows; without one, equal
models make equal files."""

NUMERIC = "biuf"
"""Kinds of array that a model may hold: booleans, integers and floats."""


DAMAGE = (
    *(WeftError, OSError, EOFError, zipfile.BadZipFile, zlib.error, ValueError, TypeError, LookupError),
    *(ArithmeticError, AttributeError, MemoryError, RecursionError, NotImplementedError),
)
"""What reading a damaged or hostile file may raise along the way."""


@dataclass(frozen=True)
class Fitted:
    """What a fit leaves behind: enough to sample, to explain and to check, and nothing private."""

    method: str
    options: dict[str, Any]
    schema: Schema
    codec: Codec
    model: Model
    ledger: Ledger
    measured: tuple[Measured, ...] = ()
    """The marginals that were measured, and the noise on them."""


def save(fitted: Fitted, path: Path) -> None:
    """Write a model file, whole or not at all."""
    meta, arrays = fitted.model.to_arrays()
    documents = {
        "weft.json": {
            "format": FORMAT,
            "method": fitted.method,
            "options": fitted.options,
            "measured": [[list(m.clique), list(m.shape), m.sigma] for m in fitted.measured],
        },
        "schema.json": fitted.codec.to_dict(),
        "ledger.json": fitted.ledger.to_dict(),
        "model.json": {"kind": fitted.model.kind, "arrays": sorted(arrays), "values": meta},
    }
    with staged(path) as (draft,), zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as file:
        for name, document in documents.items():
            file.writestr(_member(name), json.dumps(document, indent=1, allow_nan=False))
        for name, array in arrays.items():
            with file.open(_member(f"arrays/{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, DATE)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o600 << 16  # readable by its owner, once unpacked
    return member


def load(path: Path) -> Fitted:
    """Read a model file; ModelFileError if it is not one, is damaged, or is of a newer format."""
    try:
        with zipfile.ZipFile(path) as file:
            return _read(file)
    except FileNotFoundError:
        raise ModelFileError(f"{path}: no such file") from None
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except DAMAGE:
        raise ModelFileError(f"{path}: not a model file, or a damaged one. Fit the model again.") from None


def _read(file: zipfile.ZipFile) -> Fitted:
    if sum(member.file_size for member in file.infolist()) > MAX_BYTES:
        raise ModelFileError(f"refused: it would unpack to more than {MAX_BYTES >> 30} GiB")
    head = _document(file, "weft.json")
    if not isinstance(head.get("format"), int) or head["format"] > FORMAT:
        raise ModelFileError("written by a newer Weft. Update weft to read it")
    codec = Codec.from_dict(_document(file, "schema.json"))
    stored = _document(file, "model.json")
    names = [str(name) for name in stored["arrays"]]
    arrays = {name: _array(file, f"arrays/{name}.npy") for name in names}
    model = model_class(stored["kind"]).from_arrays(codec.domain, stored["values"], arrays)
    ledger = Ledger.from_dict(_document(file, "ledger.json"))
    if getattr(model, "deniable", False) and not ledger.deniable:
        # Its card would promise an epsilon that does not hold.
        raise ModelFileError("refused: its records are deniable and no more, but its ledger does not say so")
    return Fitted(
        method=str(head["method"]),
        options=dict(head["options"]),
        schema=codec.schema,
        codec=codec,
        model=model,
        ledger=ledger,
        measured=tuple(_measured(codec.domain, *entry) for entry in head.get("measured", ())),
    )


def _measured(domain: Domain, names: list[str], shape: list[int], sigma: float) -> Measured:
    fits = len(names) == len(shape) and all(1 <= size <= domain.size(n) for n, size in zip(names, shape, strict=True))
    if not fits or list(clique(names)) != names or not (math.isfinite(sigma) and sigma > 0):
        raise ModelFileError("damaged: its list of measured marginals does not fit its columns")
    return Measured(clique(names), tuple(int(size) for size in shape), float(sigma))


def _document(file: zipfile.ZipFile, name: str) -> dict[str, Any]:
    document = json.loads(file.read(name))
    if not isinstance(document, dict):
        raise ModelFileError(f"damaged: {name} is not an object")
    return document


def _array(file: zipfile.ZipFile, name: str) -> Array:
    with file.open(name) as member:
        version = np.lib.format.read_magic(member)
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = header[version](member)
        if dtype.kind not in NUMERIC or dtype.hasobject:
            raise ModelFileError(f"refused: {name} holds something other than numbers")
        # A header may claim any shape: believe it only if the member really carries that many bytes.
        if math.prod(shape) * dtype.itemsize > file.getinfo(name).file_size:
            raise ModelFileError(f"damaged: {name} is shorter than it claims")
    with file.open(name) as member:
        array: Array = np.lib.format.read_array(member, allow_pickle=False)
        return array
