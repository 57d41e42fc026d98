"""Databases from the command line: read in place, written back whole or not at all, and nobody's name told."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from databases import fill_postgres, fill_sqlite, run_postgres, server

from .conftest import Weft

FIT = ("-s", "visits.toml", "-e", 1, "-m", "independent")


def queried(path: str, question: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(question).fetchall()


@pytest.fixture
def sqlite(folder: Path) -> str:
    return fill_sqlite(pq.read_table("visits.parquet"), "v.sqlite", "visits")


@pytest.fixture
def postgres(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address with a user of its own, whose password the environment knows."""
    fill_postgres(pq.read_table("visits.parquet"), "visits")
    run_postgres(
        "DROP TABLE IF EXISTS made",
        "DO $$ BEGIN CREATE ROLE fingal SUPERUSER LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
    )
    monkeypatch.setenv("PGPASSWORD", "ossianic")
    return server().replace("//", "//fingal@") + "/postgres?table="


def test_a_table_of_sqlite_is_written_back(weft: Weft, sqlite: str) -> None:
    weft("synth", sqlite, *FIT, "-n", 50, "-o", "sqlite:v.sqlite?table=made")
    assert queried("v.sqlite", "SELECT count(*) FROM made") == [(50,)]
    card = json.loads(Path("made.card.json").read_text())
    assert card["table"]["file"] == "sqlite:v.sqlite?table=made" and card["table"]["rows"] == 50
    assert Path("made.card.md").is_file() and Path("made.ledger.jsonl").is_file() and not Path("made").exists()


def test_what_was_written_can_be_read(weft: Weft, sqlite: str) -> None:
    weft("fit", sqlite, *FIT, "-o", "m.weft")
    said = weft("sample", "m.weft", "-n", 50, "-o", "sqlite:new.sqlite?table=made").stdout
    assert "sqlite:new.sqlite?table=made" in said
    weft("synth", "sqlite:new.sqlite?table=made", *FIT, "-o", "again.csv")


@pytest.mark.parametrize("table", ["visits", "VISITS"])
def test_no_table_is_written_over(weft: Weft, sqlite: str, table: str) -> None:
    before = Path("v.sqlite").read_bytes()
    said = weft("synth", sqlite, *FIT, "-o", f"sqlite:v.sqlite?table={table}", code=7).stderr
    assert "already exists" in said and "Nothing was spent" in said
    assert Path("v.sqlite").read_bytes() == before and not Path("visits.card.md").exists()
    assert "is an input" in weft("synth", sqlite, *FIT, "-o", "made.csv", "--model", "v.sqlite", code=7).stderr


def test_a_database_is_no_other_file_too(weft: Weft, sqlite: str) -> None:
    said = weft("synth", sqlite, *FIT, "-o", "sqlite:new.db?table=made", "--model", "new.db", code=7).stderr
    assert "another file" in said and not Path("new.db").exists()


def test_a_lifetime_budget_takes_no_table(weft: Weft, sqlite: str) -> None:
    weft("budget", "create", "life.budget", "--epsilon", 9, "--delta", 1e-5)
    said = weft("synth", sqlite, *FIT, "-o", "sqlite:life.budget?table=made", code=7).stderr
    assert "lifetime budget" in said


