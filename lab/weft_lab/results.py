"""Results as tidy rows in a JSON-lines file, that a run appends to and a later run goes on with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from weft.errors import DataError, OutputError
from weft.io.atomic_files import stage_files
from weft_lab.charts import Spread

SECONDS = "seconds"
"""The last row of every cell: how long fitting and sampling took, and which tasks were done, with commas. A cell
without it was interrupted."""


@dataclass(frozen=True)
class Cell:
    """One run: everything that decides its outcome."""

    experiment: str
    table: str
    variant: str
    method: str
    options: str
    """The method's options, and the label of the predictions, as JSON text."""
    epsilon: float
    delta: float
    seed: int


@dataclass(frozen=True)
class Row(Cell):
    """One figure of one run."""

    task: str
    measure: str
    value: float

    @property
    def cell(self) -> Cell:
        """The run."""
        return Cell(**{name: getattr(self, name) for name in Cell.__dataclass_fields__})


class Store:
    """The rows of one experiment, kept in a file if one is given."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._cells: dict[Cell, list[Row]] = {}
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        """Take what is whole; an interrupted last cell is left out, and its half line cut off."""
        text = path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole, encoding="utf-8")
        waiting: list[Row] = []
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                row = Row(**json.loads(line))
            except (ValueError, TypeError):
                raise DataError(f"{path}, line {number}: not a row of results. Choose another folder.") from None
            waiting = [*waiting, row] if waiting and waiting[-1].cell == row.cell else [row]
            if row.measure == SECONDS:
                self._cells[row.cell] = waiting
                waiting = []

    def has(self, cell: Cell, tasks: Iterable[str]) -> bool:
        """Whether a run has been done with all these tasks."""
        return cell in self._cells and set(tasks) <= set(self._cells[cell][-1].task.split(","))

    def add(self, rows: Sequence[Row], *, keep: bool = True) -> None:
        """Keep the rows of one finished run, its time last; in the file, too, unless told not to."""
        if self._path is not None and keep:
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write("".join(json.dumps(asdict(row)) + "\n" for row in rows))
            except OSError as error:
                raise OutputError(f"cannot write {self._path}: {error.strerror}") from None
        self._cells[rows[0].cell] = list(rows)

    def items(self) -> list[tuple[Cell, list[Row]]]:
        """Return every finished run with its rows."""
        return list(self._cells.items())

    def rows(self, cells: Iterable[Cell]) -> list[Row]:
        """Return the rows of these runs, as far as they have been done."""
        return [row for cell in cells for row in self._cells.get(cell, [])]


def write_parquet(rows: Sequence[Row], path: Path) -> None:
    """Write rows as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with stage_files(path) as (file,):
        pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows]), file)


Key = tuple[str, str, float, str]
"""Table, measure, epsilon, variant."""


def summary(rows: Iterable[Row]) -> dict[Key, Spread]:
    """Return each figure's mean and spread over seeds, in order of first appearance."""
    values: dict[Key, list[float]] = {}
    for row in rows:
        values.setdefault((row.table, row.measure, row.epsilon, row.variant), []).append(row.value)
    return {key: Spread.of(found) for key, found in values.items()}
