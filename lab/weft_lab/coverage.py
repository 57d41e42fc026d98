"""Coverage of intervals from replicates: repeated releases of a table, beside naive intervals of the same runs.

A table is released several times, each release is repeated by replicates, and each interval is compared with the value
in the private table. Settings of the intervals were chosen on CHOSEN_ON; REPORTED_ON are the tables of the sheet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import norm

from weft import Schema, Synthesizer
from weft.encoding import Codec
from weft.evaluation.analysis import Question, estimate_with_interval
from weft.synthesis.replicates import Replicates, describe_replicates, draw_replicate
from weft_lab.sheet import Sheet
from weft_lab.tables import open_table

Values = NDArray[np.float64]

POPULATION = "population"
"""The generated table: each release is of another sample of the same population."""


@dataclass(frozen=True)
class Study:
    """Columns of a table, and the statistics to estimate from it."""

    columns: Sequence[str]
    means: Sequence[str]
    shares: Sequence[str]
    models: Sequence[str]


STUDIES: Mapping[str, Study] = {
    "nltcs": Study(
        ("0", "1", "2", "3", "5", "8", "12", "15"),
        (),
        ("0 = 1", "3 = 1", "5 = 1", "12 = 1", "15 = 1"),
        ("0 ~ 1 + 2", "15 ~ 12 + 5", "8 = 1 ~ 3"),
    ),
    "acs_pums2018_west": Study(
        ("AGEP", "SEX", "MAR", "WKHP", "SCHL", "COW", "RAC1P"),
        ("AGEP", "WKHP"),
        ("SEX = 1", "MAR = 1", "MAR = 5", "RAC1P = 1", "AGEP >= 65"),
        ("AGEP ~ SEX", "WKHP ~ AGEP + SEX", "SEX = 1 ~ AGEP"),
    ),
    "adult_raw": Study(
        ("age", "education-num", "marital-status", "relationship", "race", "sex", "hours-per-week", "income"),
        ("age", "education-num", "hours-per-week"),
        ("sex = Male", "income = >50K", "race = White", "marital-status = Divorced", "age >= 65"),
        ("hours-per-week ~ age + sex", "income ~ education-num + age", "education-num ~ income + sex"),
    ),
    "hotel_bookings_raw": Study(
        ("hotel", "is_canceled", "lead_time", "stays_in_week_nights", "adults", "deposit_type", "customer_type", "adr"),
        ("lead_time", "adr", "stays_in_week_nights"),
        ("is_canceled = 1", "hotel = City Hotel", "deposit_type = Non Refund", "customer_type = Transient"),
        ("lead_time ~ is_canceled + hotel", "is_canceled = 1 ~ lead_time + deposit_type", "adr ~ hotel + adults"),
    ),
    "flights_raw": Study(
        ("month", "dep_delay", "arr_delay", "distance", "air_time", "origin", "carrier"),
        ("dep_delay", "arr_delay", "distance"),
        ("origin = JFK", "origin = LGA", "carrier = UA", "month = 7", "dep_delay >= 60"),
        ("arr_delay ~ dep_delay", "air_time ~ distance", "dep_delay ~ origin"),
    ),
    POPULATION: Study(
        ("age", "region", "smoker", "visits", "cost"),
        ("age", "visits", "cost"),
        ("region = north", "region = south", "smoker = yes", "age >= 65"),
        ("cost ~ age + smoker", "smoker ~ age", "visits ~ age + region"),
    ),
}
CHOSEN_ON = ("acs_pums2018_west", "nltcs")
REPORTED_ON = ("adult_raw", "hotel_bookings_raw", "flights_raw", POPULATION)

_POPULATION_SCHEMA = """
columns.age = {kind = "integer", range = [18, 95]}
columns.region = {kind = "category", values = ["east", "north", "south", "west"]}
columns.smoker = {kind = "category", values = ["no", "yes"]}
columns.visits = {kind = "integer", range = [0, 30]}
columns.cost = {kind = "real", range = [0.0, 10000.0], decimals = 0}
"""


def draw_population(rows: int, seed: int) -> pa.Table:
    """Draw people from a population whose regressions are known."""
    rng = np.random.default_rng([seed, 11])
    age = np.clip(np.rint(rng.normal(50, 18, rows)), 18, 95)
    region = rng.choice(4, rows, p=[0.15, 0.4, 0.25, 0.2])
    smoker = rng.random(rows) < 1 / (1 + np.exp(0.4 + 0.03 * (age - 50)))
    visits = np.minimum(rng.poisson(np.exp(0.4 + 0.015 * (age - 50) + 0.2 * (region == 2))), 30)
    cost = np.clip(np.rint(900 + 22 * (age - 18) + 700 * smoker + 180 * visits + rng.normal(0, 600, rows)), 0, 10_000)
    return pa.table(
        {
            "age": pa.array(age, pa.int64()),
            "region": np.array(["east", "north", "south", "west"])[region],
            "smoker": np.where(smoker, "yes", "no"),
            "visits": pa.array(visits, pa.int64()),
            "cost": pa.array(cost, pa.float64()),
        }
    )


KINDS = ("share", "mean", "quantile", "coefficient", "coefficient, not measured")


@dataclass(frozen=True)
class Size:
    """How large an experiment is."""

    rows: int = 8_000
    releases: int = 6
    replicates: int = 20


@dataclass(frozen=True)
class Outcome:
    """Values of all statistics in one run, for a private table and each of its releases' tables."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    private: Values
    released: Values
    parents: Values
    replicates: Values
    naive: Values
    """Standard errors that treat the released rows as real ones."""


