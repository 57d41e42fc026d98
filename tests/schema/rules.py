"""A schema with one of each rule, and tables for it."""

from __future__ import annotations

import numpy as np

from weft.marginals.records import Records

SCHEMA = """
groups = [["shift", "floor"]]

[columns.key]
kind = "id"
pattern = "P{:06d}"

[columns.canceled]
kind = "category"
values = [0, 1]

[columns.status]
kind = "category"
values = ["out", "canceled", "no show"]

[columns.sex]
kind = "category"
values = ["f", "m"]

[columns.pregnant]
kind = "boolean"
missing = true

[columns.city]
kind = "category"
values = ["Ulm", "Bonn", "Graz"]
missing = true

[columns.land]
kind = "category"
values = ["DE", "AT"]
missing = true

[columns.age]
kind = "integer"
range = [0, 99]

[columns.income]
kind = "real"
range = [0.0, 9999.0]
decimals = 2
missing = true

[columns.tax]
kind = "real"
range = [0.0, 5000.0]
decimals = 2
missing = true

[columns.arrival]
kind = "datetime"
range = ["2020-01-01", "2021-12-31"]

[columns.departure]
kind = "datetime"
range = ["2020-02-01", "2022-01-31"]

[columns.adults]
kind = "integer"
range = [0, 40]

[columns.children]
kind = "integer"
range = [0, 40]

[columns.guests]
kind = "integer"
range = [0, 80]

[columns.size]
kind = "category"
values = ["s", "m", "l"]

[columns.colour]
kind = "category"
values = ["red", "blue"]

[columns.shift]
kind = "category"
values = ["day", "night"]

[columns.floor]
kind = "integer"
range = [0, 4]

[columns.room]
kind = "integer"
range = [1, 100000]

[[rules]]
when = {canceled = 0}
then = {status = "out"}

[[rules]]
when = {canceled = 1}
then = {status = {not = ["out"]}}

[[rules]]
forbid = [{sex = "m", pregnant = true}]

[[rules]]
of = "city"
gives = "land"
map = {Ulm = "DE", Bonn = "DE", Graz = "AT"}

[[rules]]
missing = ["income"]
when = {age = {max = 14}}

[[rules]]
missing_together = ["income", "tax"]

[[rules]]
order = ["arrival", "departure"]
strict = true

[[rules]]
sum = ["adults", "children"]
is = "guests"

[[rules]]
columns = ["size", "colour"]
allowed = [["s", "red"], ["m", "red"], ["m", "blue"], ["l", "blue"]]

[[rules]]
when = {age = {max = 17}, sex = ["f", "m"]}
then = {adults = {max = 0}}

[[rules]]
unique = ["arrival", "room"]
"""


def drawn(domain, n, seed=0):
    """Records of codes that know of no rule; the last code, that of missing, is frequent."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, n) for size in domain.shape]
    last = [rng.random(n) < 0.2 for _ in domain.shape]
    sizes = domain.shape
    return Records.of(domain, [np.where(at, d - 1, c) for at, d, c in zip(last, sizes, codes, strict=True)])


def expected_faults(table) -> dict[int, int]:
    """Count, row by row and without the library, the rows that break each rule of SCHEMA."""
    rows = table.to_pylist()
    land = {"Ulm": "DE", "Bonn": "DE", "Graz": "AT", None: None}
    pairs = {("s", "red"), ("m", "red"), ("m", "blue"), ("l", "blue")}
    faults = {
        1: sum(r["canceled"] == 0 and r["status"] != "out" for r in rows),
        2: sum(r["canceled"] == 1 and r["status"] == "out" for r in rows),
        3: sum(r["sex"] == "m" and r["pregnant"] is True for r in rows),
        4: sum(r["land"] != land[r["city"]] for r in rows),
        5: sum(r["age"] <= 14 and r["income"] is not None for r in rows),
        6: sum((r["income"] is None) != (r["tax"] is None) for r in rows),
        7: sum(r["arrival"] >= r["departure"] for r in rows),
        8: sum(r["adults"] + r["children"] != r["guests"] for r in rows),
        9: sum((r["size"], r["colour"]) not in pairs for r in rows),
        10: sum(r["age"] <= 17 and r["adults"] > 0 for r in rows),
    }
    return faults | {11: len(rows) - len({(r["arrival"], r["room"]) for r in rows})}


def numbers_broken(found: dict[str, int]) -> dict[int, int]:
    return {int(name.split(":")[0].removeprefix("rule ")): number for name, number in found.items()}
