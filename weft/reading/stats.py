"""Files of Stata, SPSS and SAS: what a variable holds is declared in the file, values as codes, not as their labels.

Missing values of every sort are missing. Numbers, text and dates are written down one by one as a CSV would have them,
and read in the types that the schema declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from weft.codec.codec import check_names
from weft.errors import DataError, SchemaError
from weft.reading.objects import text_batch, typed_batch
from weft.schema import Schema

_ROWS = 1 << 17
_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}


def stats_names(path: Path) -> list[str]:
    """Return the variables of a file."""
    return [str(name) for name in _read(path, metadataonly=True)[1].column_names]


def stats_batches(path: Path, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Read the rows of a file batch by batch, in the schema's types."""
    try:
        check_names(schema, stats_names(path))
    except SchemaError as fault:
        raise SchemaError(f"{path}: {fault}") from None
    for columns in _columns(path):
        yield typed_batch(columns, str(path), schema)


def stats_text(path: Path) -> pa.Table:
    """Read a whole file as text; for drafts, which guess what it holds."""
    empty = pa.schema([(name, pa.string()) for name in stats_names(path)])
    return pa.Table.from_batches([text_batch(columns, str(path)) for columns in _columns(path)], empty)


def _columns(path: Path) -> Iterator[dict[str, list[Any]]]:
    start = 0
    while True:
        columns, _ = _read(path, row_offset=start, row_limit=_ROWS)
        rows = len(next(iter(columns.values()), ()))
        if rows:
            yield {str(name): list(cells) for name, cells in columns.items()}
        if rows < _ROWS:
            return
        start += rows


def _read(path: Path, **options: Any) -> tuple[dict[str, Any], Any]:
    try:
        library = import_module("pyreadstat")
    except ImportError:
        raise DataError(
            "a file of Stata, SPSS or SAS needs the pyreadstat package: pip install 'weft[stats]'"
        ) from None
    with path.open("rb"):  # so that a file that is not there is told as such
        reader: Callable[..., Any] = getattr(library, _READERS[path.suffix.lower()])
    try:
        columns, told = reader(str(path), output_format="dict", **options)
    except Exception:  # noqa: BLE001 (the library raises what it likes, and its text may quote the file)
        columns = None
    if columns is None:
        raise DataError(f"{path} cannot be read: it is damaged, or not what its name says")
    return dict(columns), told
