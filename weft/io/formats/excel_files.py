"""Excel workbooks: one sheet, whose first row names the columns; each cell is read independently.

Each cell of a workbook has its own type: it is converted to the text of a CSV cell, and read in the schema's type.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.display import format_count
from weft.errors import DataError, OutputError, SchemaError, SourceError
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.io.file_faults import readable_file
from weft.io.formats.format import CellFormat, Sink, Write, WriteOptions
from weft.io.formats.jsonl_files import finite_rows
from weft.io.frame_values import make_typed_batch, text_batch, write_value
from weft.io.text_to_types import make_column_names
from weft.schema import Schema
from weft.schema.schema import check_names

# A small file may declare billions of cells, or decompress without end.
MAX_CELLS = 1 << 25  # of a sheet, including blank cells between others: a million rows of 32 columns
MAX_MEMORY = 3 << 30  # maximum bytes of address space for opening a sheet

_DAMAGED = 3  # exit code; the reader explains the damage
_PROGRAM = f"""
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({MAX_MEMORY}, {MAX_MEMORY}))
except ImportError:
    pass
from python_calamine import CalamineError, CalamineWorkbook
try:
    sheet = CalamineWorkbook.from_path(sys.argv[1]).get_sheet_by_index(int(sys.argv[2]))
except (CalamineError, ValueError, IndexError, OSError):
    sys.exit({_DAMAGED})
sys.exit(0 if sheet.total_height * sheet.total_width <= {MAX_CELLS} else 1)
"""


def require_bounded(path: Path, place: int) -> None:
    """Raise DataError if a sheet (counted from 0) has more than `MAX_CELLS` cells or takes more than `MAX_MEMORY`."""
    status = path.stat()
    if not _can_open_sheet(str(path), place, status.st_size, status.st_mtime_ns):
        raise DataError(
            f"{path}: the sheet takes more than {MAX_MEMORY >> 30} GiB of memory, or has more than {MAX_CELLS:,} "
            "cells. Save only its table, as CSV or Parquet"
        )


@lru_cache(maxsize=64)
def _can_open_sheet(path: str, place: int, _size: int, _changed: int) -> bool:
    if not sys.executable:  # embedded in another program: no Python to start
        return True
    # -P: do not import the library from the current folder.
    words = [sys.executable, "-P", "-c", _PROGRAM, path, str(place)]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603
    except OSError:
        return True
    return done.returncode in (0, _DAMAGED)


_ROWS = 1 << 16
_SHEET_ROWS = (1 << 20) - 1  # of one sheet, below the column names


class Excel(CellFormat):
    """One sheet of a workbook: the first one, or the one that the dialect names."""

    name = "excel"
    endings = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
    written_endings = (".xlsx",)
    magic = (
        (b"PK\x03\x04", "a zip archive or an Excel workbook; name it .zip or .xlsx"),
        (b"\xd0\xcf\x11\xe0", "an old Excel workbook; name it .xls"),
    )
    dialect_options = ("sheet", "header")
    names_in_first_line = True

    def read_names(self, path: Path, dialect: Dialect = DEFAULT_DIALECT, schema: Schema | None = None) -> list[str]:
        """Return the columns of a sheet: from its first row, or else the schema's, or numbered ones."""
        return _open_sheet(path, dialect, schema)[0]

    def batches(self, path: Path, schema: Schema, dialect: Dialect = DEFAULT_DIALECT) -> Iterator[pa.RecordBatch]:
        """Read the rows of a sheet batch by batch, in the schema's types."""
        names, rows = _open_sheet(path, dialect, schema)
        try:
            check_names(schema, names)
        except SchemaError as fault:
            raise SchemaError(f"{path}: {fault}") from None
        for columns in _iterate_columns(path, names, rows):
            yield make_typed_batch(dict(zip(names, columns, strict=True)), str(path), schema)

    def read_whole(self, path: Path, dialect: Dialect = DEFAULT_DIALECT) -> pa.Table:
        """Read a whole sheet as text; for drafts, which infer the kinds of columns."""
        with readable_file(path):
            names, rows = _open_sheet(path, dialect, None)
            places = [str(place) for place in range(len(names))]  # names may repeat
            blocks = (dict(zip(places, block, strict=True)) for block in _iterate_columns(path, names, rows))
            empty = pa.schema([(place, pa.string()) for place in places])
            batches = [text_batch(block, str(path)) for block in blocks]
            return pa.Table.from_batches(batches, empty).rename_columns(names)

    @contextmanager
    def writer(self, sink: Sink, arrow: pa.Schema, options: WriteOptions) -> Iterator[Write]:
        """Begin a workbook of one sheet."""
        try:
            import xlsxwriter
        except ImportError:
            raise OutputError("an Excel workbook needs the xlsxwriter package: pip install 'weft[excel]'") from None
        # Text is never written as a formula, a link or a number.
        texts = dict.fromkeys(("strings_to_formulas", "strings_to_urls", "strings_to_numbers"), False)
        settings = {"constant_memory": True, "default_date_format": "yyyy-mm-dd hh:mm:ss"} | texts
        book = xlsxwriter.Workbook(str(sink), settings)
        book.set_properties({"created": datetime(2000, 1, 1)})  # so that equal rows give equal files
        day = book.add_format({"num_format": "yyyy-mm-dd"})
        sheet = book.add_worksheet()
        sheet.add_write_handler(
            date, lambda sheet, row, column, value, *_: sheet.write_datetime(row, column, value, day)
        )
        sheet.write_row(0, 0, arrow.names)
        at = 1

        def write(table: pa.Table) -> None:
            nonlocal at
            if at + table.num_rows > _SHEET_ROWS + 1:
                raise OutputError(f"an Excel sheet holds at most {_SHEET_ROWS:,} rows; write a .csv or .parquet file")
            for batch in table.to_batches(max_chunksize=1 << 14):
                for row in zip(*(column.to_pylist() for column in _convert_cells(batch).columns), strict=True):
                    sheet.write_row(at, 0, row)
                    at += 1

        yield write
        book.close()