@cache
def open_study(name: str, rows: int, seed: int) -> tuple[pa.Table, Schema]:
    """Return a private table of some rows, and its schema."""
    if name == POPULATION:
        return draw_population(rows, seed), Schema.from_toml(_POPULATION_SCHEMA)
    table, columns = open_table(name), STUDIES[name].columns
    schema = replace(table.schema, columns=tuple(c for c in table.schema.columns if c.name in columns))
    taken = np.sort(np.random.default_rng(0).permutation(table.rows.num_rows)[:rows])
    return table.rows.select([column.name for column in schema.columns]).take(taken), schema


def run_release(name: str, epsilon: float, rows: int, count: int, seed: int) -> Outcome:
    """Release a table once and repeat the release; return every statistic of every table."""
    study = STUDIES[name]
    private, schema = open_study(name, rows, seed if name == POPULATION else 0)
    made = Synthesizer(epsilon, 1e-6, journal=None, trust_data_for_schema=True, seed=seed)
    made.fit(private, schema, unit=False)
    released = made.sample(seed=seed)
    pairs = tuple(draw_replicate(made.fitted_, number, seed) for number in range(1, count + 1))
    repeated = Replicates(describe_replicates(made.fitted_, count, seed, None), pairs)
    # The same types everywhere: a private table may have others than its release.
    tables = [private.cast(released.schema), released, *(table for pair in pairs for table in pair)]
    texts = [
        *((f"mean({column})", "mean") for column in study.means),
        *((f"median({column})", "quantile") for column in study.means),
        *((f"share({condition})", "share") for condition in study.shares),
        *((model, "coefficient") for model in study.models),
    ]
    names, kinds, rows_of, errors = [], [], [], []
    for text, kind in texts:
        question = Question.parse(text, repeated, tables)
        if kind == "coefficient" and question.find_gaps():
            kind = "coefficient, not measured"
        found = [question.compute(table) for table in tables]
        for label in found[0]:
            if label == "intercept":
                continue
            names.append(f"{text}: {label}")
            kinds.append(kind)
            rows_of.append([each.get(label, math.nan) for each in found])
            errors.append(_naive_error(question, label, released))
    values = np.array(rows_of)
    return Outcome(
        tuple(names), tuple(kinds), values[:, 0], values[:, 1], values[:, 2::2], values[:, 3::2], np.array(errors)
    )


def _naive_error(question: Question, label: str, table: pa.Table, times: int = 20) -> float:
    """Return the standard error for rows that were drawn from a population, by the bootstrap."""
    rng = np.random.default_rng(0)
    values = [
        question.compute(table.take(rng.integers(0, len(table), len(table)))).get(label, math.nan) for _ in range(times)
    ]
    return float(np.nanstd(values, ddof=1))


def _run_one(arguments: tuple[str, float, int, int, int]) -> Outcome:
    return run_release(*arguments)


def run_study(name: str, epsilon: float, size: Size, processes: int = 1) -> list[Outcome]:
    """Release a table several times."""
    jobs = [(name, epsilon, size.rows, size.replicates, seed) for seed in range(size.releases)]
    if processes < 2:
        return [_run_one(job) for job in jobs]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        return list(pool.map(_run_one, jobs))


