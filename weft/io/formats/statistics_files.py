"""Stata, SPSS and SAS files: values are read as codes, not as their labels.

All kinds of missing values are read as missing. Numbers, text and dates are converted one by one to the text of a CSV
cell, and read in the schema's types.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from weft.errors import DataError, SchemaError
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.io.file_faults import readable_file
from weft.io.formats.format import CellFormat
from weft.io.frame_values import make_typed_batch, text_batch
from weft.schema import Schema
from weft.schema.schema import check_names

_ROWS = 1 << 17
_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}


class Statistics(CellFormat):
    """SPSS, Stata and SAS files, which are read-only."""

    name = "statistics"
    endings = tuple(_READERS)
    magic = (
        (b"$FL", "an SPSS file; name it .sav"),
        (b"<stata_dta>", "a Stata file; name it .dta"),
        (b"\x00" * 12 + b"\xc2\xea\x81\x60", "a SAS file; name it .sas7bdat"),
    )

    def read_names(self, path: Path, dialect: Dialect = DEFAULT_DIALECT, schema: Schema | None = None) -> list[str]:
        """Return the variables of a file."""
        return [str(name) for name in _read_with_pyreadstat(path, metadataonly=True)[1].column_names]

    def batches(self, path: Path, schema: Schema, dialect: Dialect = DEFAULT_DIALECT) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file batch by batch, in the schema's types."""
        try:
            check_names(schema, self.read_names(path))
        except SchemaError as fault:
            raise SchemaError(f"{path}: {fault}") from None
        for columns in _iterate_column_blocks(path):
            yield make_typed_batch(columns, str(path), schema)

    def read_whole(self, path: Path, dialect: Dialect = DEFAULT_DIALECT) -> pa.Table:
        """Read a whole file as text."""
        with readable_file(path):
            empty = pa.schema([(name, pa.string()) for name in self.read_names(path)])
            return pa.Table.from_batches(
                [text_batch(columns, str(path)) for columns in _iterate_column_blocks(path)], empty
            )


STATISTICS = Statistics()


def _iterate_column_blocks(path: Path) -> Iterator[dict[str, list[Any]]]:
    start = 0
    while True:
        columns, _ = _read_with_pyreadstat(path, row_offset=start, row_limit=_ROWS)
        rows = len(next(iter(columns.values()), ()))
        if rows:
            yield {str(name): list(cells) for name, cells in columns.items()}
        if rows < _ROWS:
            return
        start += rows


def _read_with_pyreadstat(path: Path, **options: Any) -> tuple[dict[str, Any], Any]:
    try:
        library = import_module("pyreadstat")
    except ImportError:
        raise DataError("a Stata, SPSS or SAS file needs the pyreadstat package: pip install 'weft[stats]'") from None
    with path.open("rb"):  # so that a missing file is reported as such
        reader: Callable[..., Any] = getattr(library, _READERS[path.suffix.lower()])
    try:
        columns, stated = reader(str(path), output_format="dict", **options)
    except Exception:  # noqa: BLE001 (the library raises many types, and its messages may quote the file)
        columns = None
    if columns is None:
        raise DataError(f"{path} cannot be read: it is damaged, or does not have the format of its ending")
    return dict(columns), stated
