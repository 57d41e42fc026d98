"""Related tables without a schema: each is discovered with its own bound, and only noise depends on a unit."""

import json
import sqlite3

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner
from weft_lab.replay import replay

import weft
from weft.cli import app
from weft.engines.family_rows import attach_units
from weft.errors import BudgetError, DataError, SchemaError
from weft.io.dialect import DEFAULT_DIALECT
from weft.privacy import Adjacency, Budget, Charge, Ledger, Noise
from weft.privacy.mechanisms import Mechanisms
from weft.release.database_release import publish_database
from weft.schema.database import Database
from weft.synthesis.database_discovery import choose_bound

KEYS = {
    "root": "patients",
    "tables": {
        "patients": {"key": "id"},
        "stays": {"key": "stay", "foreign_keys": {"patient": "patients.id"}, "max_children": 3},
        "drugs": {"foreign_keys": {"stay": "stays.stay"}, "max_children": 2},
    },
}


def hospital(n=250, seed=0):
    rng = np.random.default_rng(seed)
    patients = pd.DataFrame({"id": [f"p{i}" for i in range(n)], "sex": rng.choice(["f", "m"], n)})
    owner = np.repeat(np.arange(n), rng.integers(0, 4, n))
    stays = pd.DataFrame({"stay": [f"s{i}" for i in range(len(owner))], "patient": [f"p{i}" for i in owner]})
    stays["ward"] = rng.choice(["eye", "heart", "skin"], len(owner))
    place = np.repeat(np.arange(len(owner)), rng.integers(0, 3, len(owner)))
    drugs = pd.DataFrame({"stay": stays["stay"].to_numpy()[place], "dose": rng.integers(1, 9, len(place)).astype(str)})
    return {"patients": patients, "stays": stays, "drugs": drugs}


def without(data, unit):
    stays = data["stays"]
    gone = stays.loc[stays["patient"] == unit, "stay"]
    return {
        "patients": data["patients"][data["patients"]["id"] != unit],
        "stays": stays[stays["patient"] != unit],
        "drugs": data["drugs"][~data["drugs"]["stay"].isin(gone)],
    }


DATA = hospital()
SIZES = DATA["stays"].groupby("patient").size()


@pytest.mark.parametrize("unit", [SIZES[SIZES == 3].index[0], SIZES[SIZES == 1].index[0], "p-none"])
def test_nothing_but_noise_depends_on_a_unit(unit, tmp_path):
    """Nobody is above a bound here, so rows are not truncated at random."""
    runs = []

    def program(data, release):
        folder = tmp_path / str(len(runs))
        runs.append(folder)
        synthesizer = weft.Synthesizer(epsilon=6, journal=None, seed=1, discover=0.3)
        synthesizer.fit(data, KEYS, release=release)
        publish_database(synthesizer.related_, synthesizer.sample_tables(seed=1), folder)
        ledger = synthesizer.ledger_.to_dict()
        for entry in ledger["entries"]:
            entry.pop("time", None)
        schema = synthesizer.related_.database.to_toml()
        return {path.name: path.read_bytes() for path in folder.iterdir()} | {"ledger": ledger, "schema": schema}

    second = without(DATA, unit) if unit in SIZES else {**DATA, "stays": DATA["stays"].assign(patient="nobody")}
    if unit in SIZES:
        assert replay(program, DATA, second, Mechanisms(Noise.seeded(1))) == []
    else:  # the replay is able to fail: all stays of everybody are gone
        assert replay(program, DATA, second, Mechanisms(Noise.seeded(1))) != []


def test_rows_of_deeper_tables_get_the_key_of_their_unit():
    data = {**DATA, "drugs": pd.concat([DATA["drugs"], pd.DataFrame({"stay": ["none", None], "dose": "1"})])}
    made = attach_units(Database.from_dict(KEYS), "drugs", data, {"drugs": ["stay", "dose"]}, DEFAULT_DIALECT)
    owner = DATA["stays"].set_index("stay")["patient"]
    wanted = [owner.get(stay) for stay in data["drugs"]["stay"]]
    assert made.column("stay").to_pylist() == wanted and wanted[-2:] == [None, None]


def test_a_missing_key_leads_to_nobody():
    """Neither does it join a missing key of the table above."""
    stays = pd.concat([pd.DataFrame({"stay": [None, "s0"], "patient": ["p9", None], "ward": "eye"}), DATA["stays"]])
    drugs = pd.DataFrame({"stay": [None, "s0", "s-none"], "dose": "1"})
    data = {**DATA, "stays": stays, "drugs": drugs}
    made = attach_units(Database.from_dict(KEYS), "drugs", data, {"drugs": ["stay", "dose"]}, DEFAULT_DIALECT)
    owner = DATA["stays"].set_index("stay")["patient"]
    assert made.column("stay").to_pylist() == [None, owner["s0"], None]


