"""Model file: a zip archive of JSON and numeric arrays, without executable content.

| member | content |
|---|---|
| `manifest.json` | format version, and the SHA-256 of every other member |
| `weft.json` | the method and its options, and the measured marginals with their noise |
| `schema.json` | the schema, and the Arrow types of the table it was fitted on |
| `ledger.json` | the budget and every charge |
| `model.json` | the model's type and its plain values |
| `database.json` | of related tables, instead of the first three: their schema, codecs, models and tables of families |
| `arrays/*.npy` | the model's arrays, and the released tables, for queries |

Privacy: the file contains no private row, no exact count, and no time, since durations reveal the number of rows.

Nothing in the file is executed: JSON is parsed, arrays are read without pickle, and sizes are checked before and during
unpacking. The manifest detects accidental damage and careless editing: members that were changed, removed or added. A
forger can compute hashes too. Forgery is detected only if the content is inconsistent: a ledger that does not add up,
an invalid model, or a missing warning that the content requires (facts read from private rows, an insecure budget,
deniable records) is refused. A consistent forged ledger is not detected, nor is a removed warning of seeded noise,
which nothing else in the file shows. To establish where a model comes from, sign the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.curator.value_queries import MAX_UNIT_SIZE
from weft.encoding import Codec
from weft.encoding.persons import People
from weft.engines.family_rows import own_domain, view_domain
from weft.errors import ModelFileError, WeftError
from weft.io.atomic_files import stage_files
from weft.marginals.domain import Domain
from weft.marginals.marginal import Array, Measured, NoisyMarginal
from weft.marginals.pooling import Released
from weft.methods import METHODS
from weft.methods import make_method as recipe
from weft.models import Model, model_class
from weft.models.stored_arrays import MAX_STORED_NUMBER
from weft.privacy import Ledger
from weft.schema import Schema
from weft.schema.database import Database
from weft.synthesis.database_model import FittedDatabase, LinkTargets
from weft.synthesis.fitted import Fitted
from weft.synthesis.marginal_plan.compiled_plan import extract_plan

FORMAT = 2  # version of the file format; other versions are refused
MANIFEST = "manifest.json"

MAX_DOCUMENT = 64 << 20  # maximum size of a JSON member in bytes; a schema with a million values has a third of that
MAX_ARRAYS = 2 << 30  # maximum total size of all arrays in bytes; a junction tree of the maximum size has as many
MAX_MEMBERS = 100_000  # maximum number of members
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Date of every member. Real times would reveal the duration of a fit and so the number of rows; equal models also
make equal files."""

_CHUNK = 1 << 20

_MIN_SIGMA = 1e-9  # minimum standard deviation of a valid marginal: none is released with less noise
WHOLE, PARTS, CODES = "released-counts", "released-interactions", "released-codes"
"""Names of the arrays: concatenated marginals, interaction terms, and codes of merged values."""
_MAX_ORDER = 64
_NONE: Array = np.zeros(0, np.int64)
PARTLY = "NOT PRIVATE IN FULL"  # prefix of the warning that schema facts were read from private rows
NUMERIC = "biuf"  # allowed dtype kinds of arrays: booleans, integers and floats
DAMAGE = (
    *(WeftError, OSError, EOFError, zipfile.BadZipFile, zlib.error, ValueError, TypeError, LookupError),
    *(ArithmeticError, AttributeError, MemoryError, RuntimeError),
)
"""Exceptions that reading a damaged or hostile file may raise."""


def save_model(fitted: Fitted, path: Path) -> None:
    """Write a model file atomically."""
    meta, arrays = fitted.model.to_arrays()
    tables, noisy_arrays = _pack_released(fitted.released)
    documents = {
        "weft.json": {
            "method": fitted.method,
            "options": fitted.options,
            "people": None if fitted.people is None else fitted.people.sizes.tolist(),
            "measured": _store_measured(fitted.measured),
            "released": tables,
        },
        "schema.json": fitted.codec.to_dict(),
        "ledger.json": fitted.ledger.to_dict(),
        "model.json": {"kind": fitted.model.kind, "arrays": sorted(arrays), "values": meta},
    }
    _write_archive(path, documents, {**arrays, **noisy_arrays})


def _store_measured(measured: Iterable[Measured]) -> list[Any]:
    return [[list(m.clique), list(m.shape), m.sigma, m.order] for m in measured]


