"""Related tables: how well families are kept, on three public databases (`weft bench related`)."""

from __future__ import annotations

import itertools
import math
import os
import resource
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

import weft
from weft.errors import SourceError
from weft.marginals.records import sibling_pairs
from weft.schema.database import Database
from weft_lab.sheet import Sheet

Codes = dict[str, NDArray[np.int64]]

CAP = 8  # persons of a household that are compared
PERSONS = ("AGEP", "SCHL", "WAGP", "SEX", "RAC1P", "MAR", "ESR", "CIT", "MIG", "HICOV", "RELP", "DIS")
WAGES = [-2, -0.5, 0.5, 10e3, 25e3, 50e3, 100e3, 1e9]
POVERTY = [-2, -0.5, 99, 199, 299, 399, 1e9]


def category(values: pd.Series) -> dict[str, Any]:
    """Describe a column by its values: these tables are public."""
    made: dict[str, Any] = {"kind": "category", "values": sorted(values.dropna().unique().tolist())}
    return made | ({"missing": True} if values.isna().any() else {})


def number(low: float, high: float, kind: str = "integer", **more: Any) -> dict[str, Any]:
    """Describe a numeric column by a range."""
    return {"kind": kind, "range": [low, high], "outside": "clip", "missing": True, **more}


def describe_acs(tables: Mapping[str, pd.DataFrame]) -> Database:
    """Return the schema of ACS households and persons, with two family rules."""
    houses, persons = tables["households"], tables["persons"]
    codes = [name for name in persons if name not in ("SERIALNO", "SPORDER", "AGEP", "WKHP", "WAGP", "PINCP")]
    numbers = {"AGEP": (0, 99), "WKHP": (0, 99), "WAGP": (0, 600_000), "PINCP": (-20_000, 1_000_000)}
    columns = {name: category(persons[name]) for name in codes}
    columns |= {name: number(*ends) for name, ends in numbers.items()}
    columns["SPORDER"] = {"kind": "integer", "range": [1, 20]}
    return Database.from_dict(
        {
            "root": "households",
            "tables": {
                "households": {
                    "key": "SERIALNO",
                    "columns": {name: category(houses[name]) for name in ("ST", "PUMA")} | {"POVPIP": number(0, 501)},
                },
                "persons": {
                    "foreign_keys": {"SERIALNO": "households.SERIALNO"},
                    "max_children": CAP,
                    "columns": columns,
                },
            },
            "family_rules": [
                {"exactly_one": "persons", "where": {"RELP": "00"}},
                {"at_most_one": "persons", "where": {"RELP": "01"}},
                {"number": "persons.SPORDER"},
            ],
        }
    )


def describe_travel(tables: Mapping[str, pd.DataFrame]) -> Database:
    """Return the schema of the travel survey, whose household columns are functions of the persons."""
    houses, persons = tables["households"], tables["persons"]
    plain = {name: category(houses[name]) for name in ("HHIncome", "HHDwelling", "HHSize", "HHChildren")}
    columns = {name: category(persons[name]) for name in ("PAge", "PGender", "PEmp", "POcc", "PComm")}
    columns |= {"personID": {"kind": "id"}, "per_num": {"kind": "integer", "range": [1, 10]}}
    return Database.from_dict(
        {
            "root": "households",
            "tables": {
                "households": {"key": "hhID", "columns": plain | {"SUBREG": category(houses["SUBREG"])}},
                "persons": {"foreign_keys": {"hhID": "households.hhID"}, "max_children": 8, "columns": columns},
            },
            "family_rules": [
                {"number": "persons.per_num"},
                {"count": "persons", "column": "HHSize", "max": 4},
                {"any": "persons", "column": "HHChildren", "where": {"PAge": [1, 2, 3]}, "values": [0, 1]},
            ],
        }
    )


