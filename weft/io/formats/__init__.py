"""Registry of file formats, and the format of a file by its name.

Reading, drafting, verification, writing and checkpoints use this registry. A format is one module in this folder with
one `Format` object (`weft.io.formats.format`) and one line of `FORMATS`. Modules are imported on first use.
"""

from __future__ import annotations

import os
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.io.formats.format import Format

FORMATS = {
    "csv": ("weft.io.formats.csv_files", "CSV"),
    "jsonl": ("weft.io.formats.jsonl_files", "JSONL"),
    "parquet": ("weft.io.formats.parquet_files", "PARQUET"),
    "arrow": ("weft.io.formats.arrow_files", "ARROW"),
    "orc": ("weft.io.formats.orc_files", "ORC"),
    "excel": ("weft.io.formats.excel_files", "EXCEL"),
    "statistics": ("weft.io.formats.statistics_files", "STATISTICS"),
}
"""Module and object of each format, by name. Messages list formats in this order."""

PACKED = (".gz", ".zst", ".zip")  # endings of compressed files


def find_format(name: str) -> Format:
    """Return a format by its name."""
    return next(each for each in all_formats() if each.name == name)


def all_formats() -> tuple[Format, ...]:
    """Return every format, in the order of the registry."""
    return _load_formats(tuple(FORMATS.values()))


def format_of(path: str | os.PathLike[str]) -> Format | None:
    """Return the format of a file by its name; None if the ending is unknown. Default for compressed files: CSV.

    >>> [found and found.name for found in map(format_of, ("stays.tsv.zst", "stays.sav", "stays.zip", "stays.docx"))]
    ['csv', 'statistics', 'csv', None]
    """
    return _by_ending().get(get_ending(path).removesuffix(get_compression(path)) or ".csv")


def table_endings() -> tuple[str, ...]:
    """Return the endings of files that are read from a folder."""
    return tuple(
        end + packed
        for each in all_formats()
        for end in each.endings
        if end not in each.vague_endings
        for packed in ("", *(PACKED if each.is_text else ()))
    )


def list_writable_endings() -> tuple[str, ...]:
    """Return the endings of files that can be written, CSV and Parquet first."""
    found = [end for each in all_formats() for end in each.written_endings]
    return tuple(sorted(found, key=lambda end: end not in (".csv", ".parquet")))


def get_ending(path: str | os.PathLike[str]) -> str:
    """Return the ending of a file's name that determines its format, in lower case.

    >>> get_ending("stays.CSV.gz"), get_ending("stays.2024.parquet"), get_ending("stays.zip")
    ('.csv.gz', '.parquet', '.zip')
    """
    name = Path(path).name.lower()
    last = Path(name).suffix
    inner = Path(name.removesuffix(last)).suffix if last in PACKED else ""
    found = _by_ending().get(inner)
    return inner + last if found is not None and found.is_text else last


def get_compression(path: str | os.PathLike[str]) -> str:
    """Return the ending of a compressed file; an empty string if it is not compressed."""
    last = Path(path).suffix.lower()
    return last if last in PACKED else ""


def replace_ending(table: Path, end: str) -> Path:
    """Return the path of a table with another ending.

    >>> str(replace_ending(Path("made.csv.gz"), ".card.json"))
    'made.card.json'
    """
    own = get_ending(table) if format_of(table) else table.suffix
    return table.with_name(table.name[: len(table.name) - len(own)] + end)


def _by_ending() -> dict[str, Format]:
    return {end: each for each in all_formats() for end in each.endings}


@lru_cache(maxsize=8)
def _load_formats(registered: tuple[tuple[str, str], ...]) -> tuple[Format, ...]:
    return tuple(getattr(import_module(module), name) for module, name in registered)
