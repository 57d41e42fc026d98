"""The rows of the hospital: made from what is usual for each diagnosis, and chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.demo.facts import (
    DIAGNOSES,
    HIGHEST_COST,
    INSURANCES,
    LONGEST_STAY,
    OLDEST,
    REGIONS,
    SEVERITIES,
    SEXES,
    WARDS,
    YEAR,
)

if TYPE_CHECKING:
    import pyarrow as pa

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROWS = 20_000
"""Stays in the table, unless asked otherwise."""

SEED = 1884
"""The year in which the hospital was not founded."""


def hospital(rows: int = ROWS, seed: int = SEED) -> pa.Table:
    """Make a fictional table of hospital stays; the same rows and seed give the same table."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    age = _ages(rows, rng)
    sex = rng.choice(3, rows, p=[0.53, 0.46, 0.01])
    diagnosis = _diagnoses(age, sex, rng)
    severity = _severities(age, diagnosis, rng)
    emergency = rng.random(rows) < np.clip(_usual("emergency", diagnosis) + 0.06 * (severity - 1.5), 0.005, 0.995)
    region = rng.choice(len(REGIONS), rows, p=list(REGIONS.values()))
    ward = _wards(age, diagnosis, severity, rng)
    days = _days(diagnosis, severity, emergency, rng)
    insurance, insured = _insurances(age, region, emergency, rng)
    cost = _costs(ward, days, severity, np.where(insured, insurance, -1), rng)
    risk = -3.6 + 0.65 * severity + 0.018 * (age - 50) + 0.02 * days + 0.3 * emergency
    readmitted = rng.random(rows) < 1 / (1 + np.exp(-risk))
    creatinine, tested = _creatinine(age, sex, diagnosis, severity, rng)
    admitted = _admissions(diagnosis, emergency, rng)

    return pa.table(
        {
            "stay_id": pa.array([f"STAY-{number:06d}" for number in range(1, rows + 1)], pa.string()),
            "admitted": pa.array(admitted, pa.date32()),
            "discharged": pa.array(admitted + days, pa.date32()),
            "age": pa.array(age, pa.int64()),
            "sex": _words(SEXES, sex),
            "region": _words(tuple(REGIONS), region),
            "emergency": pa.array(emergency),
            "diagnosis": _words(tuple(d.code for d in DIAGNOSES), diagnosis),
            "severity": _words(SEVERITIES, severity),
            "ward": _words(tuple(WARDS), ward),
            "length_of_stay": pa.array(days, pa.int64()),
            "insurance": _words(INSURANCES, insurance, insured),
            "cost": pa.array(cost, pa.float64()),
            "creatinine": pa.array(creatinine, pa.float64(), mask=~tested),
            "readmitted": pa.array(readmitted),
        }
    )


def _words(words: tuple[str, ...], codes: Ints, known: NDArray[np.bool_] | None = None) -> pa.Array:
    import pyarrow as pa

    return pa.array(np.array(words, object)[codes], pa.string(), mask=None if known is None else ~known)


def _usual(fact: str, diagnosis: Ints) -> Floats:
    return np.array([getattr(d, fact) for d in DIAGNOSES], float)[diagnosis]


def _ages(rows: int, rng: np.random.Generator) -> Ints:
    # Newborns and toddlers, young adults, and a large group of the old.
    group = rng.choice(3, rows, p=[0.08, 0.34, 0.58])
    centre, spread = np.array([2.0, 34.0, 69.0])[group], np.array([3.5, 13.0, 13.0])[group]
    return np.clip(np.rint(np.abs(rng.normal(centre, spread))), 0, OLDEST).astype(np.int64)


def _diagnoses(age: Ints, sex: Ints, rng: np.random.Generator) -> Ints:
    centre, spread, rate, female = (
        np.array([getattr(d, fact) for d in DIAGNOSES]) for fact in ("age", "spread", "rate", "female")
    )
    by_age = np.exp(-0.5 * ((age[:, None] - centre) / spread) ** 2) / np.sqrt(spread) + 1e-4
    by_sex = np.stack([female, 1 - female, np.full(len(DIAGNOSES), 0.5)])[sex]
    # Weight plus Gumbel noise: the largest is a draw in proportion to the weights.
    with np.errstate(divide="ignore"):
        chance = np.log(rate * by_age * by_sex)
    drawn: Ints = np.argmax(chance + rng.gumbel(size=chance.shape), axis=1)
    return drawn