def describe_berka(tables: Mapping[str, pd.DataFrame]) -> Database:
    """Return the schema of a bank: four child tables on two levels, and a public table of districts."""
    day = {"kind": "datetime", "range": ["2013-01-01", "2018-12-31"], "outside": "clip"}
    order, loan = tables["order"], tables["loan"]
    district = {name: {"kind": "id"} for name in tables["district"] if name != "district_id"}
    return Database.from_dict(
        {
            "root": "account",
            "tables": {
                "account": {
                    "key": "account_id",
                    "foreign_keys": {"district_id": "district.district_id"},
                    "columns": {"created": day, "frequency": category(tables["account"]["frequency"])},
                },
                "disp": {
                    "key": "disp_id",
                    "foreign_keys": {"account_id": "account.account_id"},
                    "max_children": 2,
                    "columns": {"type": category(tables["disp"]["type"]), "client_id": {"kind": "id"}},
                },
                "card": {
                    "key": "card_id",
                    "foreign_keys": {"disp_id": "disp.disp_id"},
                    "max_children": 1,
                    "columns": {"type": category(tables["card"]["type"]), "issued": day},
                },
                "order": {
                    "key": "order_id",
                    "foreign_keys": {"account_id": "account.account_id"},
                    "max_children": 5,
                    "columns": {
                        "bank_to": category(order["bank_to"]),
                        "account_to": {"kind": "id"},
                        "amount": number(0, 15_000, "real", decimals=2),
                        "category": category(order["category"]),
                    },
                },
                "loan": {
                    "key": "loan_id",
                    "foreign_keys": {"account_id": "account.account_id"},
                    "max_children": 1,
                    "columns": {
                        "granted": day,
                        "amount": number(0, 60_000, "real", decimals=1),
                        "months": category(loan["months"]),
                        "payment": number(0, 1_000, "real", decimals=1),
                        "status": category(loan["status"]),
                    },
                },
                "district": {"key": "district_id", "public": True, "columns": district},
            },
            "family_rules": [{"exactly_one": "disp", "where": {"type": "O"}}],
        }
    )


