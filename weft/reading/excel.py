"""Excel workbooks: the first sheet, its first row the names of the columns, each cell read by itself.

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

_ROWS = 1 << 16


def excel_names(path: Path) -> list[str]:
    """Return the columns that the first row of a workbook names."""
    return _sheet(path)[0]


def excel_batches(path: Path, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Read the rows of a workbook batch by batch, in the schema's types."""
    names, rows = _sheet(path)
    try:
        check_names(schema, names)
    except SchemaError as fault:
        raise SchemaError(f"{path}: {fault}") from None
    for columns in _columns(path, names, rows):
        yield typed_batch(dict(zip(names, columns, strict=True)), str(path), schema)


def excel_text(path: Path) -> pa.Table:
    """Read a whole workbook as text; for drafts, which guess what it holds."""
    names, rows = _sheet(path)
    places = [str(place) for place in range(len(names))]  # names may repeat
    batches = [
        text_batch(dict(zip(places, columns, strict=True)), str(path)) for columns in _columns(path, names, rows)
    ]
    empty = pa.schema([(place, pa.string()) for place in places])
    return pa.Table.from_batches(batches, empty).rename_columns(names)


def _sheet(path: Path) -> tuple[list[str], Iterator[list[Any]]]:
    """Open the first sheet of a workbook: its names, and the rows below them."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise DataError("an Excel workbook needs the python-calamine package: pip install 'weft[excel]'") from None
    try:
        sheet = CalamineWorkbook.from_path(str(path)).get_sheet_by_index(0)
        rows = iter(sheet.to_python(skip_empty_area=False))
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
        raise DataError(f"{path}: the first row of the first sheet is blank, but must name the columns")
    return names, rows


def _columns(path: Path, names: Sequence[str], rows: Iterator[list[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Yield the cells below the names, column by column; blank rows are none."""
    while block := list(islice(rows, _ROWS)):
        cells = np.array(block, dtype=object)
        filled = cells != ""
        if filled[:, len(names) :].any():
            raise DataError(f"{path}: a row has a cell where the first row names no column. Take it out, or name it")
        yield list(cells[filled.any(axis=1), : len(names)].T)