def _write_archive(path: Path, documents: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write the members of a model file and their manifest."""
    hashes: dict[str, str] = {}
    with stage_files(path) as (draft,), zipfile.ZipFile(draft, "w") as file:
        for name, document in documents.items():
            hashes[name] = _write_member(file, name, json.dumps(document, indent=1, allow_nan=False).encode())
        for name, array in arrays.items():
            hashes[f"arrays/{name}.npy"] = _write_member(file, f"arrays/{name}.npy", _serialise_array(array))
        _write_member(file, MANIFEST, json.dumps({"format": FORMAT, "members": hashes}, indent=1).encode())


def save_database(fitted: FittedDatabase, path: Path) -> None:
    """Write the model of related tables atomically: `database.json`, `ledger.json` and all arrays."""
    arrays: dict[str, Array] = {}
    tables: dict[str, Any] = {}
    for name, model in fitted.models.items():
        meta, held = model.to_arrays()
        number = len(tables)
        arrays |= {f"{number}.{key}": array for key, array in held.items()}
        tables[name] = {
            "number": number,
            "codec": fitted.codecs[name].to_dict(),
            "model": {"kind": model.kind, "arrays": sorted(held), "values": meta},
            "targets": _store_targets(fitted.targets.get(name), f"{number}.link", arrays),
            "measured": _store_measured(fitted.measured.get(name, ())),
        }
        tables[name]["released"], noisy_arrays = _pack_released(fitted.released.get(name, ()))
        arrays |= {f"{number}.{key}": array for key, array in noisy_arrays.items()}
    for name, rows in fitted.public.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as out:
            out.write_table(rows)
        tables[name] = {"number": len(tables)}
        arrays[f"{tables[name]['number']}.public"] = np.frombuffer(sink.getvalue(), np.uint8)
    documents = {
        "database.json": {"schema": fitted.database.to_dict(), "options": fitted.options, "tables": tables},
        "ledger.json": fitted.ledger.to_dict(),
    }
    _write_archive(path, documents, arrays)


def _store_targets(targets: LinkTargets | None, prefix: str, arrays: dict[str, Array]) -> Any:
    if targets is None:
        return None
    arrays |= {f"{prefix}.own{i}": codes for i, codes in enumerate(targets.own.values())}
    arrays |= {f"{prefix}.above{i}": codes for i, codes in enumerate(targets.above.values())}
    for what, tables in (("siblings", targets.siblings), ("parents", targets.parents)):
        arrays |= {f"{prefix}.{what}{i}": table for i, (_, _, table, _) in enumerate(tables)}
    return {
        "own": list(targets.own),
        "above": list(targets.above),
        "siblings": [[a, b, sigma] for a, b, _, sigma in targets.siblings],
        "parents": [[a, b, sigma] for a, b, _, sigma in targets.parents],
    }


def _read_database(members: _Members) -> FittedDatabase:
    head = members.document("database.json")
    database = Database.from_dict(head["schema"])
    codecs = {table.name: Codec.from_dict(head["tables"][table.name]["codec"]) for table in database.private}
    domains = {name: codec.domain for name, codec in codecs.items()}
    models: dict[str, Model] = {}
    targets: dict[str, LinkTargets] = {}
    measured: dict[str, tuple[Measured, ...]] = {}
    released: dict[str, tuple[Released, ...]] = {}
    for table in database.private:
        entry = head["tables"][table.name]
        number, stored = int(entry["number"]), entry["model"]
        arrays = {str(name): members.array(f"arrays/{number}.{name}.npy") for name in stored["arrays"]}
        domain = view_domain(database, table.name, domains)
        models[table.name] = model_class(stored["kind"]).from_arrays(domain, stored["values"], arrays)
        released[table.name] = _read_released_tables(domain, entry, members, f"{number}.")
        own = domains[table.name]
        measured[table.name] = tuple(_validate_table_head(own, *each) for each in entry["measured"])
        if entry["targets"] is not None:
            above = own_domain(database, str(table.parent), domains[str(table.parent)])
            own = own_domain(database, table.name, domains[table.name])
            targets[table.name] = _read_targets(entry["targets"], f"arrays/{number}.link", members, own, above)
    ledger = Ledger.from_dict(members.document("ledger.json"))
    if database.from_data_facts() and not warns_of_facts(ledger.stamps):
        raise ModelFileError("refused: schema facts were read from private rows, but the file does not warn of this")
    public = {}
    for table in database.public:
        number = int(head["tables"][table.name]["number"])
        held = members.array(f"arrays/{number}.public.npy").astype(np.uint8)
        public[table.name] = pa.ipc.open_stream(pa.py_buffer(held.tobytes())).read_all()
    return FittedDatabase(database, dict(head["options"]), codecs, models, targets, ledger, public, measured, released)


def _read_targets(entry: dict[str, Any], prefix: str, members: _Members, own: Domain, above: Domain) -> LinkTargets:
    """Read the tables of families; a code outside a domain, or a table of another shape, is refused."""

    def read_groups(what: str, domain: Domain) -> dict[str, Array]:
        found = {str(name): members.array(f"{prefix}.{what}{i}.npy") for i, name in enumerate(entry[what])}
        for name, codes in found.items():
            if codes.shape != (domain.size(name),) or codes.dtype.kind not in "iu" or codes.min() < 0:
                raise ModelFileError("damaged: its groups of codes do not fit its attributes")
        return found

    def read_tables(what: str, first: dict[str, Array], second: dict[str, Array]) -> tuple[Any, ...]:
        made = []
        for i, (a, b, sigma) in enumerate(entry[what]):
            table = members.array(f"{prefix}.{what}{i}.npy").astype(np.float64)
            shape = (int(first[a].max()) + 1, int(second[b].max()) + 1)
            if table.shape != shape or not np.isfinite(table).all() or not 0 < float(sigma) < math.inf:
                raise ModelFileError("damaged: its tables of families do not fit its attributes")
            made.append((a, b, table, float(sigma)))
        return tuple(made)

    children, parents = read_groups("own", own), read_groups("above", above)
    return LinkTargets(
        children, parents, read_tables("siblings", children, children), read_tables("parents", parents, children)
    )


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
    """Read a model file; raise ModelFileError if it is invalid, damaged, of another version, or of related tables."""
    found = load_any_model(path)
    if isinstance(found, FittedDatabase):
        raise ModelFileError(
            f"{path}: a model of related tables, which only `weft sample`, `weft query` and `weft verify` support"
        )
    return found


def load_any_model(path: Path) -> Fitted | FittedDatabase:
    """Read a model file of one table or of related tables; raise ModelFileError if it is invalid."""
    try:
        with zipfile.ZipFile(path) as file:
            members = _Members(file)
            return _read_database(members) if "database.json" in file.namelist() else _read_model(members)
    except FileNotFoundError:
        raise ModelFileError(f"{path}: no such file") from None
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except DAMAGE:
        raise ModelFileError(f"{path}: not a model file, or a damaged one. Fit the model again.") from None


class _Members:
    """Members of a model file, read within size limits and validated against the manifest."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file
        names = file.namelist()
        if len(names) > MAX_MEMBERS or len(set(names)) != len(names):
            raise ModelFileError("refused: it has too many members, or members with the same name")
        if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in file.infolist()):
            raise ModelFileError("refused: a member has an unsupported compression method")
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
            raise ModelFileError("damaged: members are missing or unexpected. Fit the model again")
        self._left = MAX_ARRAYS

    def document(self, name: str) -> dict[str, Any]:
        return _parse_member(name, self._checked(name, MAX_DOCUMENT))

    def array(self, name: str) -> Array:
        content = self._checked(name, self._left)
        self._left -= len(content)
        held = io.BytesIO(content)
        version = np.lib.format.read_magic(held)
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = header[version](held)
        if dtype.kind not in NUMERIC or dtype.hasobject:
            raise ModelFileError(f"refused: {name} is not a numeric array")
        # A header may claim any shape: accept it only if the member has exactly that many bytes.
        if math.prod(shape) * dtype.itemsize != len(content) - held.tell():
            raise ModelFileError(f"damaged: {name} has another length than its header states")
        flat = np.frombuffer(content, dtype, offset=held.tell())
        return flat.reshape(shape, order="F" if fortran else "C").astype(dtype.newbyteorder("="), order="C")

    def _checked(self, name: str, most: int) -> bytes:
        content = self._unpacked(name, most)
        if hashlib.sha256(content).hexdigest() != self._hashes[name]:
            raise ModelFileError(f"damaged: {name} was changed after the file was written. Fit the model again")
        return content

    def _unpacked(self, name: str, most: int) -> bytes:
        """Read a member in chunks up to the limit; its declared size is not trusted."""
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
        raise ModelFileError(f"damaged: {name} is not a JSON object")
    return document