EXCEL = Excel()


def _open_sheet(path: Path, dialect: Dialect, schema: Schema | None) -> tuple[list[str], Iterator[list[Any]]]:
    """Return the column names of a sheet, and the rows below them."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise DataError("an Excel workbook needs the python-calamine package: pip install 'weft[excel]'") from None
    try:
        sheet = dialect.sheet
        place = 0 if sheet is None else _find_sheet(path, CalamineWorkbook.from_path(str(path)).sheet_names, sheet)
        require_bounded(path, place)
        cells = CalamineWorkbook.from_path(str(path)).get_sheet_by_index(place)
        rows = iter(cells.to_python(skip_empty_area=False))
    except OSError:
        raise
    except (CalamineError, ValueError, IndexError):
        rows = None
    if rows is None:  # outside the handler: the library's message may quote the file
        raise DataError(f"{path}: the workbook is damaged or locked, or not an Excel file")
    first: list[Any] = next(rows, [])
    if not dialect.named:
        if schema is not None and (not schema.columns or schema.extra_columns == "discover"):
            # The widest row determines the width of a sheet, so the number of columns is not public.
            raise SourceError(
                f'{path}: a sheet without a header needs a schema that lists its columns; use kind = "unknown" for '
                "those to be discovered"
            )
        return make_column_names(len(first), schema), chain([first], rows)
    names = [write_value(cell).strip() for cell in first]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise DataError(f"{path}: the first row of the sheet is blank, but must name the columns")
    return names, rows


def _find_sheet(path: Path, names: Sequence[str], sheet: str | int) -> int:
    """Return the index of a declared sheet; a sheet's name has precedence over an equal position."""
    if sheet in names:
        return names.index(str(sheet))
    places = [str(place) for place in range(1, len(names) + 1)]
    if str(sheet) in places:
        return places.index(str(sheet))
    # The message does not list the names of the sheets, which may be private.
    raise DataError(
        f"{path}: the workbook has {format_count(len(names), 'sheet')}, and none has the name or position {sheet!r}. "
        "Give the exact name of a sheet, or its position counted from 1"
    )


def _iterate_columns(path: Path, names: Sequence[str], rows: Iterator[list[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Yield blocks of cells below the column names, column by column; blank rows are skipped."""
    while block := list(islice(rows, _ROWS)):
        cells = np.array(block, dtype=object)
        filled = cells != ""
        if filled[:, len(names) :].any():
            raise DataError(f"{path}: a row has a cell where the first row names no column. Clear it, or add a name")
        yield list(cells[filled.any(axis=1), : len(names)].T)


def _convert_cells(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows in types that a cell can hold: time stamps without a time zone, and no NaN."""
    batch = finite_rows(batch)
    for place, field in enumerate(batch.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            batch = batch.set_column(place, field.name, pc.local_timestamp(batch.column(place)))
    return batch
