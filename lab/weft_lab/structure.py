"""What structure is worth: raw tables with a reviewed schema, before and after, at the same budget.

"Bins" is what a schema meant in version 0.1: numbers and dates of many values in 32 bins of equal width, each of them
counted as one thing, and no rules. "Structure" is the schema as it is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import combinations, product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from weft.encoding import Codec
from weft.errors import DataError
from weft.evaluation.report.report_values import (
    GRAINS,
    count_round_numbers,
    measure_wasserstein,
    number_figures,
    read_numbers,
    values_of,
)
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Column, Schema
from weft.schema.kinds import Category, Datetime, Derived
from weft.schema.kinds.numeric_bins import BinnedColumn
from weft.synthesis.synthesizer import Synthesizer
from weft.values.storage import decode_dictionary, floats_of
from weft.values.text_numbers import is_text, read_floats
from weft_lab.datasets import locate
from weft_lab.learning import TASKS, Task, area, parted, slopes
from weft_lab.sheet import Sheet

TABLES = ("adult_raw", "hotel_bookings_raw", "sdnist_national2019", "cps_tax")
WITHOUT: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "sdnist_21": ("sdnist_national2019", ("DENSITY", "PWGTP", "WGTP"))
}
"""Of these tables, all but some columns: the excerpt of SDNist as others have reported it."""
EPSILONS = (1.0, 8.0)
BINS = 32
"""Bins that a wide column had by default."""
WIDE = 100
DATES = ("2014-01-01", "2017-12-31")
"""Range of dates that are learned by themselves, where the schema counts them from another column."""


@dataclass
class Structure:
    """Raw tables in both ways."""

    tables: Sequence[str] = TABLES
    epsilons: Sequence[float] = EPSILONS
    runs: int = 1
    method: str = "weave"
    folder: str | None = None

    def sheets(self, listener: Listener = ignore_event) -> Iterator[Sheet]:
        """Yield two sheets for each table: the table as a whole, and its columns of numbers."""
        with report_stage(listener, "run", 2 * self.runs * len(self.tables) * len(self.epsilons)) as work:
            for name in self.tables:
                rows, schema = _open(name, self.folder)
                whole: list[list[str]] = []
                columns: list[list[str]] = []
                for epsilon, (how, used) in product(self.epsilons, (("bins", plain(schema)), ("structure", schema))):
                    found = []
                    for seed in range(self.runs):
                        found.append(_run(rows, used, schema, epsilon, self.method, TASKS.get(name), seed))
                        work.advance(note=f"{name}, epsilon {epsilon:g}, {how}")
                    whole.append([f"{epsilon:g}", how, *_means([run.whole for run in found])])
                    columns += [[f"{epsilon:g}", how, *_column(c)] for c in found[0].columns]
                yield Sheet(f"{name}: {self.method}, {self.runs} runs", ("epsilon", "schema", *found[0].heads), whole)
                heads = ("epsilon", "schema", "column", "mean", "sd", "99%", "moved by", "round", "weekdays off by")
                yield Sheet(
                    f"{name}: columns, first run (real / synthetic)", heads, sorted(columns, key=lambda r: r[2])
                )


def _open(name: str, folder: str | None) -> tuple[pa.Table, Schema]:
    known, without = WITHOUT.get(name, (name, ()))
    path = locate(known, folder)
    if path is None or known not in TABLES:
        raise DataError(
            f"{name}: there is no such table here. Known are {', '.join((*TABLES, *WITHOUT))}; "
            "`weft bench data` has them"
        )
    schema = Schema.load(str(files("weft_lab") / "schemas" / f"{known}.toml"))
    kept = tuple(column for column in schema.columns if column.name not in without)
    rules = tuple(rule for rule in schema.rules if not set(rule.columns) & set(without))
    return pq.read_table(path).drop_columns(list(without)), replace(schema, columns=kept, rules=rules)


@dataclass(frozen=True)
class _Found:
    heads: list[str]
    whole: list[float]
    columns: list[_Number]


@dataclass(frozen=True)
class _Number:
    """A column of numbers or dates in the real and in the synthetic table."""

    name: str
    dates: bool
    means: tuple[float, float]
    sds: tuple[float, float]
    tops: tuple[float, float]
    """The quantiles at 99%."""
    moved: float
    """Wasserstein distance."""
    round_share: list[tuple[float, float, float]]
    """Each of `GRAINS` with the share of its multiples in both tables; empty for dates."""
    weekdays_off: float


def _compare_numbers(real: pa.Table, synth: pa.Table, schema: Schema) -> list[_Number]:
    made = []
    for figures in number_figures(schema, synth, real):
        a, b = (read_numbers(table, schema.column(figures.name)) for table in (real, synth))
        assert a is not None and b is not None
        rounds = zip(GRAINS, count_round_numbers(a), count_round_numbers(b), strict=True)
        top_a, top_b = (float(np.quantile(values, 0.99)) for values in (a, b))
        off = max((abs((x or 0.0) - (y or 0.0)) for x, y in figures.weekdays), default=0.0)
        made.append(
            _Number(
                figures.name, figures.dates, (float(a.mean()), float(b.mean())), (float(a.std()), float(b.std())),
                (top_a, top_b), measure_wasserstein(a, b), [] if figures.dates else list(rounds), off,
            )
        )  # fmt: skip
    return made


def plain(schema: Schema) -> Schema:
    """Return a schema as version 0.1 would have taken it."""
    columns: list[Column] = []
    for column in schema.columns:
        if not column.in_table:
            continue
        if isinstance(column, Derived):
            columns.append(Category(column.name, column.listed or (), type=column.type))
        elif isinstance(column, Datetime) and column.after is not None:
            columns.append(Datetime(column.name, DATES, bins=BINS, missing=column.missing))
        elif isinstance(column, BinnedColumn) and column.edges is None and column.bins is None:
            low, high = column.ends
            wide = column.kind != "integer" or (high - low) // getattr(column, "step", 1) >= WIDE
            columns.append(replace(column, bins=BINS if wide else "each"))
        else:
            columns.append(column)
    return replace(schema, columns=tuple(columns), per_unit=(), rules=())


def _run(
    rows: pa.Table, used: Schema, schema: Schema, epsilon: float, method: str, task: Task | None, seed: int
) -> _Found:
    seen, held = parted(rows, seed)
    before = time.perf_counter()
    made = Synthesizer(epsilon, 1e-5, method=method, journal=None).fit(seen, used).sample(len(seen))
    took = time.perf_counter() - before
    columns = _compare_numbers(seen, made, schema)
    numbers = [c for c in columns if not c.dates and c.sds[0] > 0]
    moved = [c.moved / c.sds[0] for c in numbers]
    spread = [abs(c.sds[1] / c.sds[0] - 1) for c in numbers]
    rounded = [max(abs(a - b) for _, a, b in c.round_share) for c in numbers]
    values = {
        "moved by, in sd": float(np.mean(moved)),
        "worst": float(np.max(moved)),
        "sd off by": float(np.median(spread)),
        "round off by": float(np.mean(rounded)),
        "3-way score": three_way(seen, made),
        "rows with a broken rule": float(np.count_nonzero(Codec(schema, made.schema).broken(made))),
    }
    if task is not None:
        values |= _learned(seen, made, held, task)
    values["seconds"] = took
    return _Found(list(values), list(values.values()), columns)


def _learned(seen: pa.Table, made: pa.Table, held: pa.Table, task: Task) -> dict[str, float]:
    real, synth = (slopes(table, task) for table in (seen, made))
    found = {f"slope of {name}": float(b / a) for name, a, b in zip(task.slopes, real, synth, strict=True)}
    if task.day is not None:
        shares = [weekdays(table, task.day) for table in (seen, made)]
        found["weekdays off by"] = float(np.abs(shares[0] - shares[1]).max())
    score = area(made, held, task)
    return found if score is None else found | {"area under the curve": score}


def weekdays(table: pa.Table, parts: tuple[str, str, str]) -> NDArray[np.float64]:
    """Return the share of each weekday of a date that is kept as a year, the name of a month and a day."""
    year, month, day = (table.column(name).cast(pa.string()) for name in parts)
    written = pc.binary_join_element_wise(year, month, day, "-")
    moments = pc.strptime(written, format="%Y-%B-%d", unit="s", error_is_null=True)
    found = np.bincount(np.asarray(pc.drop_null(pc.day_of_week(moments))), minlength=7)
    return np.asarray(found / found.sum())


def three_way(real: pa.Table, made: pa.Table, most: int = 400) -> float:
    """Return 1000 times one minus the mean total variation over triples of columns; numbers in twentieths of rows."""
    columns = [_codes(real.column(n), made.column(n)) for n in real.column_names if n in made.column_names]
    columns = [pair for pair in columns if pair[2] <= 1000]
    triples = list(combinations(range(len(columns)), 3))
    chosen = np.random.default_rng(0).permutation(len(triples))[:most]
    apart = []
    for a, b, c in (triples[i] for i in chosen):
        sizes = [columns[i][2] for i in (a, b, c)]
        keys = [(columns[a][s] * sizes[1] + columns[b][s]) * sizes[2] + columns[c][s] for s in (0, 1)]
        tables = [np.bincount(key, minlength=math.prod(sizes)) for key in keys]
        apart.append(np.abs(tables[0] / tables[0].sum() - tables[1] / tables[1].sum()).sum() / 2)
    return float(1000 * (1 - np.mean(apart)))


def _codes(real: pa.ChunkedArray, made: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the codes of a column in both tables and their number: missing is the first."""
    pair = [decode_dictionary(column.combine_chunks()) for column in (real, made)]
    numbers = [values_of(pa.chunked_array([array])) for array in pair]
    if numbers[0] is None or not len(numbers[0]):
        words = [array.cast(pa.string()) for array in pair]
        known = pc.unique(pc.drop_null(words[0]))
        found = [pc.index_in(w, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False) for w in words]
        return found[0].astype(np.int64) + 1, found[1].astype(np.int64) + 1, len(known) + 1
    different = np.unique(numbers[0])
    edges = np.append(different, np.inf)
    if len(different) > 20:
        edges = np.unique(np.quantile(numbers[0], np.linspace(0, 1, 21)))
    coded = []
    for array in pair:
        floats = read_floats(array)[0] if is_text(array.type) else floats_of(_plain(array))
        coded.append(np.where(np.isnan(floats), 0, np.searchsorted(edges[1:-1], floats, side="right") + 1))
    return coded[0], coded[1], len(edges)


def _plain(array: pa.Array) -> pa.Array:
    """Return numbers, or dates as whole numbers."""
    if pa.types.is_date(array.type) or pa.types.is_timestamp(array.type):
        return array.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    return array


def _means(found: Sequence[Sequence[float]]) -> list[str]:
    return [f"{value:.4g}" for value in np.mean(found, axis=0)]


def _column(column: _Number) -> list[str]:
    def both(pair: tuple[float, float]) -> str:
        return f"{pair[0]:.4g} / {pair[1]:.4g}"

    share = max(column.round_share, key=lambda part: part[1] * (1 - part[1]), default=None)
    return [
        column.name,
        "" if column.dates else both(column.means),
        "" if column.dates else both(column.sds),
        "" if column.dates else both(column.tops),
        f"{column.moved / (86_400 if column.dates else 1):.4g}{' days' if column.dates else ''}",
        "" if share is None else f"of {share[0]:g}: {share[1]:.1%} / {share[2]:.1%}",
        f"{column.weekdays_off:.1%}" if column.dates else "",
    ]
