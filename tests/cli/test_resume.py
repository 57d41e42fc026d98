"""A run that is killed after its last question is finished from its answers, and else it is said that it must not."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
from conftest import SCHEMA, make_table
from typer.testing import CliRunner

from weft.cli import app
from weft.errors import DataError
from weft.privacy import Charge, read_journal
from weft.privacy.journal import Checkpoint, read_checkpoint
from weft.release.verification import verify

KILLED = """
import os, signal, sys
import weft.cli, weft.privacy.journal as checkpoint, weft.release.publish as publish
import weft.synthesis.pipeline as pipeline

place, number = sys.argv[1], int(sys.argv[2])
add, learn, seen = checkpoint.Checkpoint.add, pipeline.learn_model, []

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def counting(self, charge, released):
    seen.append(charge)
    if place == "unanswered" and len(seen) == number:
        die()
    if place == "torn" and len(seen) == number:
        self._append(checkpoint._encode_record({"charge": charge.to_dict()}, released)[:-5])
        die()
    add(self, charge, released)
    if place == "answered" and len(seen) == number:
        die()

def learned(*given):
    made = learn(*given)
    if place == "learned":
        die()
    return made

checkpoint.Checkpoint.add = counting
pipeline.learn_model = learned
if place == "writing":
    publish.card_json = die
sys.argv = ["weft", *sys.argv[3:]]
weft.cli.main()
"""


def run(*words):
    made = CliRunner().invoke(app, list(words))
    return made.exit_code, " ".join(made.output.split())


def killed(place, number, *words):
    done = subprocess.run([sys.executable, "-c", KILLED, place, str(number), *words], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr.decode()
    (left,) = Path().glob("*.checkpoint")
    return left


SEEDED = ("--noise-seed", "1", "--seed", "2", "-e", "1", "-s", "stays.toml")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(make_table(800), "stays.csv")
    Path("stays.toml").write_text(SCHEMA)
    return tmp_path


def same_release(one, other):
    for ending in (".csv", ".card.json"):
        assert Path(one + ending).read_text().replace(one, other) == Path(other + ending).read_text()


def test_a_run_killed_while_it_writes_is_finished_without_a_second_draw(folder):
    assert run("synth", "stays.csv", *SEEDED, "-o", "whole.csv")[0] == 0
    assert not list(folder.glob("*.checkpoint"))  # a run that ends well leaves none
    left = killed("writing", 0, "synth", "stays.csv", *SEEDED, "-o", "cut.csv")
    assert left.stat().st_mode & 0o777 == 0o600 and not Path("cut.csv").exists()
    before = Path("cut.ledger.jsonl").read_bytes()
    Path("stays.csv").unlink()  # nothing private is needed any more
    code, said = run("resume", str(left))
    assert code == 0, said
    same_release("whole", "cut")
    assert Path("cut.ledger.jsonl").read_bytes() == before and not left.exists()
    assert not verify(Path("cut.csv")).wrong


def test_a_run_killed_before_an_answer_must_not_be_finished(folder):
    left = killed("unanswered", 2, "synth", "stays.csv", *SEEDED, "-o", "cut.csv")
    code, said = run("resume", str(left))
    assert code == 5 and "must not be drawn again" in said
    assert not Path("cut.csv").exists() and left.exists()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["answered", "torn", "unanswered"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_wherever_a_run_is_killed_before_its_end(place, number, folder):
    left = killed(place, number, "synth", "stays.csv", *SEEDED, "-o", "cut.csv")
    code, said = run("resume", str(left))
    (journal,) = read_journal(Path("cut.ledger.jsonl"))
    _, answers = read_checkpoint(left)
    assert len(journal.charges) - len(answers) == (place != "answered")
    assert code == 5 and ("cannot be completed" if place == "answered" else "must not be drawn again") in said


@pytest.mark.slow
@pytest.mark.parametrize("method", ["weave", "privsyn", "mst", "bsg", "aim"])
@pytest.mark.parametrize("stated", [True, False])
def test_every_method_is_finished_alike(method, stated, folder):
    seeded = SEEDED if stated else (*SEEDED[:-2], "--one-row-per-person")
    words = ("synth", "stays.csv", *seeded, "-m", method, "-n", "200")
    assert run(*words, "-o", "whole.csv")[0] == 0
    left = killed("learned", 0, *words, "-o", "cut.csv")
    code, said = run("resume", str(left))
    assert code == 0, said
    same_release("whole", "cut")
    if not stated:
        assert Path("whole.schema.toml").read_text() == Path("cut.schema.toml").read_text()


@pytest.mark.slow
def test_parquet_a_model_and_a_lifetime_budget(folder):
    pyarrow.parquet.write_table(make_table(800), "stays.parquet")
    assert run("budget", "create", "life.budget", "--epsilon", "3", "--table", "stays")[0] == 0
    words = ("fit", "stays.parquet", "-e", "1", "-s", "stays.toml", "--budget", "life.budget")
    left = killed("learned", 0, *words, "-o", "cut.weft")
    spent = Path("life.budget").read_bytes()
    code, said = run("resume", str(left))
    assert code == 0, said
    assert Path("life.budget").read_bytes() == spent
    assert run("sample", "cut.weft", "-n", "50", "-o", "made.parquet")[0] == 0
    assert not verify(Path("made.parquet"), Path("life.budget")).wrong
    assert pyarrow.parquet.read_schema("made.parquet").types == make_table(1).schema.types


def test_answers_come_back_and_a_torn_one_is_none(tmp_path):
    path = tmp_path / "a.checkpoint"
    kept = Checkpoint.begin(path, {"x": 1})
    charge = Charge.gaussian("q", sensitivity=1.0, scale=[5.0, 6.0], draws=9)
    arrays = [np.array(7), np.array([-129, 3, 2**40]), np.zeros((0, 3), np.int64), np.arange(4, dtype=np.uint8)]
    kept.add(charge, arrays)
    whole = path.read_bytes()
    kept.add(charge, arrays)
    second = path.read_bytes()
    for end in (len(whole), len(whole) + 3, len(second) - 1):
        path.write_bytes(second[:end])
        header, answers = read_checkpoint(path)
        assert header == {"x": 1} and len(answers) == 1
        assert answers[0][0].to_dict() == charge.to_dict()
        for one, other in zip(answers[0][1], arrays, strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape and (one == other).all()
    path.write_bytes(whole[:-3] + b"abc" + second[len(whole) :])
    with pytest.raises(DataError, match="damaged"):
        read_checkpoint(path)
