"""Drafts of related tables: keys and links from declared constraints, from names, or from the rows, for review."""

import sqlite3

import duckdb
import pandas as pd
import pytest
from typer.testing import CliRunner

from weft.cli import app
from weft.schema.database import Database

PATIENTS = pd.DataFrame({"id": ["P1", "P2", "P3"] * 7, "sex": ["f", "m", "f"] * 7}).assign(
    id=[f"P{i}" for i in range(21)]
)
STAYS = pd.DataFrame(
    {
        "stay": range(40),
        "patient": [f"P{i % 15}" for i in range(40)],
        "ward": ["eye", "heart"] * 20,
        "days": [1, 2, 3, 4] * 10,
    }
)
DRUGS = pd.DataFrame({"stay_no": [i % 30 for i in range(60)], "dose": [1, 2, 3] * 20})


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, frame in {"patients": PATIENTS, "stays": STAYS, "drugs": DRUGS}.items():
        frame.to_csv(f"{name}.csv", index=False)
    return tmp_path


def test_keys_and_links_are_proposed_from_names_and_refused_until_columns_are_reviewed(folder):
    made = run("schema", "draft", "patients.csv", "stays.csv", "drugs.csv", "-o", "h.toml")
    assert made.exit_code == 0, made.output
    read = Database.load("h.toml")
    assert read.unit == "patients.id"
    assert {table.name: str(table.link) for table in read.private[1:]} == {
        "stays": "patient -> patients.id",
        "drugs": "stay_no -> stays.stay",
    }
    assert read.from_data_facts() and all("." in fact for fact in read.from_data_facts())
    words = ["synth", "patients.csv", "stays.csv", "drugs.csv", "-s", "h.toml", "-e", 2, "-o", "made"]
    refused = run(*words)
    assert refused.exit_code == 3 and not (folder / "made").exists()
    assert run("schema", "review", "h.toml", "--accept", "all").exit_code == 0
    assert not Database.load("h.toml").from_data_facts()
    checked = run("schema", "check", "h.toml")
    assert checked.exit_code == 0 and "patients.id" in checked.output and "one row" not in checked.output
    done = run(*words)
    assert done.exit_code == 0, done.output
    again = run("schema", "draft", "patients.csv", "stays.csv", "-o", "h.toml")
    assert again.exit_code == 7  # a reviewed file is not replaced


def test_a_key_that_only_rows_suggest_is_marked(folder):
    STAYS.rename(columns={"patient": "mrn"}).to_csv("stays.csv", index=False)
    PATIENTS.rename(columns={"id": "mrn"}).to_csv("patients.csv", index=False)
    assert run("schema", "draft", "patients.csv", "stays.csv", "-o", "h.toml").exit_code == 0
    read = Database.load("h.toml")
    assert read.unit == "patients.mrn" and "patients.key" in read.from_data_facts()
    told = run("schema", "review", "h.toml", "--accept", "all")
    assert told.exit_code == 0 and "proposed from the rows" in told.output
    assert Database.load("h.toml").from_data_facts() == ["patients.key"]


def test_parts_of_one_table_are_drafted_as_one(folder):
    STAYS.to_csv("more.csv", index=False)
    made = run("schema", "draft", "stays.csv", "more.csv", "-o", "one.toml")
    assert made.exit_code == 0, made.output
    assert "[tables" not in (folder / "one.toml").read_text()


TABLES = (
    "create table people (pk integer primary key, sex text)",
    "create table visits (v integer primary key, who integer references people (pk), ward text)",
    "create table plain (a integer, b integer, primary key (a, b))",
)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_declared_constraints_are_read(folder, kind):
    connection = sqlite3.connect("h.sqlite") if kind == "sqlite" else duckdb.connect("h.duckdb")
    for statement in TABLES:
        connection.execute(statement)
    for i in range(30):
        connection.execute(f"insert into people values ({i}, '{'fm'[i % 2]}')")
        connection.execute(f"insert into visits values ({i}, {i % 9}, '{'ab'[i % 2]}')")
        connection.execute(f"insert into plain values ({i}, {i % 2})")
    if kind == "sqlite":
        connection.commit()
    connection.close()
    made = run("schema", "draft", f"{kind}:h.{kind}", "-o", "h.toml")
    assert made.exit_code == 0, made.output
    text = (folder / "h.toml").read_text()
    assert text.count("declared in the database") == 3
    read = Database.load("h.toml")
    assert read.unit == "people.pk" and str(read.table("visits").link) == "who -> people.pk"
    assert "plain" not in read and "# plain is left out" in text


def test_a_table_that_others_refer_to_is_proposed_as_public(folder):
    pd.DataFrame({"ward": ["eye", "heart"], "floor": [1, 2]}).to_csv("wards.csv", index=False)
    assert run("schema", "draft", "patients.csv", "stays.csv", "wards.csv", "-o", "h.toml").exit_code == 0
    read = Database.load("h.toml")
    assert read.root == "patients" and read.table("wards").public and "wards.public" in read.from_data_facts()
    assert {str(link) for link in read.table("stays").links} == {"patient -> patients.id", "ward -> wards.ward"}