def _read_model(members: _Members) -> Fitted:
    head = members.document("weft.json")
    if head.get("method") not in METHODS:
        raise ModelFileError("refused: its method is not known to this version of Weft")
    if isinstance(head["options"].get("marginals"), str):
        raise ModelFileError("refused: it refers to another file, which no valid model file does")
    _, options = extract_plan(head["method"], head["options"])
    recipe(head["method"], **options)  # raises for invalid options
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
        measured=tuple(_validate_table_head(codec.domain, *entry) for entry in head["measured"]),
        people=_read_people(codec.schema, head["people"]),
        released=_read_released_tables(codec.domain, head, members),
    )


def _read_people(schema: Schema, sizes: list[float] | None) -> People | None:
    if sizes is None:
        return None
    shares = np.array(sizes, np.float64)
    if (
        shares.ndim != 1
        or not min(schema.rows_per_unit, MAX_UNIT_SIZE) <= len(shares) <= MAX_UNIT_SIZE
        or not (shares >= 0).all()
        or not 0 < shares.sum() < math.inf
    ):
        raise ModelFileError("damaged: its distribution of rows per person does not fit its schema")
    return People(shares, schema.per_unit)


def warns_of_facts(stamps: Iterable[str]) -> bool:
    """Return whether a warning states that schema facts were read from private rows."""
    return any(stamp.startswith(PARTLY) for stamp in stamps)


