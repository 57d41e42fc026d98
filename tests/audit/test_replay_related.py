"""Replay of related tables with frozen noise: neighbours differ in one unit in all tables, and in nothing released."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from weft_lab.replay import replay

import weft
from weft.engines import family_rows
from weft.privacy import Noise
from weft.privacy.mechanisms import Mechanisms
from weft.release.database_release import publish_database
from weft.schema.database import Database
from weft.synthesis import database_fit, model_file

SCHEMA = Database.from_toml("""
root = "patients"
[tables.patients]
key = "id"
columns.sex = {kind = "category", values = ["f", "m"]}
columns.size = {kind = "integer", range = [0, 3]}
[tables.stays]
key = "stay"
foreign_keys = {patient = "patients.id"}
max_children = 3
columns.ward = {kind = "category", values = ["a", "b", "c"]}
columns.days = {kind = "integer", range = [0, 9]}
[tables.drugs]
foreign_keys = {stay = "stays.stay"}
max_children = 2
columns.dose = {kind = "integer", range = [1, 3]}
[[family_rules]]
count = "stays"
column = "size"
[[family_rules]]
at_most_one = "stays"
where = {ward = "a"}
""")


class Still:
    """The coupling of Lemma 0: rows that both databases share have equal random numbers."""

    def random(self, n):
        return np.zeros(n)


def hospital(n=120, seed=0):
    rng = np.random.default_rng(seed)
    patients = pd.DataFrame({"id": [f"p{i}" for i in range(n)], "sex": rng.choice(["f", "m"], n), "size": 0})
    owner = np.repeat(np.arange(n), rng.integers(0, 5, n))
    stays = pd.DataFrame(
        {
            "stay": [f"s{i}" for i in range(len(owner))],
            "patient": patients["id"].to_numpy()[owner],
            "ward": rng.choice(["a", "b", "c"], len(owner)),
            "days": rng.integers(0, 10, len(owner)),
        }
    )
    place = rng.integers(0, len(owner), 2 * n)
    drugs = pd.DataFrame({"stay": stays["stay"].to_numpy()[place], "dose": rng.integers(1, 4, 2 * n)})
    return {"patients": patients, "stays": stays, "drugs": drugs}


def without(data, unit):
    """Remove a unit from all tables."""
    stays = data["stays"]
    gone = stays.loc[stays["patient"] == unit, "stay"]
    return {
        "patients": data["patients"][data["patients"]["id"] != unit],
        "stays": stays[stays["patient"] != unit],
        "drugs": data["drugs"][~data["drugs"]["stay"].isin(gone)],
    }


def more(data, **rows):
    """Append rows to some tables."""
    return {
        name: pd.concat([frame, pd.DataFrame(rows[name], columns=frame.columns)], ignore_index=True)
        if name in rows
        else frame
        for name, frame in data.items()
    }


@pytest.fixture
def program(tmp_path, monkeypatch):
    def open_still(*args, **settings):
        return family_rows.open_families(*args, **settings, rng=Still())

    monkeypatch.setattr(database_fit, "open_families", open_still)
    runs, settings = [], {}

    def run(data, release):
        folder = tmp_path / str(len(runs))
        runs.append(folder)
        events = []
        synthesizer = weft.Synthesizer(epsilon=3, journal=None, seed=1, **settings)
        synthesizer.fit(data, SCHEMA, release=release, listener=lambda *event: events.append(repr(event)[:30]))
        made = synthesizer.sample_tables(seed=1)
        publish_database(synthesizer.related_, made, folder)
        model_file.save_database(synthesizer.related_, folder / "m.weft")
        ledger = synthesizer.ledger_.to_dict()
        for entry in ledger["entries"]:
            entry.pop("time", None)
        return {path.name: path.read_bytes() for path in folder.iterdir()} | {"ledger": ledger}

    run.settings = settings
    return run


DATA = hospital()
SIZES = DATA["stays"].groupby("patient").size()
NEIGHBOURS = {
    "a unit at the cap": (DATA, without(DATA, SIZES[SIZES == 3].index[0])),
    "a unit above the cap": (DATA, without(DATA, SIZES[SIZES > 3].index[0])),
    "a unit without children": (DATA, without(DATA, sorted(set(DATA["patients"]["id"]) - set(SIZES.index))[0])),
    "an orphan": (DATA, more(DATA, stays=[("s-x", "nobody", "a", 1)], drugs=[("s-x", 1), ("none", 2)])),
    "missing keys": (DATA, more(DATA, stays=[("s-y", None, "a", 1)], drugs=[(None, 2)])),
    "a doubled root key": (DATA, more(DATA, patients=[("p1", "m", 0)])),
    "the unit of a doubled key": (more(DATA, patients=[("p1", "m", 0)]), without(DATA, "p1")),
}


@pytest.mark.parametrize("case", NEIGHBOURS)
def test_nothing_but_noise_depends_on_a_unit(program, case):
    first, second = NEIGHBOURS[case]
    assert replay(program, first, second, Mechanisms(Noise.seeded(1))) == []
    assert replay(program, second, first, Mechanisms(Noise.seeded(2))) == []


@pytest.mark.parametrize("settings", [{"neighbours": "replace-one"}, {"delta": 0.0}], ids=str)
def test_a_replaced_unit_and_pure_noise_stay_within_their_charges(program, settings):
    program.settings |= settings
    first, second = (without(DATA, unit) for unit in SIZES[SIZES > 3].index[:2])
    if "delta" in settings:
        first = DATA
    assert replay(program, first, second, Mechanisms(Noise.seeded(3))) == []


def test_rows_that_weigh_too_much_are_caught(program, monkeypatch):
    """Planted: every row of a child table has weight W, as if a unit had only one."""
    real = family_rows.Families.rows

    def heavy(self, name, classes=None):
        engine = real(self, name, classes)
        return dataclasses.replace(
            engine, weights=None if engine.weights is None else np.full_like(engine.weights, engine.mass)
        )

    monkeypatch.setattr(family_rows.Families, "rows", heavy)
    first, second = NEIGHBOURS["a unit above the cap"]
    assert replay(program, first, second, Mechanisms(Noise.seeded(1)))


def test_a_missing_contribution_bound_is_caught(program, monkeypatch):
    """Planted: all children of a parent are kept, but only `max_children` are charged."""
    monkeypatch.setattr(family_rows, "keep_rows", lambda units, most, rng: units >= 0)
    first, second = NEIGHBOURS["a unit above the cap"]
    assert replay(program, first, second, Mechanisms(Noise.seeded(1)))


def test_the_number_of_orphans_on_the_card_is_caught(program, monkeypatch):
    """Planted: an output tells how many rows had no parent."""
    real = family_rows._find_parent_rows
    lost = []

    def count(keys, names):
        found = real(keys, names)
        lost.append(int((found < 0).sum()))
        return found

    monkeypatch.setattr(family_rows, "_find_parent_rows", count)

    def leaking(data, release):
        lost.clear()
        return program(data, release) | {"orphans": list(lost)}

    first, second = NEIGHBOURS["an orphan"]
    assert any("orphans" in found for found in replay(leaking, first, second, Mechanisms(Noise.seeded(1))))


def test_a_bound_read_from_the_data_is_caught(program, monkeypatch):
    """Planted: W depends on the largest family, so charges differ between neighbours."""
    real = family_rows.Families.rows

    def observed(self, name, classes=None):
        engine = real(self, name, classes)
        largest = 1 + len(self.records["patients"]) % 2
        return engine if engine.weights is None else dataclasses.replace(engine, mass=engine.mass * largest)

    monkeypatch.setattr(family_rows.Families, "rows", observed)
    first, second = NEIGHBOURS["a unit at the cap"]
    assert replay(program, first, second, Mechanisms(Noise.seeded(1)))
