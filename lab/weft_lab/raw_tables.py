"""Exports as people have them: public ones, and generated ones that each contain a known difficulty."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from weft.errors import DataError
from weft_lab.datasets import locate, places

ROWS = 20_000
GENERATED_ROWS = 1_000_000
ONE_ROW = ("--one-row-per-person",)


@dataclass(frozen=True)
class Export:
    """One export: how to make it, how a user would run it, and what must hold in it."""

    make: Callable[[], pa.Table] | None = None
    """None: a public table, which is found by name."""
    options: Sequence[str] = ONE_ROW
    """Options of `weft synth` besides the budget."""
    tuning: bool = False
    """Whether settings of discovery were chosen on it."""
    dependencies: Mapping[str, str] = field(default_factory=dict)
    """Columns, or several with commas, and the column that is a function of them."""
    encoding: str = "utf-8"


def amounts(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """Return amounts with heavy tails: mostly zero, negative, in cents, and with a few very large ones."""
    rng = np.random.default_rng(seed)
    group = rng.choice(3, rows, p=[0.6, 0.3, 0.1])
    spent = rng.lognormal(3 + group, 1.6)
    return pa.table(
        {
            "group": np.array(["basic", "plus", "premium"])[group],
            "spent": np.round(spent, 2),
            "claims": np.where(rng.random(rows) < 0.93, 0, rng.lognormal(7, 1.3, rows)).round(2),
            "visits": rng.negative_binomial(0.6, 0.12, rows),
            "income": (np.round(rng.lognormal(10.5, 0.8, rows) / 100) * 100).astype(np.int64),
            "balance": np.round(rng.standard_t(2, rows) * 500 - 100, 2),
            "wealth": np.round(rng.pareto(1.3, rows) * 1000).astype(np.int64),
            "share": np.round(rng.beta(0.4, 4, rows), 4),
            "delay": rng.exponential(40, rows).astype(np.int64),
            "children": rng.poisson(0.8, rows),
        }
    )


def surveys(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """Return answers of which some have five, two and one percent of the rows."""
    rng = np.random.default_rng(seed)
    region = rng.choice(51, rows, p=rng.dirichlet(np.full(51, 1.5)))
    grade = np.clip(rng.geometric(0.38, rows) + (region % 3 == 0), 1, 7) - 1
    status = np.where(rng.random(rows) < 0.02 + 0.01 * grade, rng.choice([1, 2, 3], rows, p=[0.6, 0.3, 0.1]), 0)
    columns: dict[str, object] = {
        "state": np.array(STATES)[region],
        "grade": np.array(list("ABCDEFG"))[grade],
        "status": np.array(["Current", "Late", "Charged Off", "Grace Period"])[status],
        "result": rng.choice(["negative", "positive", "invalid"], rows, p=[0.93, 0.055, 0.015]),
        "weekday": rng.choice(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], rows),
    }
    for i in range(25):
        rare = np.array([1.0, 0.5, 0.1, 0.03, 0.02, 0.012])
        answer = rng.choice(6, rows, p=rare / rare.sum())
        columns[f"answer_{i + 1}"] = np.array(
            [f"{word} {i}" for word in ("yes", "no", "partly", "never", "once", "x")]
        )[np.where(rng.random(rows) < 0.3, grade % 6, answer)]
    return pa.table(columns)


def claims(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """Return codes: diagnoses with letters and prefixes, occupations with leading zeros, whole numbers with gaps."""
    rng = np.random.default_rng(seed)
    chapters = rng.choice(12, rows, p=rng.dirichlet(np.full(12, 2.0)))
    number = chapters * 80 + np.minimum(rng.geometric(0.05, rows), 79)
    diagnosis = np.char.zfill(number.astype(str), 3).astype("U6")
    letters = rng.random(rows)
    diagnosis = np.where(letters < 0.06, np.char.add("V", np.char.zfill((number % 90).astype(str), 2)), diagnosis)
    diagnosis = np.where(letters > 0.98, np.char.add("E", (800 + number % 190).astype(str)), diagnosis)
    job = rng.choice(60, rows, p=rng.dirichlet(np.full(60, 1.0)))
    jobs = np.sort(rng.choice(9999, 60, replace=False))
    scheme = rng.choice(6, rows)
    return pa.table(
        {
            "diagnosis": diagnosis,
            "occupation": np.char.zfill(jobs[job].astype(str), 4),
            "prestige": np.round(20 + 60 * rng.random(60), 1)[job],
            "scheme": np.array([11, 12, 40, 710, 711, 9000])[scheme],
            "age": np.clip(rng.normal(30 + 3 * chapters, 15), 0, 99).astype(np.int64),
            "sex": rng.choice([1, 2], rows),
            "days": np.minimum(rng.geometric(0.2 + 0.02 * chapters), 60),
            "paid": np.round(rng.gamma(1 + chapters, 300), 2),
        }
    )


def wages(persons: int = 4_000, seed: int = 0) -> pa.Table:
    """Return a panel: about five yearly rows per person, whose number has no telling name."""
    rng = np.random.default_rng(seed)
    years = rng.integers(1, 10, persons)
    who = np.repeat(np.arange(persons), years)
    place = np.arange(len(who)) - np.repeat(np.cumsum(years) - years, years)
    born, level = rng.integers(1940, 1985, persons)[who], rng.normal(0, 0.6, persons)[who]
    school = np.clip(np.round(rng.normal(12, 3, persons)), 0, 20).astype(np.int64)[who]
    wage = np.exp(5.5 + 0.07 * school + level + 0.03 * place + rng.normal(0, 0.2, len(who)))
    return pa.table(
        {
            "nr": rng.permutation(90_000)[:persons][who] + 10_000,
            "year": 1995 + place + (born % 4),
            "born": born,
            "school": school,
            "race": np.array(["a", "b", "c"])[rng.choice(3, persons, p=[0.75, 0.2, 0.05])[who]],
            "wage": np.round(wage, 2),
            "hours": np.clip(rng.normal(38 + 2 * level, 8), 0, 80).astype(np.int64),
            "union": rng.random(len(who)) < 0.25 + 0.05 * level,
            "industry": np.array([f"sector {i}" for i in range(12)])[
                rng.choice(12, len(who), p=np.arange(12, 0, -1) / 78)
            ],
        }
    )


def registrations(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """Return dates in two formats in one column, and words with accents, for an export in Latin-1."""
    rng = np.random.default_rng(seed)
    days = np.datetime64("2015-01-01") + (rng.beta(2, 1, rows) * 2900).astype(np.int64)
    written = np.datetime_as_string(days)
    parts = np.char.partition(written, "-")
    ends = np.char.partition(parts[:, 2], "-")
    german = np.char.add(np.char.add(ends[:, 2], "."), np.char.add(np.char.add(ends[:, 0], "."), parts[:, 0]))
    month = days.astype("datetime64[M]").astype(int) % 12
    towns = ["Graz", "Linz", "Krems", "Sankt Pölten", "Mödling", "Wörgl"]
    return pa.table(
        {
            "gemeldet": np.where(rng.random(rows) < 0.4, german, written),
            "entschieden": np.datetime_as_string(days + rng.exponential(20, rows).astype(np.int64)),
            "geschlecht": rng.choice(["männlich", "weiblich", "divers"], rows, p=[0.48, 0.5, 0.02]),
            "ort": rng.choice(towns, rows, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04]),
            "grad": np.round(12 - 10 * np.cos(2 * np.pi * month / 12) + rng.normal(0, 3, rows), 1),
            "gebühr": np.round(rng.lognormal(3, 1, rows), 2),
        }
    )


def orders(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """Return orders with dependencies: totals, a date per order, a price per product, and an id without a name."""
    rng = np.random.default_rng(seed)
    product = np.minimum(rng.geometric(0.08, rows), 40) - 1
    price = np.round(rng.lognormal(2, 1, 40), 2)[product]
    quantity = np.minimum(rng.geometric(0.4, rows), 50)
    country = rng.choice(6, rows, p=[0.7, 0.1, 0.08, 0.06, 0.04, 0.02])
    return pa.table(
        {
            "k": rng.permutation(10 * rows)[:rows],
            "sold": np.datetime64("2023-01-01") + rng.integers(0, 400, rows),
            "product": np.array([f"P{i:03d}" for i in range(40)])[product],
            "price": price,
            "quantity": quantity,
            "total": np.round(price * quantity, 2),
            "country": np.array(["DE", "AT", "FR", "CH", "IT", "NL"])[country],
            "currency": np.array(["EUR", "EUR", "EUR", "CHF", "EUR", "EUR"])[country],
        }
    )


def stations(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """Return weather at places: the season of a place and its coordinates."""
    rng = np.random.default_rng(seed)
    place = rng.choice(8, rows)
    latitude, longitude = rng.uniform(-38, -12, 8), rng.uniform(115, 153, 8)
    days = np.datetime64("2010-01-01") + rng.integers(0, 2900, rows)
    season = np.cos(2 * np.pi * (days.astype("datetime64[M]").astype(int) % 12) / 12)
    maximum = np.round(38 + latitude[place] / 2 + 6 * season + rng.normal(0, 3, rows), 1)
    return pa.table(
        {
            "date": days,
            "station": np.array([f"station {i}" for i in range(8)])[place],
            "latitude": np.round(latitude[place] + rng.normal(0, 0.05, rows), 4),
            "longitude": np.round(longitude[place] + rng.normal(0, 0.05, rows), 4),
            "maximum": maximum,
            "minimum": np.round(maximum - rng.gamma(4, 2.5, rows), 1),
            "rain": np.where(rng.random(rows) < 0.65, 0.0, np.round(rng.gamma(0.5, 14, rows), 1)),
        }
    )


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


STATES = [
    "AL",
    "AK",
    "AZ",
    "AR",
    "CA",
    "CO",
    "CT",
    "DE",
    "DC",
    "FL",
    "GA",
    "HI",
    "ID",
    "IL",
    "IN",
    "IA",
    "KS",
    "KY",
    "LA",
    "ME",
    "MD",
    "MA",
    "MI",
    "MN",
    "MS",
    "MO",
    "MT",
    "NE",
    "NV",
    "NH",
    "NJ",
    "NM",
    "NY",
    "NC",
    "ND",
    "OH",
    "OK",
    "OR",
    "PA",
    "RI",
    "SC",
    "SD",
    "TN",
    "TX",
    "UT",
    "VT",
    "VA",
    "WA",
    "WV",
    "WI",
    "WY",
]

EXPORTS: Mapping[str, Export] = {
    "birdstrikes": Export(tuning=True),
    "covid_testing": Export(options=("--unit", "subject_id"), tuning=True),
    "loans_full": Export(tuning=True, dependencies={"paid_principal,paid_interest,paid_late_fees": "paid_total"}),
    "rand_hie": Export(tuning=True),
    "amounts": Export(amounts, tuning=True),
    "surveys": Export(surveys, tuning=True),
    "wages": Export(wages, ("--unit", "nr"), tuning=True, dependencies={"nr": "born"}),
    "adult_raw": Export(dependencies={"education": "education-num"}),
    "hotel_bookings_raw": Export(),
    "flights_raw": Export(),
    "acs_pums2018_west": Export(),
    "claims": Export(claims, dependencies={"occupation": "prestige"}),
    "registrations": Export(registrations, (*ONE_ROW, "--encoding", "latin-1"), encoding="latin-1"),
    "orders": Export(orders, dependencies={"product": "price", "price,quantity": "total", "country": "currency"}),
    "stations": Export(stations),
    "generated": Export(generated),
    "strings": Export(strings),
    "wide": Export(wide),
}
"""The exports by name."""


def read_export(name: str, folder: str | None = None) -> pa.Table:
    """Return the rows of an export."""
    if make := EXPORTS[name].make:
        return make()
    if path := locate(name, folder):
        return pq.read_table(path)
    for place in places(folder):
        if (path := place / "raw" / f"{name}.csv.gz").is_file():
            return pyarrow.csv.read_csv(path)
        if (path := place / "relational" / "panel" / f"{name}.parquet").is_file():
            return pq.read_table(path)
    raise DataError(f"{name}: there is no such table here; `weft bench data` has them")