def find_truth(outcome: Outcome) -> Values:
    """Return every statistic of the generated population, from a million people."""
    table, schema = draw_population(1_000_000, 99), Schema.from_toml(_POPULATION_SCHEMA)
    codec = Codec(schema, table.schema)
    facts = {"codec": codec.to_dict(), "attributes": {}, "measured": [], "stamps": []}
    found: dict[str, float] = {}
    for text in dict.fromkeys(name.partition(": ")[0] for name in outcome.names):
        values = Question.parse(text, Replicates(facts, ()), [table]).compute(table)
        found |= {f"{text}: {label}": value for label, value in values.items()}
    return np.array([found[name] for name in outcome.names])


def summarise(
    outcomes: Sequence[Outcome], truth: Values | None = None, level: float = 0.95
) -> dict[str, dict[str, float]]:
    """Return, for each kind of statistic, the coverage and relative width of both intervals.

    The intervals are for the private table's values, or for those of the population if these are given. Widths are
    relative to an ideal interval, which knows the root mean square error over all releases.
    """
    made: dict[str, dict[str, float]] = {}
    z = float(norm.ppf((1 + level) / 2))
    errors = np.array([each.released - (each.private if truth is None else truth) for each in outcomes])
    ideal = z * np.sqrt((errors**2).mean(axis=0))
    for kind in KINDS:
        hits, naive, widths, plain = [], [], [], []
        for one in outcomes:
            for i in (i for i, each in enumerate(one.kinds) if each == kind):
                goal, repeated = (one.private[i], None) if truth is None else (truth[i], one.replicates[i])
                known = one.replicates[i] - one.parents[i]
                interval = estimate_with_interval("", one.released[i], known, repeated, level)
                if math.isnan(interval.low) or math.isnan(goal):
                    continue
                hits.append(interval.low <= goal <= interval.high)
                naive.append(abs(one.released[i] - goal) <= z * one.naive[i])
                if ideal[i] > 1e-12 * abs(goal):
                    widths.append((interval.high - interval.low) / 2 / ideal[i])
                    plain.append(z * one.naive[i] / ideal[i])
        if hits:
            made[kind] = {
                "intervals": len(hits),
                "coverage": float(np.mean(hits)),
                "width": float(np.median(widths)) if widths else math.nan,
                "naive coverage": float(np.mean(naive)),
                "naive width": float(np.median(plain)) if plain else math.nan,
            }
    return made


def coverage_sheet(
    tables: Sequence[str], epsilons: Sequence[float], size: Size, processes: int = 2, keep: Path | None = None
) -> Sheet:
    """Release each table with each budget several times, and return the coverages."""
    rows = []
    for name in tables:
        for epsilon in epsilons:
            outcomes = run_study(name, epsilon, size, processes)
            if keep is not None:
                save_outcomes(outcomes, keep / f"{name}-{epsilon:g}.npz")
            rows += _list_rows(f"{name}, epsilon {epsilon:g}", summarise(outcomes))
            if name == POPULATION:
                found = summarise(outcomes, find_truth(outcomes[0]))
                rows += _list_rows(f"{name}, epsilon {epsilon:g}, for the population", found)
    head = ["table", "statistic", "intervals", "coverage", "width", "naive coverage", "naive width"]
    notes = [
        f"{size.releases} releases of {size.rows:,} rows, {size.replicates} replicates each. Widths are medians, "
        "relative to an ideal interval, which knows the root mean square error over all releases."
    ]
    return Sheet("Coverage of 95% intervals, for the private table if nothing else is said", head, rows, notes)


def _list_rows(name: str, kinds: Mapping[str, Mapping[str, float]]) -> list[list[str]]:
    shares, widths = ("coverage", "naive coverage"), ("width", "naive width")
    made = []
    for kind, found in kinds.items():
        cells = {each: f"{found[each]:.0%}" for each in shares} | {each: f"{found[each]:.2f}" for each in widths}
        given = [cells[each] for each in ("coverage", "width", "naive coverage", "naive width")]
        made.append([name, kind, f"{found['intervals']:.0f}", *given])
    return made


def save_outcomes(outcomes: Sequence[Outcome], path: Path) -> None:
    """Keep all values of a study, from which other intervals can be computed."""
    values: dict[str, Any] = {}
    for i, one in enumerate(outcomes):
        for field in ("private", "released", "parents", "replicates", "naive"):
            values[f"{field}{i}"] = getattr(one, field)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, names=np.array(outcomes[0].names), kinds=np.array(outcomes[0].kinds), **values)
