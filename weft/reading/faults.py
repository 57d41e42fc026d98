"""What is wrong with the first line of a CSV file, said plainly. It is looked for where reading has failed."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from weft.errors import DataError, SchemaError

Location = str | PathLike[str]

TO_UTF8 = 'save it as "CSV UTF-8", or convert it with `iconv -f LATIN1 -t UTF-8`'
"""What to do about a file in another encoding."""

_HEAD = 1 << 20  # bytes of the first line that are looked at
_UNREADABLE = (OSError, EOFError, csv.Error, zlib.error)


@contextmanager
def explained(path: Location) -> Iterator[None]:
    """Where reading a CSV file fails, say what is wrong with its first line, if that is why."""
    try:
        yield
    except (SchemaError, DataError):
        if fault := header_fault(path):
            raise fault from None
        raise


def header_fault(path: Location) -> DataError | None:
    """Say why the first line of a file names no columns: it is blank, or of another encoding or separator."""
    try:
        with _opened(path) as file:
            line = file.readline(_HEAD)
            empty = not line.strip() and not any(more.strip() for more in file)
    except _UNREADABLE:
        return None
    if empty:
        return DataError(f"{path}: the file is empty; its first line must name the columns")
    if not line.strip():
        return DataError(f"{path}: the first line is blank, but must name the columns. Take blank lines out")
    try:
        # Step by step, for the end of what is looked at may cut a letter in two. UTF-16 shows by its noughts.
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(line)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return DataError(f"{path} is not UTF-8 text; {TO_UTF8}")
    if _fields(text, ",") == 1:
        for sign, name in ((";", "';'"), ("\t", "tabs"), ("|", "'|'")):
            if _fields(text, sign) > 1:
                return DataError(f"{path} looks separated by {name}; save it again with commas between the fields")
    return None


def _opened(path: Location) -> gzip.GzipFile | io.BufferedReader:
    packed = Path(path).suffix.lower() == ".gz"
    return gzip.open(path) if packed else Path(path).open("rb")


def _fields(line: str, separator: str) -> int:
    try:
        return len(next(csv.reader([line], delimiter=separator), []))
    except csv.Error:
        return 0
