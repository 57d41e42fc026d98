"""The model file: a zip of JSON and plain numeric arrays, that can be read but never run.

| member | what it holds |
|---|---|
| `manifest.json` | format version, and the SHA-256 of every other member |
| `weft.json` | the method and its options, which marginals were measured with how much noise |
| `schema.json` | the schema, and the Arrow types of the table it was fitted on |
| `ledger.json` | the budget and every question that was paid for |
| `model.json` | the model's type and its plain values |
| `arrays/*.npy` | the model's arrays, and the released tables (`weft.synthesis.noisy_tables`) |

No private row or exact count is inside, and no time: how long a step takes tells of the number of rows. Nothing in the
file is executed: JSON is parsed, arrays are read with pickling off, and sizes are checked before and while anything is
unpacked.

What the manifest protects against is accident and careless editing: a member that was changed, dropped or added is
found. A forger can compute hashes too. Against him stands only what follows from the rest of the file: a ledger that
does not add up, a model that is none, and warnings that its content demands (facts read from private rows, an insecure
budget, deniable records) are refused; a forged ledger that agrees with itself is not, and neither is a seeded noise
that nothing but its dropped warning told of. Who must know where a model comes from needs a signature over the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from weft.curator.value_queries import MAX_UNIT_SIZE
from weft.encoding import Codec
from weft.encoding.persons import People
from weft.errors import ModelFileError, WeftError
from weft.io.atomic_files import stage_files
from weft.marginals.domain import Domain
from weft.marginals.marginal import Array
from weft.marginals.pooling import Released
from weft.methods import METHODS
from weft.methods import make_method as recipe
from weft.models import Model, model_class
from weft.privacy import Ledger
from weft.schema import Schema
from weft.synthesis import noisy_tables as noisy
from weft.synthesis.fitted import Fitted
from weft.synthesis.marginal_plan.compiled_plan import extract_plan

FORMAT = 2
"""Version of the file format; older and newer ones are refused."""

MANIFEST = "manifest.json"

MAX_DOCUMENT = 64 << 20
"""Bytes past which a JSON member is refused: a schema with a million values has a third of that."""

MAX_ARRAYS = 2 << 30
"""Bytes of all arrays together past which a file is refused; a junction tree of the largest size has as many."""

MAX_MEMBERS = 100_000
"""Members past which a file is refused."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every member. A clock would tell how long a fit took, and so of the number of rows; without one, equal
models make equal files."""

_CHUNK = 1 << 20

PARTLY = "NOT PRIVATE IN FULL"
"""How the warning begins that facts of a schema were read from private rows."""

NUMERIC = "biuf"
"""Kinds of array that a model may hold: booleans, integers and floats."""


DAMAGE = (
    *(WeftError, OSError, EOFError, zipfile.BadZipFile, zlib.error, ValueError, TypeError, LookupError),
    *(ArithmeticError, AttributeError, MemoryError, RuntimeError),
)
"""What reading a damaged or hostile file may raise along the way."""


def save_model(fitted: Fitted, path: Path) -> None:
    """Write a model file, whole or not at all."""
    meta, arrays = fitted.model.to_arrays()
    tables, noisy_arrays = noisy.to_arrays(fitted.released)
    documents = {
        "weft.json": {
            "method": fitted.method,
            "options": fitted.options,
            "people": None if fitted.people is None else fitted.people.sizes.tolist(),
            "measured": [[list(m.clique), list(m.shape), m.sigma, m.order] for m in fitted.measured],
            "released": tables,
        },
        "schema.json": fitted.codec.to_dict(),
        "ledger.json": fitted.ledger.to_dict(),
        "model.json": {"kind": fitted.model.kind, "arrays": sorted(arrays), "values": meta},
    }
    hashes: dict[str, str] = {}
    with stage_files(path) as (draft,), zipfile.ZipFile(draft, "w") as file:
        for name, document in documents.items():
            hashes[name] = _write_member(file, name, json.dumps(document, indent=1, allow_nan=False).encode())
        for name, array in {**arrays, **noisy_arrays}.items():
            hashes[f"arrays/{name}.npy"] = _write_member(file, f"arrays/{name}.npy", _serialise_array(array))
        _write_member(file, MANIFEST, json.dumps({"format": FORMAT, "members": hashes}, indent=1).encode())


def _write_member(file: zipfile.ZipFile, name: str, content: bytes | bytearray) -> str:
    """Write a member without a date; return its SHA-256."""
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    with file.open(member, "w", force_zip64=True) as out:
        out.write(content)
    return hashlib.sha256(content).hexdigest()


def _serialise_array(array: Array) -> bytes:
    held = io.BytesIO()
    np.lib.format.write_array(held, np.ascontiguousarray(array), allow_pickle=False)
    return held.getvalue()


def load_model(path: Path) -> Fitted:
    """Read a model file; ModelFileError if it is not one, is damaged, or is of another format."""
    try:
        with zipfile.ZipFile(path) as file:
            return _read_model(_Members(file))
    except FileNotFoundError:
        raise ModelFileError(f"{path}: no such file") from None
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except DAMAGE:
        raise ModelFileError(f"{path}: not a model file, or a damaged one. Fit the model again.") from None


class _Members:
    """The members of a model file, each read once, within limits, and compared with the manifest."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file
        names = file.namelist()
        if len(names) > MAX_MEMBERS or len(set(names)) != len(names):
            raise ModelFileError("refused: it has too many members, or several of one name")
        if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in file.infolist()):
            raise ModelFileError("refused: it is packed in a way that no model file is")
        if MANIFEST not in names:
            old = "weft.json" in names
            raise ModelFileError(
                "written by an older Weft. Fit the model again with this version" if old else "no model file"
            )
        manifest = _parse_member(MANIFEST, self._unpacked(MANIFEST, MAX_DOCUMENT))
        made = manifest.get("format")
        if made != FORMAT:
            newer = isinstance(made, int) and made > FORMAT
            raise ModelFileError("written by a newer Weft. Update weft to read it" if newer else "of an unknown format")
        self._hashes = manifest["members"]
        if set(self._hashes) != set(names) - {MANIFEST}:
            raise ModelFileError("damaged: a member is missing, or there is one too many. Fit the model again")
        self._left = MAX_ARRAYS

    def document(self, name: str) -> dict[str, Any]:
        """Read a JSON object."""
        return _parse_member(name, self._checked(name, MAX_DOCUMENT))

    def array(self, name: str) -> Array:
        """Read an array of numbers."""
        content = self._checked(name, self._left)
        self._left -= len(content)
        held = io.BytesIO(content)
        version = np.lib.format.read_magic(held)
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = header[version](held)
        if dtype.kind not in NUMERIC or dtype.hasobject:
            raise ModelFileError(f"refused: {name} holds something other than numbers")
        # A header may claim any shape: it is believed only if the member carries exactly that many bytes.
        if math.prod(shape) * dtype.itemsize != len(content) - held.tell():
            raise ModelFileError(f"damaged: {name} is not as long as it claims")
        flat = np.frombuffer(content, dtype, offset=held.tell())
        return flat.reshape(shape, order="F" if fortran else "C").astype(dtype.newbyteorder("="), order="C")

    def _checked(self, name: str, most: int) -> bytes:
        content = self._unpacked(name, most)
        if hashlib.sha256(content).hexdigest() != self._hashes[name]:
            raise ModelFileError(f"damaged: {name} was changed since the file was made. Fit the model again")
        return content

    def _unpacked(self, name: str, most: int) -> bytes:
        """Read a member piece by piece, no further than the limit: its own word on its size is not believed."""
        held = bytearray()
        with self._file.open(name) as member:
            while piece := member.read(_CHUNK):
                held += piece
                if len(held) > most:
                    raise ModelFileError(f"refused: {name} would unpack to more than {most >> 20:,} MiB")
        return bytes(held)


