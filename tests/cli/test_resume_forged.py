"""A checkpoint that was edited, or is of another run, gives no card that promises more than was charged."""

import base64
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from conftest import SCHEMA, make_table

from weft import Synthesizer
from weft.errors import BudgetError, OutputError
from weft.privacy import Charge, Noise
from weft.privacy.journal import Checkpoint, Recorded, read_checkpoint
from weft.privacy.mechanisms import Mechanisms
from weft.synthesis.resume import finish_run, read_unfinished


def fitted(name, epsilon=1.0, **settings):
    made = Synthesizer(
        epsilon, method="independent", journal=f"{name}.ledger.jsonl", checkpoint=f"{name}.checkpoint", **settings
    )
    return made.fit("stays.csv", "stays.toml").checkpoint_


def forged(path, answers=None, **changed):
    """Write a checkpoint anew, with a sound hash for each record, and with other facts in it."""
    header, kept = read_checkpoint(path)
    made = Checkpoint.begin(Path("forged.checkpoint"), header | changed)
    for charge, released in kept if answers is None else answers(kept):
        made.add(charge, released)
    return Path("forged.checkpoint")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(make_table(300), "stays.csv")
    Path("stays.toml").write_text(SCHEMA)
    return tmp_path


def test_one_that_nobody_touched_is_finished(folder):
    run = read_unfinished(forged(fitted("a")))
    assert finish_run(run).ledger_.to_dict()["entries"] == [
        {key: value for key, value in charge.items() if key != "time"} for charge in run.journal.charges
    ]


def test_the_stamp_of_a_run_that_is_not_private_cannot_be_taken_off(folder):
    path = forged(fitted("a", noise_seed=1), private=True, stamps=[])
    with pytest.raises(BudgetError, match="does not match what was charged"):
        finish_run(read_unfinished(path))


def test_a_cheaper_run_does_not_stand_for_a_dear_one(folder):
    dear, _ = read_checkpoint(fitted("dear", 8.0))
    path = forged(fitted("cheap", 1.0), journal=dear["journal"], run=dear["run"])
    with pytest.raises(BudgetError, match="does not match what was charged"):
        finish_run(read_unfinished(path))


@pytest.mark.parametrize("journal", [True, False])
def test_every_answer_that_was_paid_for_is_in_the_ledger(folder, journal):
    path = fitted("a")
    changed = {} if journal else {"journal": None, "run": None}
    path = forged(path, lambda kept: [*kept, kept[-1]], **changed)
    with pytest.raises(BudgetError, match="does not match what was charged"):
        finish_run(read_unfinished(path))


def test_a_run_that_its_journal_does_not_know_is_not_finished(folder):
    path = fitted("a")
    Path("a.ledger.jsonl").write_text("")
    with pytest.raises(BudgetError, match="does not contain this run"):
        read_unfinished(path)


def test_notes_beside_columns_are_not_kept(folder):
    table = make_table(300)
    noted = [field.with_metadata({"of": "SECRET-NOTE"}) for field in table.schema]
    with pa.OSFile("stays.arrow", "wb") as file, pa.ipc.new_file(file, pa.schema(noted)) as writer:
        writer.write_table(table.cast(pa.schema(noted)))
    made = Synthesizer(method="independent", journal=None, checkpoint="a.checkpoint").fit("stays.arrow", "stays.toml")
    header, _ = read_checkpoint(made.checkpoint_)
    assert b"SECRET-NOTE" not in base64.b64decode(header["types"])


def test_a_checkpoint_is_its_owners_alone_whatever_others_put_in_its_place(tmp_path):
    path, charge = tmp_path / "a.checkpoint", Charge.gaussian("q", sensitivity=1.0, scale=5.0, draws=9)
    kept = Checkpoint.begin(path, {"x": 1})
    path.unlink()
    kept.add(charge, [np.arange(9)])
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError):
        kept.add(charge, [np.arange(9)])
    assert not (tmp_path / "elsewhere").exists()


def test_a_disk_that_takes_a_part_of_an_answer_is_an_error(tmp_path):
    resource = pytest.importorskip("resource", reason="only POSIX limits the size of files")
    kept = Checkpoint.begin(tmp_path / "a.checkpoint", {"x": 1})
    charge = Charge.gaussian("q", sensitivity=1.0, scale=5.0, draws=9)
    limits, heard = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
        with pytest.raises(OutputError):
            kept.add(charge, [np.arange(10_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, heard)


def test_chance_has_one_source_also_where_answers_are_written_down(tmp_path):
    mechanisms = Mechanisms(Noise.seeded(1))
    assert Recorded(mechanisms, Checkpoint(tmp_path / "a.checkpoint")).noise is mechanisms.noise
