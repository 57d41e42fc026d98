"""A fictional hospital: public schema and randomly generated rows, based on typical values for each diagnosis."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


YEAR = 2024
MAX_STAY = 60
MAX_COST = 100_000.0
MAX_AGE = 104

SEXES = ("female", "male", "other")
SEVERITIES = ("minor", "moderate", "major", "extreme")
INSURANCES = ("mutual", "national", "private", "self-pay")
_FACTS = tomllib.loads((files("weft") / "hospital.toml").read_text(encoding="utf-8"))
REGIONS: dict[str, float] = _FACTS["regions"]
"""Regions of residence, with their shares of patients."""
WARDS: dict[str, float] = _FACTS["wards"]
"""Wards, with their cost per day."""


class Diagnosis(NamedTuple):
    """Typical values for a diagnosis."""

    code: str
    meaning: str
    ward: str
    rate: float
    age: float
    spread: float
    female: float
    gravity: float
    emergency: float
    days: float


DIAGNOSES = tuple(Diagnosis(*row) for row in _FACTS["diagnoses"]["rows"])
"""The forty diagnoses of the hospital, by ICD-10 code."""


def hospital_schema() -> str:
    """Return the schema of the hospital's table as TOML: public knowledge only, nothing read from rows."""
    months = [*(f"{YEAR}-{month:02d}-01" for month in range(1, 13)), f"{YEAR}-12-31"]
    return (
        (files("weft") / "hospital.schema.toml")
        .read_text(encoding="utf-8")
        .format(
            months=_quote_words(months),
            sexes=_quote_words(SEXES),
            regions=_quote_words(REGIONS),
            diagnoses="".join(f'    "{d.code}",  # {d.meaning}\n' for d in DIAGNOSES),
            severities=_quote_words(SEVERITIES),
            wards=_quote_words(WARDS),
            insurances=_quote_words(INSURANCES),
            longest=MAX_STAY,
            highest=MAX_COST,
        )
    )


def hospital_database_schema() -> str:
    """Return the schema of the related tables of `hospital_database` as TOML."""
    return (files("weft") / "hospital-database.toml").read_text(encoding="utf-8")


