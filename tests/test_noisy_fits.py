"""Fits that noise used to end after charges, or whose releases broke a stated rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import weft
from weft.errors import WeftError
from weft.privacy.ledger import Ledger
from weft.release.database_release import count_broken_families
from weft.schema.database import Database

DAY = {"kind": "datetime", "range": ["2020-01-01", "2020-12-31"]}
ROLES = {"kind": "category", "values": ["h", "q", "o"]}


@pytest.fixture
def charges(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []
    charge = Ledger.charge
    monkeypatch.setattr(Ledger, "charge", lambda ledger, cost: made.append(cost) or charge(ledger, cost))
    return made


def frames(most: int = 3, n: int = 200) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    own = np.repeat(np.arange(n), rng.integers(0, most + 1, n))
    parents = pd.DataFrame({"id": np.arange(n), "sex": rng.choice(["f", "m"], n)})
    return parents, pd.DataFrame({"a": own, "x": rng.integers(0, 5, len(own))})


def describe(above: dict, below: dict, rules: tuple = (), most: int = 3, **more: Any) -> Database:
    parents = {"key": "id", "columns": {"sex": {"kind": "category", "values": ["f", "m"]}} | above}
    columns = {"x": {"kind": "integer", "range": [0, 4]}} | below
    children = {"foreign_keys": {"a": "a.id"}, "max_children": most, "columns": columns} | more
    return Database.from_dict({"root": "a", "tables": {"a": parents, "b": children}, "family_rules": list(rules)})


def fit(tables: Any, schema: Any, epsilon: float = 1.0, **settings: Any) -> weft.Synthesizer:
    return weft.Synthesizer(epsilon=epsilon, journal=None, seed=1, noise_seed=1).fit(tables, schema, **settings)


def broken_families(
    tables: tuple[pd.DataFrame, pd.DataFrame], schema: Database, epsilon: float = 1.0
) -> dict[str, int]:
    fitted = fit(dict(zip("ab", tables, strict=True)), schema, epsilon)
    found = count_broken_families(schema, fitted.sample_tables(300, seed=1))
    return {what: count for what, count in found.items() if count}


def test_a_time_column_stays_one_where_noise_hides_its_kind():
    rng, n = np.random.default_rng(0), 60
    owner = np.repeat(np.arange(n), 3)
    table = {"person": owner, "year": 2015 + np.tile(np.arange(3), n), "sex": rng.choice(["f", "m"], n)[owner]}
    for seed in range(4):
        made = weft.Synthesizer(epsilon=1, journal=None, seed=seed, noise_seed=seed)
        assert len(made.fit(pd.DataFrame(table), unit="person", time="year").sample(20)) >= 20


def test_no_more_rows_are_made_than_keys_allow():
    rng = np.random.default_rng(0)
    rows = [(year, country, int(rng.integers(0, 9))) for year in range(2000, 2010) for country in "abcdef"]
    columns = {
        "year": {"kind": "integer", "range": [2000, 2009]},
        "country": {"kind": "category", "values": list("abcdef")},
        "x": {"kind": "integer", "range": [0, 9]},
    }
    schema = weft.Schema.from_dict({"columns": columns, "rules": [{"unique": ["year", "country"]}]})
    table, sizes = pd.DataFrame(rows, columns=list(columns)), []
    for seed in range(4):
        made = weft.Synthesizer(epsilon=1, journal=None, seed=seed, noise_seed=seed).fit(table, schema, unit=False)
        sizes.append(len(made.sample()))
        assert made.fitted_.model.total != len(table)
    assert max(sizes) == len(table)  # its noisy number is larger for one of these seeds at least


def test_dates_of_children_lie_between_two_dates():
    (parents, children), rng = frames(), np.random.default_rng(1)
    parents["f"] = (np.datetime64("2020-01-01") + rng.integers(0, 300, len(parents))).astype("datetime64[us]")
    parents["g"] = parents["f"] + pd.to_timedelta(rng.integers(0, 50, len(parents)), unit="D")
    children["s"] = parents["f"].to_numpy()[children["a"]]
    schema = describe({"f": DAY, "g": DAY}, {"s": DAY}, ({"within": "b.s", "after": "f", "before": "g"},))
    assert not broken_families((parents, children), schema)


def test_roles_hold_in_tables_with_a_time_column():
    (parents, children), rng = frames(4), np.random.default_rng(1)
    children["role"], children["t"] = rng.choice(["h", "q", "o"], len(children)), rng.integers(0, 20, len(children))
    rules = ({"exactly_one": "b", "where": {"role": "h"}}, {"at_most_one": "b", "where": {"role": "q"}})
    schema = describe({}, {"role": ROLES, "t": {"kind": "integer", "range": [0, 19]}}, rules, 4, time="t")
    assert not broken_families((parents, children), schema)


def test_a_history_has_no_more_rows_than_times():
    parents, children = frames(8)
    children["t"] = children.groupby("a").cumcount()
    children = children[children["t"] < 3]
    schema = describe({}, {"t": {"kind": "integer", "range": [0, 2]}}, ({"increasing": "b.t"},), 8, time="t")
    assert not broken_families((parents, children), schema, 0.1)


def test_durations_in_keys_and_constants():
    rng = np.random.default_rng(0)
    unit = rng.integers(0, 400, 1000)
    spans = pd.to_timedelta(rng.integers(0, 90, 400), unit="min")[unit]
    table = pd.DataFrame({"u": unit, "k": rng.choice(["a", "b"], 1000), "d": spans})
    columns = {
        "u": {"kind": "id"},
        "k": {"kind": "category", "values": ["a", "b"]},
        "d": {"kind": "duration", "range": ["0min", "2h"], "step": "1min"},
    }
    per_unit = {"unit": "u", "rows_per_unit": 4, "per_unit": ["d"]}
    made = fit(table, weft.Schema.from_dict({**per_unit, "columns": columns})).sample(100)
    assert (made.groupby("u")["d"].nunique() == 1).all()
    unique = {"rules": [{"unique": ["k", "d"]}]}
    made = fit(table, weft.Schema.from_dict({**unique, "columns": columns}), unit=False).sample(100)
    assert not made.duplicated(["k", "d"]).any()
    with pytest.raises(WeftError):
        fit(table, weft.Schema.from_dict({"columns": columns}), unit=False).sample(5, where={"d": {"min": 30}})


def test_sums_keep_the_decimals_of_their_column():
    (parents, children), rng = frames(), np.random.default_rng(1)
    children["m"] = np.round(rng.uniform(0, 10, len(children)), 2)
    parents["tot"] = np.bincount(children["a"], children["m"], len(parents)).round(2)
    money = {"kind": "real", "decimals": 2}
    schema = describe(
        {"tot": money | {"range": [0, 100]}}, {"m": money | {"range": [0, 10]}}, ({"sum": "b.m", "column": "tot"},)
    )
    made = fit({"a": parents, "b": children}, schema).sample_tables(300, seed=1)["a"].to_pandas()["tot"]
    assert (made.round(2) == made).all()


TIMES = {"t": {"kind": "integer", "range": [0, 19]}}
HELD = {"kind": "category", "values": ["h"]}


def refused_schemas() -> dict[str, Any]:
    every = ({"exactly_one": "b", "where": {"r": "h"}}, {"at_most_one": "b", "where": {"r": "q"}})
    end = {"kind": "integer", "after": "t", "range": [0, 2]}
    return {
        "every value a role": lambda: describe({}, {"r": {"kind": "category", "values": ["h", "q"]}}, every, 8),
        "only final values": lambda: describe(
            {}, TIMES | {"r": HELD}, ({"final": "b", "where": {"r": "h"}},), time="t"
        ),
        "group with the time": lambda: describe({}, TIMES, time="t", groups=[["t", "x"]]),
        "difference to the time": lambda: describe({}, TIMES | {"end": end}, time="t"),
        "time that is a difference": lambda: describe({}, TIMES | {"end": end}, time="end"),
        "steps that years do not keep": lambda: describe(
            {}, TIMES | {"y": {"kind": "integer", "range": [0, 100], "step": 10}}, ({"advances": "b.y"},), time="t"
        ),
        "computed type": lambda: describe(
            {"tot": {"kind": "integer", "range": [0, 100]}}, {}, ({"sum": "b.x", "column": "tot"},), 40
        ),
        "noise of siblings": lambda: describe({}, {"z": {"kind": "integer", "range": [0, 3]}}, most=16),
    }


@pytest.mark.parametrize("name", refused_schemas())
def test_what_cannot_be_kept_is_refused_before_a_charge(name: str, charges: list[Any]):
    parents, children = frames()
    children = children.assign(r="h", t=1, end=1, y=10, z=1)
    parents = pa.table({"id": parents["id"], "sex": parents["sex"], "tot": pa.array([0] * len(parents), pa.int8())})
    with pytest.raises(WeftError):
        schema = refused_schemas()[name]()
        used = {column.name for table in schema.private for column in table.schema.columns} | {"id", "a", "tot"}
        tables = {"a": parents, "b": children[[each for each in children if each in used]]}
        tables["a"] = parents if name == "computed type" else parents.select(["id", "sex"])
        fit(tables, schema, 0.015 if name == "noise of siblings" else 1.0)
    assert not charges


@pytest.mark.parametrize("settings", [{}, {"unit": "p", "time": "t", "rows_per_unit": 12}])
def test_a_budget_too_small_for_histories_is_refused_before_a_charge(settings: dict, charges: list[Any]):
    owner = np.repeat(np.arange(300), 3)
    table = pd.DataFrame({"p": owner, "t": 2000 + np.tile(np.arange(3), 300), "k": np.where(owner % 2, "a", "b")})
    columns = {
        "p": {"kind": "id"},
        "t": {"kind": "integer", "range": [2000, 2009]},
        "k": {"kind": "category", "values": ["a", "b"]},
    }
    stated = weft.Schema.from_dict({"unit": "p", "rows_per_unit": 12, "time": "t", "columns": columns})
    with pytest.raises(WeftError):
        fit(table, None if settings else stated, 0.01, **settings)
    assert not charges


def test_a_stated_bound_of_one_row_per_person_is_saved_and_loaded(tmp_path: Any):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"u": rng.permutation(2000).astype(str), "k": rng.choice(["a", "b"], 2000)})
    fit(table, None, unit="u", rows_per_unit=1).save(tmp_path / "m.weft")
    assert len(weft.load(tmp_path / "m.weft").sample(10)) == 10