def _severities(age: Ints, diagnosis: Ints, rng: np.random.Generator) -> Ints:
    gravity = _usual("gravity", diagnosis) + 0.012 * (age - 55) + rng.normal(0, 0.9, age.size)
    return np.searchsorted(np.array([0.1, 1.1, 2.2]), gravity).astype(np.int64)


def _wards(age: Ints, diagnosis: Ints, severity: Ints, rng: np.random.Generator) -> Ints:
    names = list(WARDS)
    ward = np.array([names.index(d.ward) for d in DIAGNOSES])[diagnosis]
    full = rng.random(age.size) < 0.06
    ward = np.where(full, rng.choice([names.index("internal medicine"), names.index("surgery")], age.size), ward)
    ward = np.where((age < 16) & (rng.random(age.size) < 0.93), names.index("paediatrics"), ward)
    grave = rng.random(age.size) < np.array([0.0, 0.01, 0.07, 0.42])[severity]
    placed: Ints = np.where(grave, names.index("intensive care"), ward)
    return placed


def _days(diagnosis: Ints, severity: Ints, emergency: NDArray[np.bool_], rng: np.random.Generator) -> Ints:
    usual = _usual("days", diagnosis) * np.array([0.6, 1.0, 1.5, 2.4])[severity] * np.where(emergency, 1.1, 0.95)
    days: Ints = np.minimum(np.rint(usual * rng.gamma(2.5, 1 / 2.5, usual.size)), LONGEST_STAY).astype(np.int64)
    return days


def _insurances(
    age: Ints, region: Ints, emergency: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Ints, NDArray[np.bool_]]:
    wealthy = np.isin(region, [list(REGIONS).index("Selvedge Coast"), list(REGIONS).index("Shuttle Bay")])
    chance = np.stack(
        [
            np.full(age.size, 0.20),
            np.where(age >= 65, 0.95, 0.55),
            np.where(wealthy, 0.38, 0.13) * np.where(age >= 65, 0.8, 1.0),
            np.where(age >= 65, 0.01, 0.05),
        ],
        axis=1,
    )
    known = rng.random(age.size) >= np.where(emergency, 0.09, 0.03)
    return np.argmax(np.log(chance) + rng.gumbel(size=chance.shape), axis=1), known


def _costs(ward: Ints, days: Ints, severity: Ints, insurance: Ints, rng: np.random.Generator) -> Floats:
    day = np.array(list(WARDS.values()))[ward]
    cost = day * (days + 1.2) * np.array([0.85, 1.0, 1.2, 1.5])[severity] * rng.lognormal(0, 0.25, ward.size)
    # Nothing is billed for stays that a charity or a trial pays for: most often those without known insurance.
    free = rng.random(ward.size) < np.where(insurance < 0, 0.35, 0.06)
    return np.where(free, 0.0, np.round(np.minimum(cost, HIGHEST_COST), 2))


def _creatinine(
    age: Ints, sex: Ints, diagnosis: Ints, severity: Ints, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    codes = [d.code for d in DIAGNOSES]
    kidney = np.isin(diagnosis, [codes.index("N17"), codes.index("N18")])
    usual = np.where(sex == 1, 0.98, 0.80) * (0.75 + 0.005 * age) * np.where(kidney, 3.0, 1.0) * (1 + 0.08 * severity)
    value = np.clip(np.round(usual * rng.lognormal(0, 0.22, age.size), 2), 0.1, 12.0)
    seldom = np.isin(diagnosis, [codes.index(code) for code in ("O80", "O82", "H25", "F32", "J21", "K40")])
    return value, rng.random(age.size) >= np.where(seldom, 0.75, np.where(severity == 0, 0.30, 0.08))


def _admissions(diagnosis: Ints, emergency: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.datetime64]:
    start = np.datetime64(f"{YEAR}-01-01")
    days = np.arange(start, np.datetime64(f"{YEAR + 1}-01-01"))
    of_year = np.arange(days.size)
    winter = 1 + 0.55 * np.cos(2 * np.pi * (of_year - 20) / days.size)
    weekday = np.where(np.is_busday(days), 1.0, 0.08)
    chest = np.isin(diagnosis, [i for i, d in enumerate(DIAGNOSES) if d.code.startswith("J")])
    seasonal = [np.where(cold, winter, 1.0) * np.where(urgent, 1.0, weekday) for cold in (0, 1) for urgent in (0, 1)]
    kind = 2 * chest + emergency
    day = np.zeros(diagnosis.size, np.int64)
    for i, weight in enumerate(seasonal):
        day[kind == i] = rng.choice(of_year, np.count_nonzero(kind == i), p=weight / weight.sum())
    return days[day]
