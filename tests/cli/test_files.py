"""No command writes over what it reads, over a record of spending, or two things into one file."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from .conftest import Weft, outputs

FIT = ("-s", "visits.toml", "-e", 1, "-m", "independent")


@pytest.fixture
def private(folder: Path) -> Path:
    """Two private tables in a folder of their own."""
    home = folder / "d"
    home.mkdir()
    for name in ("p1.csv", "p2.csv"):
        shutil.copy("visits.csv", home / name)
    shutil.copy("visits.parquet", "q.parquet")
    return home


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("source", "out"),
    [
        ("d/*.csv", "d/p1.csv"),
        ("d", "d/p2.csv"),
        ("d", "d/made.csv"),
        ("d/*.csv", "d/made.csv"),
        ("duckdb:SELECT * FROM 'q.parquet'", "q.parquet"),
        ("duckdb:SELECT * FROM 'd/*.csv'", "d/made.csv"),
        ("visits.csv", "link.csv"),
        ("visits.csv", "twin.csv"),
    ],
)
def test_private_tables_outlive_a_release(weft: Weft, folder: Path, private: Path, source: str, out: str) -> None:
    Path("link.csv").symlink_to("visits.csv")
    os.link("visits.csv", "twin.csv")
    before = contents(folder)
    said = weft("synth", source, *FIT, "-o", out, code=7).stderr
    assert out in said and "Nothing was spent" in said
    assert contents(folder) == before


def test_a_database_is_not_written_over(weft: Weft, folder: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect("v.db") as database:
        database.sql("CREATE TABLE visits AS FROM 'visits.parquet'")
    before = Path("v.db").read_bytes()
    for words in (("fit", "-o", "v.db"), ("synth", "-o", "out.csv", "--model", "v.db")):
        said = weft(words[0], "duckdb:v.db?table=visits", *FIT, *words[1:], code=7).stderr
        assert "v.db" in said and "Choose another name" in said
    assert Path("v.db").read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ("--journal", "out.csv"),
        ("--journal", "out.card.json"),
        ("--journal", "m.weft", "--model", "m.weft"),
        ("--model", "out.csv"),
        ("--model", "out.card.md"),
        ("--model", "visits.toml"),
        ("--journal", "visits.toml"),
        ("--journal", "visits.parquet"),
    ],
)
def test_every_file_of_a_run_is_its_own(weft: Weft, folder: Path, words: tuple[str, ...]) -> None:
    before = contents(folder)
    assert "Nothing was spent" in weft("synth", "visits.csv", *FIT, "-o", "out.csv", *words, code=7).stderr
    assert contents(folder) == before


def test_a_journal_is_not_replaced(weft: Weft, folder: Path) -> None:
    weft("fit", "visits.csv", *FIT, "-o", "m.weft", "-q")
    kept = Path("m.ledger.jsonl").read_bytes()
    weft("fit", "visits.csv", *FIT, "-o", "m.ledger.jsonl", "--journal", "j.jsonl", code=7)
    weft("schema", "draft", "visits.csv", "-o", "m.ledger.jsonl", "--force", code=7)
    assert Path("m.ledger.jsonl").read_bytes() == kept
    assert outputs(folder) == {"m.weft", "m.ledger.jsonl"}


def test_a_model_is_an_input_of_sample(weft: Weft, model: Path) -> None:
    model.rename("m.csv")
    before = Path("m.csv").read_bytes()
    assert "the model" in weft("sample", "m.csv", "-o", "m.csv", code=7).stderr
    assert Path("m.csv").read_bytes() == before


def test_a_report_spares_what_it_reads(weft: Weft, folder: Path) -> None:
    Path("visits.json").symlink_to("visits.csv")
    said = weft("report", "visits.csv", "visits.csv", "-s", "visits.toml", "-o", "visits.html", code=7).stderr
    assert "visits.json" in said


def test_the_demo_spares_a_table_of_the_same_name(weft: Weft, folder: Path) -> None:
    Path("mine").mkdir()
    Path("mine/hospital.csv").write_text("patient,age\n1,2\n")
    assert "hospital.csv" in weft("demo", "--folder", "mine", code=7).stderr
    assert Path("mine/hospital.csv").read_text() == "patient,age\n1,2\n"


def test_what_is_no_plain_file_is_not_replaced(weft: Weft, folder: Path) -> None:
    """Such as a device. A pipe stands for it: a test must not put a real one at risk."""
    os.mkfifo("pipe")
    assert "no plain file" in weft("fit", "visits.csv", *FIT, "-o", "pipe", "--journal", "j.jsonl", code=7).stderr
    assert Path("pipe").is_fifo()


def test_a_name_that_is_too_long(weft: Weft, folder: Path) -> None:
    weft("synth", "visits.csv", *FIT, "-o", "x" * 300 + ".csv", code=7)


def test_verify_tells_what_holds_and_what_does_not(weft: Weft, folder: Path) -> None:
    Path("released").mkdir()
    weft("synth", "visits.csv", *FIT, "-n", 20, "-o", "released/out.csv", "--model", "released/m.weft", "-q")
    shown = weft("verify", "released").stdout
    assert "all checks passed" in shown and "the source of out.card.json" in shown
    found = json.loads(weft("verify", "released", "--json").stdout)
    assert found["ok"] and len(found["checks"]) == 8
    Path("released/out.csv").write_text("changed\n")
    told = weft("verify", "released/out.csv", code=1)
    assert "NO" in told.stdout and "out.card.json: out.csv does not match the card" in told.stderr
    assert not json.loads(weft("verify", "released", "--json", code=1).stdout)["ok"]
    weft("verify", "gone", code=4)


def test_verify_finishes_an_interrupted_release(weft: Weft, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weft("synth", "visits.csv", *FIT, "-n", 20, "-o", "out.csv", "-q")
    first = Path("out.csv").read_bytes()
    own, moves = Path.replace, []

    def stuck(self: Path, target: Path) -> Path:
        moves.append(target)
        if len(moves) == 2:
            raise OSError(5, "Input/output error")
        return own(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stuck)
        said = weft("synth", "visits.csv", *FIT, "-n", 20, "-o", "out.csv", "--overwrite", code=7).stderr
    assert "weft verify" in said
    assert not Path("out.card.json").exists() and Path("out.csv").read_bytes() != first
    found = json.loads(weft("verify", "out.csv", "--json").stdout)
    assert found["ok"] and "finished the interrupted release" in found["recovered"][0]
    assert not [name for name in outputs(folder) if name.startswith(".")]
