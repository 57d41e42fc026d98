"""Diagnose unreadable files, without quoting them: damage, or another format, separator or encoding."""

import csv
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from weft.errors import DataError, SchemaError, SourceError
from weft.io.byte_stream import DAMAGED, STDIN, Location, Stream, open_text_stream
from weft.io.dialect import DEFAULT_DIALECT, NOT_UTF8, Dialect
from weft.io.formats import all_formats

NO_NAMES = "the file or its first line is empty; the first line must name the columns"

NO_HEADER = (
    "its first line looks like a row, but must name the columns. If the file has no header line, pass --no-header "
    "(Dialect(header=False)); if these are column names, pass --header"
)

NO_LABELS = (
    "its column names look like values of a row. If its file has no header line, read it with header=None; if these "
    "are column names, list the columns in a schema"
)

_MAGIC = {  # first bytes of files that are not tables
    b"\x1f\x8b": "compressed with gzip; name it .csv.gz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; name it .csv.zst",
    b"BZh": "compressed with bzip2; decompress it, or compress it with gzip",
    b"\xfd7zXZ": "compressed with xz; decompress it, or compress it with gzip",
    b"SQLite format 3": "an SQLite database; export the table, or read it with DuckDB",
    b"%PDF": "a PDF; export the table as CSV",
}
_DUCKDB = b"DUCK"  # after eight bytes
_JSON = re.compile(rb'\s*(\{\s*["}]|\[\s*[\[{\]])')
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_GROUPED = re.compile(r"\s*[+-]?\d{1,3}([.,' ]\d{3})*[.,]\d+\s*|\s*\+\d[\d ()/-]{5,}")  # 1.234,50 and +49 171 5551234
_DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([ T].*)?")
_YEARS = range(1900, 2101)  # valid column names in wide tables


@contextmanager
def readable_file(path: Location) -> Iterator[None]:
    """Translate errors in reading a file. The libraries' own text is dropped, because it quotes values."""
    try:
        yield
    except FileNotFoundError:
        raise SourceError(f"{path}: no such file; it may have been moved or deleted") from None
    except MemoryError:
        raise  # includes Arrow's own: the file may be undamaged
    except (pa.ArrowException, *DAMAGED):
        raise DataError(f"{path} cannot be read: it is damaged, or does not have the format of its ending") from None
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else "the file is damaged"
        raise DataError(f"{path} cannot be read ({why})") from None


@contextmanager
def explain_csv_errors(path: Location, dialect: Dialect = DEFAULT_DIALECT) -> Iterator[None]:
    """When reading a CSV file fails because of its first line, raise an error that explains what is wrong with it."""
    try:
        yield
    except (SchemaError, DataError) as error:
        fault = None if str(path) == STDIN else header_fault(path, dialect)
        if fault is None and isinstance(error, SchemaError) and str(path) != STDIN:
            fault = _diagnose_missing_header(path, dialect)
        if fault is not None:
            raise fault from None
        raise


def header_fault(path: Location, dialect: Dialect = DEFAULT_DIALECT) -> DataError | None:
    """Return why the first line of a file names no columns: blank, or another format, encoding or separator."""
    try:
        with open_text_stream(path, dialect) as stream:
            return stream_fault(stream, dialect)
    except (OSError, pa.ArrowException, *DAMAGED):
        return None
    except DataError as fault:
        return fault


def stream_fault(stream: Stream, dialect: Dialect) -> DataError | None:
    """Return why the first line of a stream names no columns; None if no fault is found."""
    head = stream.head()
    first, found, _ = head.partition(b"\n")
    if not head.strip() and len(head) < 1 << 20:
        return DataError(f"{stream.name}: the file is empty; its first line must name the columns")
    if (kind := recognise_file_type(head)) is not None:
        return DataError(f"{stream.name} {kind}")
    if not first.strip():
        return DataError(f"{stream.name}: the first line is blank, but must name the columns. Remove blank lines")
    # The inspected bytes may end inside a character. UTF-16 is recognised by its zero bytes.
    try:
        text = (first if found else first[: len(first) - 4]).decode("utf-8") if len(first) > 4 else first.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return DataError(f"{stream.name} {NOT_UTF8}")
    if dialect.separator is None and _count_fields(text, dialect.separator_in(stream.kind)) == 1:
        for sign, name in ((";", "';'"), ("\t", "tabs"), ("|", "'|'"), (",", "commas")):
            if _count_fields(text, sign) > 1:
                shown = r"'\t'" if sign == "\t" else f"'{sign}'"
                said = f"pass --separator {shown} (Dialect(separator={shown}))"
                return DataError(f"{stream.name} looks separated by {name}; {said}")
    return None


def recognise_file_type(head: bytes) -> str | None:
    """Return the description of a file whose first bytes are not those of a CSV file; else None."""
    other = (what for magic, what in _MAGIC.items() if head.startswith(magic))
    for what in (*(form.recognise(head) for form in all_formats()), *other):
        if what is not None:
            return f"is not text: it is {what}"
    if head[8:12] == _DUCKDB:
        return "is not text: it is a DuckDB database; name it as in 'duckdb:FILE?table=NAME'"
    if head.startswith(_UTF16):
        return NOT_UTF8
    if _JSON.match(head):
        return "looks like JSON, not CSV; if it has one object per line, name it .jsonl"
    return None


def make_unknown_format_error(path: Path) -> DataError:
    """Return the error for a file with an unknown ending: what it seems to be, and which formats can be read."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        head = b""
    if path.suffix.lower() == ".json" or _JSON.match(head):
        lines = "Weft reads JSON lines: one object per line, in a file named .jsonl, as `jq -c '.[]'` writes them"
        return SourceError(f"{path} is JSON of an unknown kind. {lines}")
    found = recognise_file_type(head)
    kinds = ", ".join(end for form in all_formats() for end in form.endings)
    return SourceError(f"{path}: unknown kind of file; " + (found or f"its name must end in one of {kinds}"))


def looks_like_a_row(names: Sequence[str]) -> bool:
    """Whether supposed column names are numbers or dates. Years are valid names, and so are 0, 1, 2, ...

    >>> looks_like_a_row(["39", "State-gov", "77516"]), looks_like_a_row(["country", "2019", "2020"])
    (True, False)
    """
    if list(names) == [str(place) for place in range(len(names))]:
        return False
    whole = [name.strip() for name in names if name.strip().isdecimal()]
    odd = [name for name in whole if int(name[:9]) not in _YEARS]
    patterns = (_DATE, _NUMBER, _GROUPED)
    telling = [name for name in names if not name.isdecimal() and any(each.fullmatch(name) for each in patterns)]
    return bool(telling) or 3 * len(odd) >= len(names) > 0


def _diagnose_missing_header(path: Location, dialect: Dialect) -> DataError | None:
    """Return the error for a file whose first line is a row, without quoting it; None if it is not."""
    from weft.io.formats.csv_files import csv_names

    if dialect.header is not None:
        return None
    try:
        names = csv_names(path, dialect)
    except DataError:
        return None
    return DataError(f"{path}: {NO_HEADER}") if looks_like_a_row(names) else None


def _count_fields(line: str, separator: str) -> int:
    try:
        return len(next(csv.reader([line], delimiter=separator), []))
    except csv.Error:
        return 0