def _parse_member(name: str, content: bytes) -> dict[str, Any]:
    document = json.loads(content)
    if not isinstance(document, dict):
        raise ModelFileError(f"damaged: {name} is not an object")
    return document


def _read_model(members: _Members) -> Fitted:
    head = members.document("weft.json")
    if head.get("method") not in METHODS:
        raise ModelFileError("refused: it names no method of this Weft")
    if isinstance(head["options"].get("marginals"), str):
        raise ModelFileError("refused: it names a file to read, which no model does")
    _, options = extract_plan(head["method"], head["options"])
    recipe(head["method"], **options)  # options that the method does not take are refused
    codec = Codec.from_dict(members.document("schema.json"))
    stored = members.document("model.json")
    arrays = {str(name): members.array(f"arrays/{name}.npy") for name in stored["arrays"]}
    model = model_class(stored["kind"]).from_arrays(codec.domain, stored["values"], arrays)
    ledger = Ledger.from_dict(members.document("ledger.json"))
    _check_stamps(codec.schema, model, ledger)
    return Fitted(
        method=head["method"],
        options=head["options"],
        schema=codec.schema,
        codec=codec,
        model=model,
        ledger=ledger,
        measured=tuple(noisy.validate_table_head(codec.domain, *entry) for entry in head["measured"]),
        people=_read_people(codec.schema, head["people"]),
        released=_read_released_tables(codec.domain, head, members),
    )


def _read_people(schema: Schema, sizes: list[float] | None) -> People | None:
    if sizes is None:
        return None
    shares = np.array(sizes, np.float64)
    if (
        shares.shape != (min(schema.rows_per_unit, MAX_UNIT_SIZE),)
        or not (shares >= 0).all()
        or not 0 < shares.sum() < math.inf
    ):
        raise ModelFileError("damaged: its numbers of rows a person do not fit its schema")
    return People(shares, schema.per_unit)


def warns_of_facts(stamps: Iterable[str]) -> bool:
    """Whether some warning says that facts of a schema were read from private rows."""
    return any(stamp.startswith(PARTLY) for stamp in stamps)


def _check_stamps(schema: Schema, model: Model, ledger: Ledger) -> None:
    """Refuse a file whose content demands a warning that it lacks; the ledger sees to its own (`Ledger.from_dict`)."""
    if getattr(model, "deniable", False) and not ledger.deniable:
        # Its card would promise an epsilon that does not hold.
        raise ModelFileError("refused: its records are deniable and no more, but its ledger does not say so")
    if schema.from_data_facts() and not warns_of_facts(ledger.stamps):
        raise ModelFileError("refused: facts of its schema were read from private rows, and it does not warn of that")


def _read_released_tables(domain: Domain, head: dict[str, Any], members: _Members) -> tuple[Released, ...]:
    """Read the noisy tables, where the file has them."""
    if "released" not in head:
        return ()
    held = {str(name): members.array(f"arrays/{name}.npy") for name in head["released"]["arrays"]}
    return noisy.from_arrays(domain, head["released"], held)
