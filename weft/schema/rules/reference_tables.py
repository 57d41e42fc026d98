"""Public reference tables of a schema: CSV files with a header of column names."""

import csv
from collections.abc import Sequence
from pathlib import Path

from weft.schema.kinds.kind import Scalar, suggest_known_word
from weft.schema.rules.column_values import UnfitValueError
from weft.schema.rules.rule import Readers, RuleError


def read_table(
    name: str, folder: Path | None, readers: Readers, key: str, columns: Sequence[str] | None = None
) -> tuple[tuple[str, ...], list[tuple[Scalar | None, ...]]]:
    """Return the requested columns of a CSV file (default: all) and its different rows; empty cells are missing."""
    if folder is None:  # a model file is self-contained and must not refer to other files
        raise RuleError(f"{key} must contain the table itself", key)
    path = folder / name
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if row] or [[]]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise RuleError(f'{key}: cannot read the file "{name}"; put it in the folder of the schema', key) from None
    for column in columns or header:
        if column not in header:
            near = suggest_known_word(column, header)
            raise RuleError(f'the file "{name}" has no column "{column}" in its first line.{near}', key)
        if column not in readers:
            raise RuleError(f'the file "{name}" names "{column}", which is not a column of the schema', key)
    wanted = tuple(columns or header)
    places = [header.index(column) for column in wanted]
    made: dict[tuple[Scalar | None, ...], None] = {}
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise RuleError(f'the file "{name}", line {number}: different number of cells than in the first line', key)
        cells = []
        for column, place in zip(wanted, places, strict=True):
            try:
                cells.append(readers[column].typed(row[place]))
            except UnfitValueError as fault:
                told = f'the file "{name}", line {number}, column "{column}": "{row[place]}" {fault}'
                raise RuleError(told, key) from None
        made[tuple(cells)] = None
    return wanted, list(made)