def code_persons(persons: pd.DataFrame) -> Codes:
    """Return twelve person columns as codes, numbers in classes, as in the published comparison."""
    made: Codes = {}
    for name in PERSONS:
        column = persons[name]
        if name == "AGEP":
            codes = (column.fillna(0).astype(int) // 10).to_numpy()
        elif name == "WAGP":
            codes = pd.cut(column.fillna(-1).astype(float), WAGES, labels=False).to_numpy()
        elif name == "SCHL":
            codes = pd.cut(column.fillna("0").astype(int), [-1, 0, 15, 17, 20, 30], labels=False).to_numpy()
        else:
            codes = column.fillna("-").astype(str).str.strip().map(_number_texts(name)).to_numpy()
        made[name] = np.asarray(codes, np.int64)
    return made


def _number_texts(name: str) -> dict[str, int]:
    texts = [f"{i:02d}" for i in range(30)] if name == "RELP" else [str(i) for i in range(30)]
    return {"-": 0} | {text: i + 1 for i, text in enumerate(texts)}


def count_pairs(first: NDArray[Any], second: NDArray[Any], weights: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Return a table of two coded columns as shares."""
    cells = np.bincount(first * 1000 + second, weights, minlength=60 * 1000).astype(np.float64)
    return np.asarray(cells / max(cells.sum(), 1e-12))


def compare_shares(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the total variation distance of two tables of shares."""
    return float(np.abs(first - second).sum() / 2)


class Households:
    """Households and persons as codes: tables of siblings, of parents and children, and within persons."""

    def __init__(self, houses: pd.DataFrame, persons: pd.DataFrame) -> None:
        persons = persons[persons.groupby("SERIALNO").cumcount() < CAP]
        persons = persons.sort_values("SERIALNO", kind="stable").reset_index(drop=True)
        self.codes = code_persons(persons)
        sizes = persons.groupby("SERIALNO", sort=False).size().to_numpy()
        self._sizes = sizes
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.roles = persons["RELP"].astype(str).to_numpy()
        above = houses.set_index("SERIALNO").loc[persons["SERIALNO"]]
        states = {text: i for i, text in enumerate(["30", "32", "35", "38", "46", "49", "56", "16", "08", "04"])}
        poverty = pd.cut(above["POVPIP"].fillna(-1).astype(float), POVERTY, labels=False)
        self.heads = {"ST": above["ST"].map(states).fillna(11).to_numpy(np.int64), "POVPIP": poverty.to_numpy(np.int64)}

    def siblings(self) -> dict[tuple[str, str], NDArray[np.float64]]:
        """Return the 78 tables of two members of a household, every household weighing 1."""
        first, second = sibling_pairs(self.starts)
        size = np.repeat(self._sizes, self._sizes)[first]
        weights = 1.0 / (size * (size - 1))
        return {
            (a, b): count_pairs(self.codes[a][first], self.codes[b][second], weights)
            for a, b in itertools.combinations_with_replacement(PERSONS, 2)
        }

    def links(self) -> dict[tuple[str, str], NDArray[np.float64]]:
        """Return the tables of household and person columns, every household weighing 1."""
        weights = 1.0 / np.repeat(self._sizes, self._sizes)
        return {(a, b): count_pairs(self.heads[a], self.codes[b], weights) for a in self.heads for b in PERSONS}

    def pairs(self) -> dict[tuple[str, str], NDArray[np.float64]]:
        """Return the two-way tables of persons, every person weighing 1."""
        return {(a, b): count_pairs(self.codes[a], self.codes[b]) for a, b in itertools.combinations(PERSONS, 2)}

    def triples(self) -> dict[tuple[str, ...], NDArray[np.float64]]:
        """Return forty three-way tables of persons."""
        chosen = list(itertools.combinations(PERSONS, 3))[::6][:40]
        return {(a, b, c): count_pairs(self.codes[a], self.codes[b] * 30 + self.codes[c]) for a, b, c in chosen}

    def impossible(self) -> float:
        """Return the share of households without exactly one reference person, or with two spouses."""
        family = np.repeat(np.arange(len(self._sizes)), self._sizes)
        heads = np.bincount(family, self.roles == "00", len(self._sizes))
        spouses = np.bincount(family, self.roles == "01", len(self._sizes))
        return float(((heads != 1) | (spouses > 1)).mean())


def mean_distance(first: Mapping[Any, NDArray[Any]], second: Mapping[Any, NDArray[Any]]) -> float:
    """Return the mean total variation distance over tables."""
    return float(np.mean([compare_shares(first[key], second[key]) for key in first]))


def measure_directly(real: Households, epsilon: float, part: float, seed: int) -> float:
    """Return the mean distance of tables of parents and children measured directly with unit mass and no model."""
    from weft.privacy import Budget

    tables = real.links()
    rho = Budget(epsilon=epsilon, delta=1e-5).capacity("gaussian") * part / len(tables)
    rng, n, found = np.random.default_rng(seed), len(real.starts) - 1, []
    for table in tables.values():
        used = np.flatnonzero(table > 0)  # cells that occur: fewer than a release would have to measure
        noisy = np.maximum(table[used] * n + rng.normal(0, 1 / math.sqrt(2 * rho), len(used)), 0)
        found.append(compare_shares(noisy / noisy.sum(), table[used]))
    return float(np.mean(found))


def broken_keys(tables: Mapping[str, pd.DataFrame], database: Database) -> int:
    """Return the number of repeated keys, of rows without a parent, and of families above their bound."""
    broken = 0
    for table in database.tables:
        rows = tables[table.name]
        if table.key is not None:
            broken += int(rows[table.key].duplicated().sum())
        for link in table.links:
            keys = tables[link.table][link.key].astype(str)
            known = rows[link.column].isna() | rows[link.column].astype(str).isin(keys)
            broken += int((~known).sum())
        if table.parent is not None:
            broken += int((rows.groupby(table.link.column).size() > table.max_children).sum())
    return broken


TARGETS = {
    "siblings: mean TVD of 78 tables": "0.015 (random assignment: 0.100)",
    "households with impossible roles": "0 (before: 0.61)",
    "parent-child: mean TVD of 24 tables": "that of measuring directly",
    "persons: 2-way TVD, ratio to weave on persons alone": "1.35",
    "persons: 3-way TVD, ratio to weave on persons alone": "1.35",
    "broken keys, orphans and bounds": "0",
    "broken family rules": "0",
    "seconds": "60",
    "GiB": "2",
}
"""Targets of issue 33 at epsilon 1."""


def related_sheets(folder: str | None, epsilon: float, seeds: int) -> Iterator[Sheet]:
    """Release each database and compare; the mean over runs of every figure, beside its target."""
    place = Path(folder or os.environ.get("WEFT_DATA", "."))
    if not any((place / name).is_dir() for name in ("acs_households", "travel_survey", "berka")):
        raise SourceError(f"{place}: no folder acs_households, travel_survey or berka; name theirs with --data-folder")
    found: dict[tuple[str, str], list[float]] = {}
    for seed in range(1, seeds + 1):
        for name, figure, value in run_related(place, epsilon, seed):
            found.setdefault((name, figure), []).append(value)
    for name in dict.fromkeys(name for name, _ in found):
        rows = [
            [figure, f"{np.mean(values):.4g}", TARGETS.get(figure, "")]
            for (database, figure), values in found.items()
            if database == name
        ]
        yield Sheet(f"{name}, epsilon {epsilon:g}, {seeds} runs", ["figure", "value", "target"], rows)


def run_related(folder: Path, epsilon: float, seed: int) -> Iterator[tuple[str, str, float]]:
    """Release the three databases and yield (database, figure, value)."""
    describe = {"acs_households": describe_acs, "travel_survey": describe_travel, "berka": describe_berka}
    for name, make in describe.items():
        if not (folder / name).is_dir():
            continue
        tables = {path.stem: pd.read_parquet(path) for path in sorted((folder / name).glob("*.parquet"))}
        schema = make(tables)
        given = {key: value for key, value in tables.items() if key in schema}
        begin = time.perf_counter()
        synthesizer = weft.Synthesizer(epsilon=epsilon, delta=1e-5, journal=None, seed=seed)
        made = synthesizer.fit(given, schema).sample(seed=seed)
        yield name, "seconds", time.perf_counter() - begin
        yield name, "GiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        yield name, "broken keys, orphans and bounds", broken_keys(made, schema)
        yield name, "broken family rules", sum(weft_check(schema, made).values())
        if name == "acs_households":
            yield from ((name, *line) for line in compare_households(tables, made, epsilon, seed))


def weft_check(schema: Database, made: Mapping[str, pd.DataFrame]) -> dict[str, int]:
    """Return the number of broken families by rule."""
    import pyarrow as pa

    from weft.release.database_release import count_broken_families

    tables = {name: pa.Table.from_pandas(frame, preserve_index=False) for name, frame in made.items()}
    return count_broken_families(schema, tables)


def compare_households(
    tables: Mapping[str, pd.DataFrame], made: Mapping[str, pd.DataFrame], epsilon: float, seed: int
) -> Iterator[tuple[str, float]]:
    """Compare real and synthetic households; `alone` is weave on the persons, with the household as unit."""
    real, new = (Households(each["households"], each["persons"]) for each in (tables, made))
    yield "siblings: mean TVD of 78 tables", mean_distance(real.siblings(), new.siblings())
    yield "households with impossible roles", new.impossible()
    yield "parent-child: mean TVD of 24 tables", mean_distance(real.links(), new.links())
    yield "parent-child: measured directly, half the budget", measure_directly(real, epsilon, 0.5, seed)
    two, three = mean_distance(real.pairs(), new.pairs()), mean_distance(real.triples(), new.triples())
    yield "persons: 2-way TVD", two
    yield "persons: 3-way TVD", three
    schema = describe_acs(tables)
    document = schema.table("persons").schema.to_dict() | {"unit": "SERIALNO", "rows_per_unit": CAP}
    alone = weft.Synthesizer(epsilon=epsilon, delta=1e-5, journal=None, seed=seed)
    alone.fit(tables["persons"], weft.Schema.from_dict(document))
    rows = alone.sample(seed=seed)
    houses = pd.DataFrame({"SERIALNO": rows["SERIALNO"].unique()}).assign(ST="30", PUMA="0", POVPIP=1)
    other = Households(houses, rows)
    yield "persons: 2-way TVD, ratio to weave on persons alone", two / mean_distance(real.pairs(), other.pairs())
    yield "persons: 3-way TVD, ratio to weave on persons alone", three / mean_distance(real.triples(), other.triples())
