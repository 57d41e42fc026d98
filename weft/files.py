"""Files by their names, and what they need to be on the disk."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Wait until the disk has a folder's names: a new or moved file is there only once they are."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


PACKED = (".gz", ".zst", ".zip")
"""Endings of compressed files."""

FORMATS = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt", ".dat", ".data"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "excel"),
    **dict.fromkeys((".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt"), "stats"),
}
"""What a table is stored as, by the ending of its file."""

TEXT = ("csv", "jsonl")
"""Formats of text, which may be compressed."""

_VAGUE = (".txt", ".dat", ".data")  # which may be anything, unless somebody names the very file

TABLES = tuple(
    ending + packing
    for ending, kind in FORMATS.items()
    if ending not in _VAGUE
    for packing in ("", *(PACKED if kind in TEXT else ()))
)
"""Endings of the files that are read from a folder."""


def ending(path: str | os.PathLike[str]) -> str:
    """Return the end of a file's name that says what it is, in small letters.

    >>> ending("stays.CSV.gz"), ending("stays.2024.parquet"), ending("stays.zip")
    ('.csv.gz', '.parquet', '.zip')
    """
    name = Path(path).name.lower()
    last = Path(name).suffix
    inner = Path(name.removesuffix(last)).suffix if last in PACKED else ""
    return inner + last if FORMATS.get(inner) in TEXT else last


def packing(path: str | os.PathLike[str]) -> str:
    """Return how a file is compressed, as its name says; nothing if it is not."""
    last = Path(path).suffix.lower()
    return last if last in PACKED else ""


def format_of(path: str | os.PathLike[str]) -> str | None:
    """Return what a file stores a table as; None if its name does not tell. A compressed file is CSV if nothing else.

    >>> format_of("stays.tsv.zst"), format_of("stays.sav"), format_of("stays.zip"), format_of("stays.docx")
    ('csv', 'stats', 'csv', None)
    """
    found = ending(path)
    return FORMATS.get(found.removesuffix(packing(path)) or ".csv")


def beside(table: Path, end: str) -> Path:
    """Return the file of a table's name with another ending.

    >>> str(beside(Path("made.csv.gz"), ".card.json"))
    'made.card.json'
    """
    own = ending(table) if format_of(table) else table.suffix
    return table.with_name(table.name[: len(table.name) - len(own)] + end)