def _check_stamps(schema: Schema, model: Model, ledger: Ledger) -> None:
    """Refuse a file without a warning that its content requires; `Ledger.from_dict` validates its own warnings."""
    if getattr(model, "deniable", False) and not ledger.deniable:
        # Its card would state an epsilon that does not hold.
        raise ModelFileError("refused: its records are only deniable, but its ledger does not state this")
    if schema.from_data_facts() and not warns_of_facts(ledger.stamps):
        raise ModelFileError("refused: schema facts were read from private rows, but the file does not warn of this")


def _read_released_tables(
    domain: Domain, head: dict[str, Any], members: _Members, prefix: str = ""
) -> tuple[Released, ...]:
    """Read the noisy marginals, if the file has them."""
    if "released" not in head:
        return ()
    held = {str(name): members.array(f"arrays/{prefix}{name}.npy") for name in head["released"]["arrays"]}
    return _unpack_released(domain, head["released"], held)


def _pack_released(released: Sequence[Released]) -> tuple[dict[str, Any], dict[str, Array]]:
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


def _unpack_released(domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> tuple[Released, ...]:
    """Read the released marginals; raise ModelFileError if they do not fit the domain."""
    codings = _read_codings(domain, meta["codings"], arrays.get(CODES, _NONE))
    flat = {False: arrays.get(WHOLE, _NONE), True: arrays.get(PARTS, _NONE).astype(np.float64)}
    at = {False: 0, True: 0}
    made = []
    for names, shape, sigma, order, own in meta["tables"]:
        asked = _validate_table_head(domain, names, shape, sigma)
        if not isinstance(order, int) or not 0 <= order <= _MAX_ORDER or len(own) != len(names):
            raise _make_marginals_error()
        coding = {}
        for name, size, place in zip(asked.clique, asked.shape, own, strict=True):
            if place is not None:
                of, codes = codings[place]
                if of != name or int(codes.max()) + 1 != size:
                    raise _make_marginals_error()
                coding[name] = codes
            elif size != domain.size(name):
                raise _make_marginals_error()
        part = bool(order)
        cells = flat[part][at[part] : at[part] + asked.cells]
        at[part] += asked.cells
        # NaN fails both comparisons.
        if cells.size != asked.cells or not ((cells >= -MAX_STORED_NUMBER) & (cells <= MAX_STORED_NUMBER)).all():
            raise _make_marginals_error()
        made.append(Released(NoisyMarginal(asked.clique, cells.reshape(asked.shape), asked.sigma, order), coding))
    if any(at[part] != flat[part].size for part in flat):
        raise _make_marginals_error()
    return tuple(made)


def _read_codings(domain: Domain, names: list[str], flat: Array) -> list[tuple[str, Array]]:
    made, at = [], 0
    for name in names:
        codes = flat[at : at + domain.size(name)]
        at += domain.size(name)
        if codes.dtype.kind != "i" or codes.size != domain.size(name) or int(codes.min()) < 0:
            raise _make_marginals_error()
        made.append((name, codes.astype(np.int64)))
    if at != flat.size:
        raise _make_marginals_error()
    return made


def _validate_table_head(domain: Domain, names: list[str], shape: list[int], sigma: float, order: int = 0) -> Measured:
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


def _make_marginals_error() -> ModelFileError:
    return ModelFileError("damaged: its released marginals do not fit its attributes. Fit the model again")
