"""The public tables that experiments name: where each comes from, and how to tell that it is the right one.

A table is known by the SHA-256 of its contents, which is the same whichever file holds it: a CSV file as published, or
Parquet as this or another version writes it.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

HERE = (".", "data", "../shared/data")
"""Folders beside the one that a command is run in; the last is for developers of Weft."""
PROJECT = Path(__file__).parents[2]
ENDINGS = (".parquet", ".csv")


@dataclass(frozen=True)
class Member:
    """A file inside a package."""

    path: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A public table."""

    about: str
    source: str
    """Where it was published, for a person."""
    licence: str
    rows: int
    columns: int
    contents: str
    """SHA-256 of its names and values; see `contents`."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Public numbers of values, for a table of integer codes."""
    url: str | None = None
    """A CSV file, or a zip file that holds one."""
    package: str | None = None
    """A package on PyPI that carries it, with its version, as in name==1.0."""
    sdist: str | None = None
    """SHA-256 of the package's source distribution, where no wheel carries the table."""
    members: Sequence[Member] = ()
    null: Sequence[str] = ("",)
    """How the file writes a missing value."""
    form: str = "csv"
    """How to read the files; see `weft_lab.fetch.FORMS`."""

    @property
    def fetched(self) -> bool:
        """Whether it can be fetched."""
        return self.url is not None or self.package is not None


@cache
def datasets() -> Mapping[str, Dataset]:
    """Return every known table by name."""
    raw = tomllib.loads(files("weft_lab").joinpath("datasets.toml").read_text(encoding="utf-8"))
    return {
        name: Dataset(**{**found, "members": [Member(**member) for member in found.get("members", ())]})
        for name, found in raw.items()
    }


def cache_folder() -> Path:
    """Return the folder that fetched and generated tables go to, unless another is given."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft" / "data"


def places(folder: str | Path | None = None) -> list[Path]:
    """Return the folders where a table is looked for by name, in their order."""
    given = [Path(found) for found in (folder, os.environ.get("WEFT_DATA")) if found]
    return [*given, *(Path(here) for here in HERE), PROJECT.parent / "shared" / "data", cache_folder()]


def locate(name: str, folder: str | Path | None = None) -> Path | None:
    """Return the first file of this name, or None."""
    return next(_named(name, folder), None)


def _named(name: str, folder: str | Path | None) -> Iterator[Path]:
    for place in places(folder):
        for ending in ENDINGS:
            if (place / f"{name}{ending}").is_file():
                yield place / f"{name}{ending}"


def contents(table: pa.Table) -> str:
    """Return the SHA-256 of a table's names and values, as text; types and row groups do not count.

    >>> codes = pa.table({"a": pa.array([1, None], pa.int8())})
    >>> contents(codes) == contents(pa.table({"a": ["1", None]})) != contents(pa.table({"b": ["1", None]}))
    True
    """
    total = hashlib.sha256()
    for name in table.column_names:
        column = table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz))
        words = pc.fill_null(column.cast(pa.large_string()), "\0")
        total.update(f"{name}\0{len(words)}\0".encode())
        for chunk in (chunk for chunk in words.chunks if len(chunk)):
            whole = pa.ListArray.from_arrays(pa.array([0, len(chunk)], pa.int32()), chunk)
            total.update(pc.binary_join(whole, pa.scalar("\n", pa.large_string()))[0].as_buffer())
            total.update(b"\n")
    return total.hexdigest()