def test_a_table_that_cannot_be_finished_leaves_nothing(
    weft: Weft, sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("weft.release.publish.write_cards", fail)
    for output in ("sqlite:new.sqlite?table=made", "sqlite:v.sqlite?table=made"):
        weft("synth", sqlite, *FIT, "-n", 50, "-o", output, code=7)
    assert not Path("new.sqlite").exists() and not Path("made.card.md").exists()
    assert queried("v.sqlite", "SELECT name FROM sqlite_master") == [("visits",)]


def test_a_draft_of_a_table_of_sqlite(weft: Weft, sqlite: str) -> None:
    weft("schema", "draft", sqlite, "-o", "draft.toml")
    weft("schema", "check", "draft.toml", sqlite)
    assert "kind" in Path("draft.toml").read_text()


def test_postgres_from_end_to_end_tells_no_user(weft: Weft, postgres: str) -> None:
    source, made = f"{postgres}visits", f"{postgres}made"
    said = [weft("synth", source, *FIT, "-n", 50, "-o", made, "--model", "m.weft")]
    assert run_postgres("SELECT count(*) FROM made") == [(50,)]
    said.append(weft("synth", source, *FIT, "-o", made, code=7))
    assert "already exists" in said[-1].stderr
    said.append(weft("schema", "draft", source, "-o", "draft.toml"))
    said.append(weft("schema", "check", "draft.toml", source))
    said.append(weft("synth", source, "-e", 1, "--one-row-per-person", "-m", "independent", "-o", "found.csv"))
    told = [one.stdout + one.stderr for one in said]
    told += [path.read_text(errors="replace") for path in Path().iterdir() if path.is_file()]
    assert not any(word in text for text in told for word in ("fingal", "ossianic"))
    assert any("postgresql://127.0.0.1" in text for text in told)


@pytest.mark.parametrize("output", ["postgresql://u:ossianic@h/db?table=t", "duckdb:x.db?table=t", "s3://ossianic/t"])
def test_outputs_that_are_refused(weft: Weft, folder: Path, output: str) -> None:
    said = weft("synth", "visits.csv", *FIT, "-o", output, code=7)
    assert "ossianic" not in said.stdout + said.stderr
    said = weft("synth", output, *FIT, "-o", "x.csv", code=4)
    assert "ossianic" not in said.stdout + said.stderr


def test_a_table_of_sqlite_is_verified(weft: Weft, sqlite: str, tmp_path: Path) -> None:
    address = "sqlite:v.sqlite?table=made"
    weft("synth", sqlite, *FIT, "-n", 50, "-o", address)
    assert "all checks passed, 1 statement not checked" in weft("verify", address).stdout
    weft("verify", "made.card.json")
    weft("verify", ".")
    first = queried("v.sqlite", "SELECT * FROM made ORDER BY rowid LIMIT 1")[0]
    changes = {
        "DELETE FROM made WHERE rowid = 1": "rows, but the table has 49",
        f"INSERT INTO made VALUES ({', '.join('?' * len(first))})": None,  # the row is back, at another place
        "UPDATE made SET score = coalesce(score, 0) + 1 WHERE rowid = 2": "was modified",
        "ALTER TABLE made RENAME COLUMN score TO x": "columns of the table differ",
        "DROP TABLE made": "no such table",
    }
    for change, said in changes.items():
        with closing(sqlite3.connect("v.sqlite")) as database:
            database.execute(change, first if "INSERT" in change else ())
            database.commit()
        told = weft("verify", address, code=0 if said is None else 1)
        assert said is None or said in " ".join(told.stderr.split())
    Path("v.sqlite").unlink()
    assert "no such file" in weft("verify", "made.card.json", code=1).stderr


def test_a_card_opens_no_database_elsewhere(weft: Weft, sqlite: str, tmp_path: Path) -> None:
    elsewhere = f"sqlite:{tmp_path.parent / 'elsewhere.sqlite'}?table=made"
    weft("synth", sqlite, *FIT, "-n", 50, "-o", elsewhere)
    assert "Name the table" in weft("verify", "made.card.json", code=1).stderr
    weft("verify", elsewhere)
    assert "is for another table" in weft("verify", "sqlite:v.sqlite?table=made", code=1).stderr
    assert "no card" in weft("verify", "sqlite:v.sqlite?table=visits", code=1).stderr


def test_a_table_of_postgres_is_verified_whatever_its_owner_prefers(
    weft: Weft, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    weft("synth", f"{postgres}visits", *FIT, "-n", 50, "-o", f"{postgres}made")
    monkeypatch.setenv("PGOPTIONS", "-c datestyle=German -c timezone=Asia/Tokyo -c extra_float_digits=-3")
    weft("verify", f"{postgres}made")
    assert "Name the table" in weft("verify", "made.card.json", code=1).stderr
    run_postgres("UPDATE made SET score = coalesce(score, 0) + 1 WHERE ctid = (SELECT min(ctid) FROM made)")
    assert "was modified" in weft("verify", f"{postgres}made", code=1).stderr
    run_postgres("DROP TABLE made")
    assert "no such table" in weft("verify", f"{postgres}made", code=1).stderr
