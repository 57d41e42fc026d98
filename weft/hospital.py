"""A fictional hospital: public schema and randomly generated rows, based on typical values for each diagnosis."""

from __future__ import annotations

from collections.abc import Iterable
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
REGIONS = {
    "Bobbin Hills": 0.10,
    "Heddle Valley": 0.17,
    "Loomshire": 0.28,
    "Selvedge Coast": 0.13,
    "Shuttle Bay": 0.11,
    "Spindle Moor": 0.05,
    "Treadle": 0.07,
    "Warpdale": 0.09,
}
"""Regions of residence, with their shares of patients."""

WARDS = {
    "cardiology": 920.0,
    "intensive care": 2900.0,
    "internal medicine": 560.0,
    "maternity": 740.0,
    "neurology": 810.0,
    "oncology": 1150.0,
    "orthopaedics": 870.0,
    "paediatrics": 680.0,
    "psychiatry": 390.0,
    "respiratory": 640.0,
    "surgery": 990.0,
}
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


DIAGNOSES = tuple(
    Diagnosis(*row)
    for row in (
        # code, meaning, ward, rate, typical age and its spread, share of women, gravity, share of emergencies, days
        ("A09", "gastroenteritis", "internal medicine", 3.0, 30, 30, 0.5, -0.6, 0.8, 2.2),
        ("A41", "sepsis", "internal medicine", 2.0, 70, 18, 0.48, 1.5, 0.95, 9.0),
        ("B34", "viral infection", "internal medicine", 2.0, 20, 25, 0.5, -0.6, 0.8, 2.0),
        ("C18", "cancer of the colon", "oncology", 1.5, 69, 11, 0.46, 0.8, 0.2, 7.5),
        ("C34", "cancer of the lung", "oncology", 1.6, 68, 10, 0.42, 1.0, 0.25, 6.5),
        ("C50", "cancer of the breast", "oncology", 1.8, 61, 12, 0.99, 0.4, 0.05, 3.5),
        ("C61", "cancer of the prostate", "oncology", 1.3, 69, 8, 0.0, 0.4, 0.05, 3.8),
        ("D50", "anaemia", "internal medicine", 1.5, 62, 22, 0.62, 0.0, 0.5, 3.0),
        ("E10", "type 1 diabetes", "internal medicine", 1.0, 28, 18, 0.47, 0.1, 0.6, 3.5),
        ("E11", "type 2 diabetes", "internal medicine", 2.4, 64, 13, 0.45, 0.2, 0.45, 4.5),
        ("F10", "alcohol dependence", "psychiatry", 1.8, 47, 13, 0.28, 0.1, 0.6, 6.0),
        ("F20", "schizophrenia", "psychiatry", 1.0, 39, 14, 0.42, 0.5, 0.55, 22.0),
        ("F32", "depression", "psychiatry", 1.7, 42, 18, 0.62, 0.1, 0.35, 18.0),
        ("G35", "multiple sclerosis", "neurology", 0.7, 42, 12, 0.72, 0.2, 0.15, 4.0),
        ("G40", "epilepsy", "neurology", 1.4, 35, 25, 0.47, 0.1, 0.8, 3.0),
        ("G45", "transient ischaemic attack", "neurology", 1.3, 71, 12, 0.49, 0.0, 0.9, 2.8),
        ("H25", "cataract", "surgery", 2.2, 74, 9, 0.57, -1.3, 0.01, 0.3),
        ("I10", "high blood pressure", "cardiology", 1.6, 66, 15, 0.58, -0.5, 0.6, 2.0),
        ("I21", "heart attack", "cardiology", 2.6, 68, 12, 0.33, 1.0, 0.96, 5.5),
        ("I25", "coronary disease", "cardiology", 2.4, 68, 10, 0.29, 0.3, 0.2, 3.2),
        ("I48", "atrial fibrillation", "cardiology", 2.5, 71, 12, 0.47, 0.0, 0.55, 2.8),
        ("I50", "heart failure", "cardiology", 3.2, 78, 10, 0.49, 0.9, 0.8, 8.0),
        ("I63", "stroke", "neurology", 2.4, 74, 12, 0.48, 1.1, 0.97, 9.5),
        ("J18", "pneumonia", "respiratory", 3.6, 66, 24, 0.46, 0.7, 0.92, 7.0),
        ("J21", "bronchiolitis", "paediatrics", 1.6, 1, 1, 0.42, 0.0, 0.95, 3.2),
        ("J44", "chronic lung disease", "respiratory", 2.8, 70, 10, 0.46, 0.7, 0.85, 7.0),
        ("J45", "asthma", "respiratory", 1.4, 22, 22, 0.52, -0.2, 0.88, 2.5),
        ("K35", "appendicitis", "surgery", 2.0, 28, 16, 0.46, 0.0, 0.95, 2.8),
        ("K40", "inguinal hernia", "surgery", 2.3, 57, 18, 0.11, -1.1, 0.06, 0.7),
        ("K80", "gallstones", "surgery", 2.6, 56, 17, 0.64, 0.0, 0.5, 3.5),
        ("M16", "hip arthrosis", "orthopaedics", 2.0, 69, 10, 0.55, -0.3, 0.02, 6.0),
        ("M17", "knee arthrosis", "orthopaedics", 2.2, 69, 9, 0.6, -0.3, 0.01, 5.8),
        ("N17", "acute kidney failure", "internal medicine", 1.2, 72, 14, 0.46, 1.2, 0.9, 8.0),
        ("N18", "chronic kidney disease", "internal medicine", 1.3, 68, 15, 0.42, 0.7, 0.35, 5.5),
        ("N39", "urinary infection", "internal medicine", 2.4, 68, 24, 0.68, 0.1, 0.85, 5.0),
        ("O80", "delivery", "maternity", 5.5, 31, 5, 1.0, -0.9, 0.55, 2.4),
        ("O82", "delivery by caesarean", "maternity", 2.3, 33, 5, 1.0, 0.1, 0.4, 4.2),
        ("S06", "head injury", "neurology", 2.0, 42, 28, 0.39, 0.3, 0.98, 2.8),
        ("S72", "broken thigh", "orthopaedics", 2.2, 80, 13, 0.69, 0.9, 0.98, 10.0),
        ("S82", "broken lower leg", "orthopaedics", 1.7, 45, 22, 0.48, 0.0, 0.9, 4.5),
    )
)
"""The forty diagnoses of the hospital, by ICD-10 code."""

