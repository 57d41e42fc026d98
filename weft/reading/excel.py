"""Excel workbooks: one sheet, its first row the names of the columns, each cell read by itself.

A cell of a workbook has a type of its own, whatever stands above it: it is written down as a CSV would have it, and
read in the type that the schema declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.codec.codec import check_names
from weft.errors import DataError, SchemaError
from weft.reading.objects import text_batch, typed_batch, word
from weft.schema import Schema
from weft.words import counted

_ROWS = 1 << 16


Sheet = str | int | None
"""A sheet as it is declared: its name, or its place counted from 1; None for the first."""


def excel_names(path: Path, sheet: Sheet = None) -> list[str]:
    """Return the columns that the first row of a sheet names."""
    return _opened(path, sheet)[0]


def excel_batches(path: Path, schema: Schema, sheet: Sheet = None) -> Iterator[pa.RecordBatch]:
    """Read the rows of a sheet batch by batch, in the schema's types."""
    names, rows = _opened(path, sheet)
    try:
        check_names(schema, names)
    except SchemaError as fault:
        raise SchemaError(f"{path}: {fault}") from None
    for columns in _columns(path, names, rows):
        yield typed_batch(dict(zip(names, columns, strict=True)), str(path), schema)


def excel_text(path: Path, sheet: Sheet = None) -> pa.Table:
    """Read a whole sheet as text; for drafts, which guess what it holds."""
    names, rows = _opened(path, sheet)
    places = [str(place) for place in range(len(names))]  # names may repeat
    batches = [
        text_batch(dict(zip(places, columns, strict=True)), str(path)) for columns in _columns(path, names, rows)
    ]
    empty = pa.schema([(place, pa.string()) for place in places])
    return pa.Table.from_batches(batches, empty).rename_columns(names)


def _opened(path: Path, sheet: Sheet) -> tuple[list[str], Iterator[list[Any]]]:
    """Open a sheet of a workbook: its names, and the rows below them."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise DataError("an Excel workbook needs the python-calamine package: pip install 'weft[excel]'") from None
    try:
        book = CalamineWorkbook.from_path(str(path))
        cells = book.get_sheet_by_index(_place(path, book.sheet_names, sheet))
        rows = iter(cells.to_python(skip_empty_area=False))
    except OSError:
        raise
    except (CalamineError, ValueError, IndexError):
        rows = None
    if rows is None:  # outside the handler: what the library says may quote the file
        raise DataError(f"{path}: the workbook is damaged or locked, or no Excel file")
    names = [word(cell).strip() for cell in next(rows, [])]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise DataError(f"{path}: the first row of the sheet is blank, but must name the columns")
    return names, rows


def _place(path: Path, names: Sequence[str], sheet: Sheet) -> int:
    """Return where a declared sheet is among those of a workbook; a name wins over a place that is written alike."""
    if sheet is None:
        return 0
    if sheet in names:
        return names.index(str(sheet))
    places = [str(place) for place in range(1, len(names) + 1)]
    if str(sheet) in places:
        return places.index(str(sheet))
    # What its sheets are called is not said: a name may tell of somebody.
    raise DataError(
        f"{path}: the workbook has {counted(len(names), 'sheet')}, and none is {sheet!r}, by its name or by its place. "
        "Give the name of one as it stands there, or its place, counted from 1"
    )


def _columns(path: Path, names: Sequence[str], rows: Iterator[list[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Yield the cells below the names, column by column; blank rows are none."""
    while block := list(islice(rows, _ROWS)):
        cells = np.array(block, dtype=object)
        filled = cells != ""
        if filled[:, len(names) :].any():
            raise DataError(f"{path}: a row has a cell where the first row names no column. Take it out, or name it")
        yield list(cells[filled.any(axis=1), : len(names)].T)
