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
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from weft.errors import DataError
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.raw_scores import RawScores, score_release, worst
from weft_lab.raw_tables import EXPORTS, read_export
from weft_lab.sheet import Sheet
from weft_lab.structure import three_way

UNSPENT = "Nothing was spent."
"""What the command line says of a run that was refused before a charge."""


TABLES = tuple(EXPORTS)


@dataclass
class Raw:
    """Exports, one after another."""

    tables: Sequence[str] = ()
    epsilon: float = 1.0
    folder: str | None = None
    runs: int = 1
    options: Sequence[str] = ()
    """Further options of `weft synth`, such as a contribution bound."""

    def sheets(self, listener: Listener = ignore_event) -> Iterator[Sheet]:
        """Yield time, memory and 3-way error; what is wrong on raw values; and which columns are the worst."""
        names = self.tables or TABLES
        times, scores, found = [], [], dict[str, list[RawScores]]()
        with report_stage(listener, "run", len(names)) as work, tempfile.TemporaryDirectory() as place:
            for name in names:
                row, found[name] = self._row(name, Path(place))
                times.append(row)
                scores += [_score_row(name, found[name])] if found[name] else []
                work.advance(note=name)
        told = f"epsilon {self.epsilon:g}, {self.runs} run{'s' * (self.runs > 1)}"
        heads = ("table", "rows", "columns", "seconds", "GiB", "3-way error", "with a reviewed schema", "ratio")
        yield Sheet(f"raw exports without a schema, {told}, file to file", heads, times)
        if scores:
            yield Sheet(
                f"on raw values, {told}", ("table", "chosen on", *(head for head, _, _ in SCORES)), scores, NOTES
            )
            yield Sheet("figures by half", ("figure", *HALVES.values()), list(_figures(found)))
            yield Sheet(
                "worst columns",
                ("table", *WORST.values()),
                [_worst_row(name, runs) for name, runs in found.items() if runs],
            )

    def _row(self, name: str, place: Path) -> tuple[list[str], list[RawScores]]:
        real, export = read_export(name, self.folder), EXPORTS[name]
        source, out = place / f"{name}.csv", place / "bare.csv"
        _export(real, source, export.encoding)
        real = pyarrow.csv.read_csv(source, pyarrow.csv.ReadOptions(encoding=export.encoding))
        took, errors, scores = list[float](), list[float](), list[RawScores]()
        told = [name, f"{len(real):,}", str(real.num_columns)]
        for seed in range(self.runs):
            took.append(self._run(source, out, ["--few-rows", *export.options, *self.options], seed))
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
            if not took[-1]:
                return [*told, "", "", "refused, nothing spent", "", ""], []
            made = pyarrow.csv.read_csv(out)  # always UTF-8
            errors.append(_error(real, made))
            schema = out.with_suffix(".schema.toml")
            texts = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(_list_categories(schema), pa.string()))
            written = pyarrow.csv.read_csv(
                source, pyarrow.csv.ReadOptions(encoding=export.encoding), convert_options=texts
            )
            released = pyarrow.csv.read_csv(out, convert_options=texts)
            scores.append(score_release(written, released, schema, export.dependencies))
        told += [f"{np.median(took):.0f}", f"{memory:.2f}"]
        bare = float(np.mean(errors))
        reviewed_schema = files("weft_lab") / "schemas" / f"{name}.toml"
        if not reviewed_schema.is_file():
            return [*told, "" if math.isnan(bare) else f"{bare:.4f}", "", ""], scores
        self._run(source, place / "reviewed.csv", ["--schema", str(reviewed_schema)], 0)
        reviewed = _error(real, pyarrow.csv.read_csv(place / "reviewed.csv"))
        return [*told, f"{bare:.4f}", f"{reviewed:.4f}", f"{bare / reviewed:.2f}"], scores

    def _run(self, source: Path, out: Path, options: Sequence[str], seed: int) -> float:
        """Return seconds; 0 if the run was refused before a charge."""
        command = [sys.executable, "-m", "weft.cli", "synth", str(source), "-e", f"{self.epsilon:g}", "-q", *options]
        out.with_suffix(".schema.toml").unlink(missing_ok=True)
        start = time.perf_counter()
        command += ["--noise-seed", str(seed), "--overwrite", "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603
        if done.returncode and UNSPENT not in done.stderr:
            raise DataError(f"{source.name}: {done.stderr.strip()}")
        return 0.0 if done.returncode else time.perf_counter() - start


HALVES = {True: "settings chosen here", False: "reported only"}
NOTES = (
    "outside: share of real rows outside the found range of a numeric or date column; lost: share of the values with "
    "so many rows that do not occur in the release; shifts are relative",
)


def _mean(values: Mapping[str, float]) -> float:
    return float(np.mean([abs(value) for value in values.values()])) if values else math.nan


def _median(values: Mapping[str, float]) -> float:
    return float(np.median([abs(value) for value in values.values()])) if values else math.nan


Summary = Callable[[Mapping[str, float]], float]
SCORES: Sequence[tuple[str, str, Summary]] = (
    ("outside, worst", "outside", worst),
    ("outside, median", "outside", _median),
    ("2% values lost", "lost_2", _mean),
    ("1% values lost", "lost_1", _mean),
    ("means of amounts", "means", _median),
    ("worst mean", "means", worst),
    ("worst median", "medians", worst),
    ("worst 90% quantile", "tails", worst),
    ("TVD", "variation", _mean),
    ("correlations", "correlations", _mean),
    ("dependencies broken", "broken", _mean),
)
"""Heads, attributes of `RawScores`, and how the columns of a table are summarised."""

WORST = {"outside": "outside", "means": "mean", "medians": "median", "tails": "90% quantile", "variation": "TVD"}

FIGURES: Sequence[tuple[str, str, float]] = (
    ("columns with at most 2% of rows outside", "outside", 0.02),
    ("columns without a lost 2% value", "lost_2", 0.0),
    ("columns without a lost 1% value", "lost_1", 0.0),
    ("means of skewed amounts within 15%", "means", 0.15),
    ("medians within 10%", "medians", 0.10),
    ("90% quantiles within 10%", "tails", 0.10),
)


def _score_row(name: str, runs: Sequence[RawScores]) -> list[str]:
    found = [np.mean([summary(getattr(run, part)) for run in runs]) for _, part, summary in SCORES]
    return [
        name,
        "yes" if EXPORTS[name].tuning else "no",
        *("" if math.isnan(value) else f"{value:.3f}" for value in found),
    ]


def _worst_row(name: str, runs: Sequence[RawScores]) -> list[str]:
    """Name the worst column of each score, by its mean over runs."""
    told = [name]
    for part in WORST:
        both = {key: np.mean([abs(getattr(run, part).get(key, 0.0)) for run in runs]) for key in getattr(runs[0], part)}
        place = max(both, key=lambda key: both[key], default="")
        told.append(f"{place} {both[place]:.2f}" if place else "")
    return told


def _figures(found: Mapping[str, Sequence[RawScores]]) -> Iterator[list[str]]:
    """Yield each figure with the share of columns and runs that reach it, by half."""
    for head, part, most in FIGURES:
        told = [head]
        for half in HALVES:
            tables = [run for name, runs in found.items() if EXPORTS[name].tuning is half for run in runs]
            reached = [abs(value) <= most for run in tables for value in getattr(run, part).values()]
            told.append(f"{np.mean(reached):.1%} of {len(reached)}" if reached else "")
        yield told


def _export(table: pa.Table, path: Path, encoding: str) -> None:
    """Write a CSV as pandas does where it is there: 3.0 for whole numbers beside blanks, offsets in times."""
    if find_spec("pandas") is None:
        pyarrow.csv.write_csv(table, path)
        path.write_text(path.read_text(encoding="utf-8"), encoding=encoding)
    else:
        table.to_pandas().to_csv(path, index=False, encoding=encoding)


def _list_categories(schema: Path) -> list[str]:
    """Return the columns that were found to be categories, whose values are compared as they are written."""
    columns = tomllib.loads(schema.read_text(encoding="utf-8")).get("columns", {})
    return [name for name, entry in columns.items() if entry.get("kind") == "category"]


def _error(real: pa.Table, read: pa.Table) -> float:
    """Return the mean total variation of triples of columns, numbers in twentieths of the real rows."""
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