_SCHEMA = """\
# Public schema of the stays table of Loomshire General, a fictional hospital.
#
# Nothing here was read from the rows: value lists come from the hospital's code books, ranges from common
# knowledge. This is required for the end-to-end guarantee. Values are grouped into bins where noise would exceed
# the counts of single values; synthetic values are drawn inside a bin.

[columns.stay_id]
kind = "id"                      # never measured: newly generated, unique by construction
pattern = "STAY-{{:06d}}"

[columns.admitted]
kind = "datetime"                # the year that the table covers, by month
edges = [{months}]

[columns.discharged]
kind = "datetime"
after = "admitted"               # the duration is measured: never negative
edges = [0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 16, 21, 31, {longest}]  # days; the longest possible stay

[columns.age]
kind = "integer"
range = [0, 109]
bins = 22                        # five years each

[columns.sex]
kind = "category"
values = [{sexes}]

[columns.region]
kind = "category"                # the hospital's districts
values = [{regions}]

[columns.emergency]
kind = "boolean"

[columns.diagnosis]
kind = "category"                # the hospital's list of main diagnoses (ICD-10)
values = [
{diagnoses}]

[columns.severity]
kind = "category"                # the four grades of the billing guide
values = [{severities}]

[columns.ward]
kind = "category"
values = [{wards}]

[columns.length_of_stay]
kind = "derived"                 # computed from both dates, never measured
formula = "discharged - admitted"
type = "int64"

[columns.insurance]
kind = "category"
values = [{insurances}]
missing = true                   # not always recorded

[columns.cost]
kind = "real"                    # the tariff ends at {highest:,.0f}
edges = [0, 500, 1000, 1500, 2000, 3000, 4000, 6000, 8000, 12000, 20000, 40000, {highest:.0f}]
special = [0]                    # nothing billed: a separate value
decimals = 2

[columns.creatinine]
kind = "real"                    # mg/dl, range of the analyser
edges = [0.1, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.7, 2.2, 3.0, 5.0, 12.0]
decimals = 2
missing = true                   # not every patient is tested

[columns.readmitted]
kind = "boolean"                 # within thirty days

[[rules]]                        # combinations that never occur in synthetic rows
forbid = [
    {{diagnosis = "O80", sex = "male"}},
    {{diagnosis = "O82", sex = "male"}},
    {{diagnosis = "C61", sex = "female"}},
]
"""


def hospital_schema() -> str:
    """Return the schema of the hospital's table as TOML: public knowledge only, nothing read from rows."""
    months = [*(f"{YEAR}-{month:02d}-01" for month in range(1, 13)), f"{YEAR}-12-31"]
    return _SCHEMA.format(
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