def _quote_words(words: Iterable[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROWS = 20_000

SEED = 1884


def hospital(rows: int = ROWS, seed: int = SEED) -> pa.Table:
    """Generate a fictional table of hospital stays; the same rows and seed give the same table."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    age = _draw_ages(rows, rng)
    sex = rng.choice(3, rows, p=[0.53, 0.46, 0.01])
    diagnosis = _draw_diagnoses(age, sex, rng)
    severity = _draw_severities(age, diagnosis, rng)
    emergency = rng.random(rows) < np.clip(
        _look_up_diagnosis_fact("emergency", diagnosis) + 0.06 * (severity - 1.5), 0.005, 0.995
    )
    region = rng.choice(len(REGIONS), rows, p=list(REGIONS.values()))
    ward = _draw_wards(age, diagnosis, severity, rng)
    days = _draw_days(diagnosis, severity, emergency, rng)
    insurance, insured = _draw_insurances(age, region, emergency, rng)
    cost = _draw_costs(ward, days, severity, np.where(insured, insurance, -1), rng)
    risk = -3.6 + 0.65 * severity + 0.018 * (age - 50) + 0.02 * days + 0.3 * emergency
    readmitted = rng.random(rows) < 1 / (1 + np.exp(-risk))
    creatinine, tested = _draw_creatinine(age, sex, diagnosis, severity, rng)
    admitted = _draw_admissions(diagnosis, emergency, rng)

    return pa.table(
        {
            "stay_id": pa.array([f"STAY-{number:06d}" for number in range(1, rows + 1)], pa.string()),
            "admitted": pa.array(admitted, pa.date32()),
            "discharged": pa.array(admitted + days, pa.date32()),
            "age": pa.array(age, pa.int64()),
            "sex": _decode_words(SEXES, sex),
            "region": _decode_words(tuple(REGIONS), region),
            "emergency": pa.array(emergency),
            "diagnosis": _decode_words(tuple(d.code for d in DIAGNOSES), diagnosis),
            "severity": _decode_words(SEVERITIES, severity),
            "ward": _decode_words(tuple(WARDS), ward),
            "length_of_stay": pa.array(days, pa.int64()),
            "insurance": _decode_words(INSURANCES, insurance, insured),
            "cost": pa.array(cost, pa.float64()),
            "creatinine": pa.array(creatinine, pa.float64(), mask=~tested),
            "readmitted": pa.array(readmitted),
        }
    )


def hospital_database(patients: int = 6_000, seed: int = SEED) -> dict[str, pa.Table]:
    """Generate three related tables (`hospital-database.toml`): patients, their stays, and the drugs of each stay."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    sex, age = rng.choice(2, patients, p=[0.54, 0.46]), _draw_ages(patients, rng)
    owner = np.repeat(np.arange(patients), np.minimum(rng.poisson(0.6 + age / 60), 5))
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    begin = np.datetime64("2023-01-01") + rng.integers(0, 365, patients)
    usual = np.where(age > 75, 1, np.where((sex == 0) & (age > 18) & (age < 45), 2, rng.choice([0, 3], patients)))
    ward = np.where(rng.random(len(owner)) < 0.7, usual[owner], rng.integers(0, 4, len(owner)))
    nights = np.minimum(rng.poisson(np.array([5, 11, 3, 6])[ward] + age[owner] / 30), 60)
    stay = np.repeat(np.arange(len(owner)), rng.integers(0, 5, len(owner)))
    usually = np.array([2, 0, 3, 3])[ward[stay]]
    drug = np.where(rng.random(len(stay)) < 0.6, usually, rng.integers(0, 4, len(stay)))
    wards, drugs = (
        ("cardiology", "geriatrics", "maternity", "surgery"),
        ("antibiotic", "anticoagulant", "beta blocker", "painkiller"),
    )
    keys = np.array([f"P{i:05d}" for i in range(patients)]), np.array([f"S{i:06d}" for i in range(len(owner))])
    admitted = begin[owner] + rank * 150 + rng.integers(0, 90, len(owner))
    return {
        "patients": pa.table({"patient": keys[0], "sex": _decode_words(SEXES, sex), "born": 2024 - age}),
        "stays": pa.table(
            {"stay": keys[1], "patient": keys[0][owner], "admitted": pa.array(admitted, pa.date32()),
             "ward": _decode_words(wards, ward), "nights": nights}
        ),
        "drugs": pa.table(
            {"stay": keys[1][stay], "drug": _decode_words(drugs, drug), "days": rng.integers(1, 15, len(stay))}
        ),
    }  # fmt: skip


def _decode_words(words: tuple[str, ...], codes: Ints, known: NDArray[np.bool_] | None = None) -> pa.Array:
    import pyarrow as pa

    return pa.array(np.array(words, object)[codes], pa.string(), mask=None if known is None else ~known)


def _look_up_diagnosis_fact(fact: str, diagnosis: Ints) -> Floats:
    return np.array([getattr(d, fact) for d in DIAGNOSES], float)[diagnosis]


def _draw_ages(rows: int, rng: np.random.Generator) -> Ints:
    # Young children, young adults, and a large group of older adults.
    group = rng.choice(3, rows, p=[0.08, 0.34, 0.58])
    centre, spread = np.array([2.0, 34.0, 69.0])[group], np.array([3.5, 13.0, 13.0])[group]
    return np.clip(np.rint(np.abs(rng.normal(centre, spread))), 0, MAX_AGE).astype(np.int64)


def _draw_diagnoses(age: Ints, sex: Ints, rng: np.random.Generator) -> Ints:
    centre, spread, rate, female = (
        np.array([getattr(d, fact) for d in DIAGNOSES]) for fact in ("age", "spread", "rate", "female")
    )
    by_age = np.exp(-0.5 * ((age[:, None] - centre) / spread) ** 2) / np.sqrt(spread) + 1e-4
    by_sex = np.stack([female, 1 - female, np.full(len(DIAGNOSES), 0.5)])[sex]
    # Gumbel-max trick: the largest log-weight plus Gumbel noise is a draw in proportion to the weights.
    with np.errstate(divide="ignore"):
        chance = np.log(rate * by_age * by_sex)
    drawn: Ints = np.argmax(chance + rng.gumbel(size=chance.shape), axis=1)
    return drawn


def _draw_severities(age: Ints, diagnosis: Ints, rng: np.random.Generator) -> Ints:
    gravity = _look_up_diagnosis_fact("gravity", diagnosis) + 0.012 * (age - 55) + rng.normal(0, 0.9, age.size)
    return np.searchsorted(np.array([0.1, 1.1, 2.2]), gravity).astype(np.int64)


def _draw_wards(age: Ints, diagnosis: Ints, severity: Ints, rng: np.random.Generator) -> Ints:
    names = list(WARDS)
    ward = np.array([names.index(d.ward) for d in DIAGNOSES])[diagnosis]
    full = rng.random(age.size) < 0.06
    ward = np.where(full, rng.choice([names.index("internal medicine"), names.index("surgery")], age.size), ward)
    ward = np.where((age < 16) & (rng.random(age.size) < 0.93), names.index("paediatrics"), ward)
    grave = rng.random(age.size) < np.array([0.0, 0.01, 0.07, 0.42])[severity]
    placed: Ints = np.where(grave, names.index("intensive care"), ward)
    return placed


def _draw_days(diagnosis: Ints, severity: Ints, emergency: NDArray[np.bool_], rng: np.random.Generator) -> Ints:
    usual = (
        _look_up_diagnosis_fact("days", diagnosis)
        * np.array([0.6, 1.0, 1.5, 2.4])[severity]
        * np.where(emergency, 1.1, 0.95)
    )
    days: Ints = np.minimum(np.rint(usual * rng.gamma(2.5, 1 / 2.5, usual.size)), MAX_STAY).astype(np.int64)
    return days


def _draw_insurances(
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


def _draw_costs(ward: Ints, days: Ints, severity: Ints, insurance: Ints, rng: np.random.Generator) -> Floats:
    day = np.array(list(WARDS.values()))[ward]
    cost = day * (days + 1.2) * np.array([0.85, 1.0, 1.2, 1.5])[severity] * rng.lognormal(0, 0.25, ward.size)
    # Stays paid by a charity or a trial are not billed, most often those without known insurance.
    free = rng.random(ward.size) < np.where(insurance < 0, 0.35, 0.06)
    return np.where(free, 0.0, np.round(np.minimum(cost, MAX_COST), 2))


def _draw_creatinine(
    age: Ints, sex: Ints, diagnosis: Ints, severity: Ints, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    codes = [d.code for d in DIAGNOSES]
    kidney = np.isin(diagnosis, [codes.index("N17"), codes.index("N18")])
    usual = np.where(sex == 1, 0.98, 0.80) * (0.75 + 0.005 * age) * np.where(kidney, 3.0, 1.0) * (1 + 0.08 * severity)
    value = np.clip(np.round(usual * rng.lognormal(0, 0.22, age.size), 2), 0.1, 12.0)
    seldom = np.isin(diagnosis, [codes.index(code) for code in ("O80", "O82", "H25", "F32", "J21", "K40")])
    return value, rng.random(age.size) >= np.where(seldom, 0.75, np.where(severity == 0, 0.30, 0.08))


def _draw_admissions(diagnosis: Ints, emergency: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.datetime64]:
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