def test_types_that_a_frame_inferred_are_refused_in_deeper_tables_too():
    drugs = DATA["drugs"].assign(given=pd.Timestamp("2020-01-01"))
    with pytest.raises(SchemaError, match="given") as error:
        weft.Synthesizer(epsilon=1, journal=None).fit({**DATA, "drugs": drugs}, KEYS)
    assert error.value.private


@pytest.mark.parametrize("case", ["value", "key"])
def test_complete_tables_refuse_their_rows_before_any_charge(case, tmp_path):
    schema = json.loads(json.dumps(KEYS))
    schema["tables"]["stays"]["columns"] = {"ward": {"kind": "category", "values": ["eye", "heart"]}}
    data = {**DATA, "stays": DATA["stays"].replace({"ward": {"skin": "eye"}})}
    if case == "value":
        data["stays"] = data["stays"].replace({"ward": {"eye": "ear"}})
    else:
        data["stays"] = pd.concat([data["stays"], data["stays"].head(1).assign(patient="p77")])
    journal = tmp_path / "j.jsonl"
    with pytest.raises(DataError):
        weft.Synthesizer(epsilon=1, journal=journal).fit(data, schema)
    assert not journal.exists() or '"question"' not in journal.read_text()


def test_a_key_of_two_units_is_refused_before_discovery():
    stays = pd.concat([DATA["stays"], DATA["stays"].head(1).assign(patient="p7")])
    with pytest.raises(DataError, match="must be unique") as error:
        weft.Synthesizer(epsilon=1, journal=None).fit({**DATA, "stays": stays}, KEYS)
    assert error.value.private


def test_a_list_of_one_table_must_cover_its_own_bound():
    ledger = Ledger(Budget(epsilon=1, delta=1e-5), "gaussian", Adjacency("add-remove", 40))
    terms = {"sensitivity": 3**0.5, "scale": 60.0, "columns": 1, "rows": 3, "slack": 1e-6}
    charge = Charge.partitions("common values", **terms)
    with pytest.raises(BudgetError, match="does not protect"):
        ledger.charge(charge)


def test_the_bound_keeps_nearly_all_units_whole():
    assert choose_bound(8, None) == 8
    assert choose_bound(64, np.array([900.0, 90, 9, 1, 0])) == 3
    assert choose_bound(64, np.array([1000.0])) == 2
    assert choose_bound(64, np.zeros(8)) == 8  # noise left nothing: no more than was counted


def test_files_and_keys_suffice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, frame in hospital(1500).items():
        frame.to_csv(f"{name}.csv", index=False)
    words = "synth patients.csv stays.csv drugs.csv --root patients --key patients.id --key stays.stay"
    words += " --link stays.patient --link drugs.stay=stays.stay -e 3 -o made"
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 0, done.output
    made = {name: pd.read_csv(f"made/{name}.csv") for name in ("patients", "stays", "drugs")}
    assert made["stays"]["patient"].isin(made["patients"]["id"]).all()
    assert made["drugs"]["stay"].isin(made["stays"]["stay"]).all()
    assert set(made["stays"]["ward"]) <= {"eye", "heart", "skin", "other"}
    assert CliRunner().invoke(app, ["verify", "made"]).exit_code == 0
    again = CliRunner().invoke(
        app, ["synth", "patients.csv", "stays.csv", "drugs.csv", "-s", "made/database.schema.toml", "-e1", "-ob"]
    )
    assert again.exit_code == 0, again.output  # the discovered schema is reused


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--key patients.id", "require --root"),
        ("--root people --key patients.id", "no file of this name"),
        ("--root patients --key id", "name a table and a column"),
        ("--root patients --key patients.id", "link it to its parent"),
    ],
)
def test_keys_that_do_not_fit_are_refused(words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, frame in hospital(20).items():
        frame.to_csv(f"{name}.csv", index=False)
    done = CliRunner().invoke(app, ["synth", "patients.csv", "stays.csv", *words.split(), "-e", "1", "-o", "made"])
    assert done.exit_code != 0 and told in " ".join(done.output.split()), done.output
    assert not list(tmp_path.glob("**/*.jsonl"))


def test_the_address_of_a_database_stands_for_its_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("h.sqlite") as database:
        for name, frame in hospital(900).items():
            frame.to_sql(name, database, index=False)
    (tmp_path / "keys.toml").write_text(
        'root = "patients"\n[tables.patients]\nkey = "id"\n[tables.stays]\nkey = "stay"\n'
        'foreign_keys = {patient = "patients.id"}\n[tables.drugs]\nforeign_keys = {stay = "stays.stay"}\n'
    )
    done = CliRunner().invoke(app, ["synth", "sqlite:h.sqlite", "-s", "keys.toml", "-e", "3", "-o", "made"])
    assert done.exit_code == 0, done.output
    made = {name: pd.read_csv(f"made/{name}.csv") for name in ("patients", "stays", "drugs")}
    assert made["drugs"]["stay"].isin(made["stays"]["stay"]).all() and len(made["drugs"]) > 100
