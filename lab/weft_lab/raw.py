"""From a raw export to a release: tables as CSV without a schema, beside the same tables with a reviewed one.

Times are from file to file, in a process of their own, as a person would run them.
"""

from __future__ import annotations

import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from weft.errors import DataError
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.datasets import locate
from weft_lab.sheet import Sheet
from weft_lab.structure import three_way

GENERATED_ROWS = 1_000_000
UNSPENT = "Nothing was spent."
"""What the command line says of a run that was refused before a charge."""


@dataclass
class Raw:
    """Exports, one after another."""

    tables: Sequence[str] = ()
    epsilon: float = 1.0
    folder: str | None = None

    def sheets(self, listener: Listener = ignore_event) -> Iterator[Sheet]:
        """Yield one sheet: time, memory, and the error of triples of columns with and without a schema."""
        rows = []
        with report_stage(listener, "run", len(self.tables or TABLES)) as work, tempfile.TemporaryDirectory() as place:
            for name in self.tables or TABLES:
                rows.append(self._row(name, Path(place)))
                work.advance(note=name)
        heads = ("table", "rows", "columns", "seconds", "GiB", "3-way error", "with a reviewed schema", "ratio")
        yield Sheet(f"raw exports without a schema, epsilon {self.epsilon:g}, file to file", heads, rows)

    def _row(self, name: str, place: Path) -> list[str]:
        real = MADE[name]() if name in MADE else _read(name, self.folder)
        source = place / f"{name}.csv"
        _export(real, source)
        took, memory, refusal = self._run(source, place / "bare.csv", [])
        told = [name, f"{len(real):,}", str(real.num_columns), f"{took:.0f}", f"{memory:.2f}"]
        if refusal:
            return [*told, "refused, nothing spent", "", ""]
        bare = _error(real, place / "bare.csv")
        schema = files("weft_lab") / "schemas" / f"{name}.toml"
        if not schema.is_file():
            return [*told, "" if math.isnan(bare) else f"{bare:.4f}", "", ""]
        self._run(source, place / "reviewed.csv", ["--schema", str(schema)])
        reviewed = _error(real, place / "reviewed.csv")
        return [*told, f"{bare:.4f}", f"{reviewed:.4f}", f"{bare / reviewed:.2f}"]

    def _run(self, source: Path, out: Path, options: Sequence[str]) -> tuple[float, float, bool]:
        """Return seconds, the most memory of any run so far in GiB, and whether it was refused before a charge."""
        who = [] if options else ["--one-row-per-person", "--few-rows"]
        command = [sys.executable, "-m", "weft.cli", "synth", str(source), "-e", f"{self.epsilon:g}", "-q"]
        start = time.perf_counter()
        done = subprocess.run([*command, *who, *options, "-o", str(out)], capture_output=True, text=True)  # noqa: S603
        took = time.perf_counter() - start
        refused = done.returncode != 0 and UNSPENT in done.stderr
        if done.returncode and not refused:
            raise DataError(f"{source.name}: {done.stderr.strip()}")
        return took, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20, refused


def _read(name: str, folder: str | None) -> pa.Table:
    path = locate(name, folder)
    if path is None:
        raise DataError(f"{name}: there is no such table here; `weft bench data` has them")
    return pq.read_table(path)


def _export(table: pa.Table, path: Path) -> None:
    """Write a CSV as pandas does where it is there: 3.0 for whole numbers beside blanks, offsets in times."""
    if find_spec("pandas") is None:
        pyarrow.csv.write_csv(table, path)
    else:
        table.to_pandas().to_csv(path, index=False)


def _error(real: pa.Table, made: Path) -> float:
    """Return the mean total variation of triples of columns, numbers in twentieths of the real rows."""
    read = pyarrow.csv.read_csv(made)
    shared = [name for name in real.column_names if name in read.column_names and not _all_differ(real.column(name))]
    if len(shared) < 3:
        return math.nan
    columns = {name: _like(read.column(name), real.schema.field(name).type) for name in shared}
    return 1 - three_way(real.select(shared), pa.table(columns)) / 1000


def _all_differ(column: pa.ChunkedArray) -> bool:
    """Whether a column is a text of its own in every row, of which there is nothing to compare."""
    return pa.types.is_string(column.type) and len(column.unique()) == len(column)


def _like(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        return column.cast(kind, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column


def generated(rows: int = GENERATED_ROWS, seed: int = 0) -> pa.Table:
    """Return a table of twenty columns as a clinic might export them: ids, dates, money, codes, free text."""
    rng = np.random.default_rng(seed)
    ward = rng.choice(8, rows, p=[0.3, 0.2, 0.15, 0.1, 0.1, 0.08, 0.05, 0.02])
    age = np.clip(rng.normal(45 + 4 * ward, 18), 0, 99).astype(int)
    days = np.datetime64("2021-01-01") + rng.integers(0, 1000, rows)
    cost = np.round(rng.gamma(2 + ward, 400), 2)
    codes = np.array([f"{a}{b:02d}" for a in "ABCDEFGHIJ" for b in range(60)])
    columns: dict[str, object] = {
        "stay": np.char.add("S", np.arange(rows).astype(str)),
        "ward": np.array(["surgery", "medicine", "heart", "eyes", "bones", "skin", "child", "other"])[ward],
        "age": age,
        "sex": rng.choice(["f", "m"], rows),
        "admitted": days,
        "left": days + rng.integers(0, 20, rows),
        "cost": cost,
        "paid": np.where(rng.random(rows) < 0.3, 0.0, np.round(cost * rng.random(rows), 2)),
        "code": codes[np.minimum(rng.geometric(0.02, rows), len(codes)) - 1],
        "note": np.char.add("seen by somebody who wrote a few words, number ", np.arange(rows).astype(str)),
        "smoker": rng.random(rows) < 0.2 + 0.02 * ward,
    }
    for i in range(9):
        columns[f"answer_{i + 1}"] = np.minimum(rng.geometric(0.3, rows), 6 + i)
    return pa.table(columns)


def wide(rows: int = 100_000, columns: int = 1_000, seed: int = 0) -> pa.Table:
    """Return a survey of very many questions, each with a handful of answers that depend a little on the last one."""
    rng = np.random.default_rng(seed)
    made, last = {}, np.zeros(rows, np.int64)
    for i in range(columns):
        again = rng.random(rows) < 0.3
        last = np.where(again, last, rng.integers(0, 2 + i % 5, rows)) % (2 + i % 5)
        made[f"q{i + 1}"] = last
    return pa.table(made)


def strings(rows: int = GENERATED_ROWS, seed: int = 0) -> pa.Table:
    """Return one column of texts that all differ, beside two of the usual sort."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "text": np.char.add("case ", rng.permutation(rows).astype(str)),
            "age": rng.integers(0, 100, rows),
            "sex": rng.choice(["f", "m"], rows),
        }
    )


MADE: dict[str, Callable[[], pa.Table]] = {"generated": generated, "strings": strings, "wide": wide}
"""Tables that are made where they are needed."""

TABLES = ("adult_raw", "hotel_bookings_raw", "flights_raw", "acs_pums2018_west", *MADE)
