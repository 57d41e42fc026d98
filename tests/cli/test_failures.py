"""Whatever goes wrong: no partial output, nothing spent off the record, no private value in the message."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from weft import load
from weft.io import atomic_files as atomic
from weft.methods.independent import Independent
from weft.models.independent_model import IndependentModel
from weft.privacy import read_journal

from .conftest import Weft, command, environment, outputs, table

CANARY = "Xanthippe-77"
CANARY_NUMBER = 987654
ROWS = len(table())


def synth(weft: Weft, source: object = "visits.csv", *more: object, code: int) -> Any:
    return weft("synth", source, "-s", "visits.toml", "-e", 1, "-m", "independent", "-o", "out.csv", *more, code=code)


def charges(journal: str = "out.ledger.jsonl") -> list[int]:
    return [len(run.charges) for run in read_journal(Path(journal))] if Path(journal).exists() else []


def after_one_charge(monkeypatch: pytest.MonkeyPatch, then: Callable[[Any], None]) -> None:
    """Make the method spend a quarter of the budget and then do something else."""

    def fit(self: Independent, curator: Any, rng: Any, listener: Any) -> None:
        curator.measure([("score",)], share=0.25)
        then(curator)

    monkeypatch.setattr(Independent, "fit", fit)


def assert_discreet(result: Any) -> None:
    said = result.stdout + result.stderr
    assert "Traceback" not in said
    for private in (CANARY, str(CANARY_NUMBER), f"{CANARY_NUMBER:,}", str(ROWS)):
        assert private not in said


def test_overspending(weft: Weft, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after_one_charge(monkeypatch, lambda curator: curator.measure([("town",)], share=0.8))
    result = synth(weft, code=5)
    assert "25% of the budget" in result.stderr
    assert "out.ledger.jsonl" in result.stderr
    assert outputs(folder) == {"out.ledger.jsonl"}
    assert charges() == [1]
    assert_discreet(result)


@pytest.mark.parametrize("budget", [["-e", 0], ["-e", -1], ["-e", "nan"], ["-e", 1, "--delta", 1]])
def test_senseless_budgets_are_refused_before_anything(weft: Weft, folder: Path, budget: list[object]) -> None:
    result = weft("synth", "visits.csv", "-s", "visits.toml", "-o", "out.csv", *budget, code=5)
    assert "Nothing was spent" in result.stderr
    assert outputs(folder) == set()


def test_wrong_column(weft: Weft, folder: Path) -> None:
    text = Path("visits.toml").read_text().replace("[columns.town]", "[columns.twon]")
    Path("visits.toml").write_text(text)
    result = synth(weft, code=3)
    assert "twon" in result.stderr
    assert "Nothing was spent" in result.stderr
    assert outputs(folder) == set()
    assert_discreet(result)


def test_a_value_outside_the_schema(weft: Weft, folder: Path) -> None:
    rows = table().to_pylist()
    rows[17]["town"] = CANARY
    plain = pa.Table.from_pylist(rows, table().schema.set(2, pa.field("town", pa.string())))
    pa.csv.write_csv(plain, "bad.csv")
    pa.parquet.write_table(plain, "bad.parquet")
    for source in ("bad.csv", "bad.parquet"):
        result = synth(weft, source, code=4)
        assert "town" in result.stderr
        assert "Nothing was spent" in result.stderr
        assert_discreet(result)
    Path("bad.csv").unlink()
    Path("bad.parquet").unlink()
    assert outputs(folder) == set()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("gone.csv", None),
        ("empty.csv", b""),
        ("noise.parquet", bytes(range(256)) * 4),
        ("noise.csv", CANARY.encode() + b"\xff\xfe\x00" * 40),
        ("odd.txt", CANARY.encode()),
        ("ragged.csv", b"visit,score,town,price,day,regular\n" + CANARY.encode() + b",1\n"),
        ("text.csv", f"visit,score,town,price,day,regular\nV,{CANARY},Arras,1,2024-01-01,true\n".encode()),
        ("wide.csv", f"visit,score,town,price,day,regular\nV,{CANARY_NUMBER},Arras,1,2024-01-01,true\n".encode()),
    ],
)
def test_unreadable_files(weft: Weft, folder: Path, name: str, content: bytes | None) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    result = synth(weft, name, code=4)
    assert name in result.stderr or "column" in result.stderr
    assert "Nothing was spent" in result.stderr
    assert outputs(folder) - {name} == set()
    assert_discreet(result)


def test_a_full_disk_at_the_end(weft: Weft, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "_flush_file", full)
        result = synth(weft, code=7)
    assert "No space left on device" in result.stderr
    assert "Recorded as spent: epsilon 1 " in result.stderr
    assert "could not be saved anywhere" in result.stderr
    (answers,) = Path().glob("*.checkpoint")
    assert f"`weft resume {answers}`" in " ".join(result.stderr.split())
    assert outputs(folder) == {"out.ledger.jsonl", answers.name}
    weft("resume", str(answers))
    assert outputs(folder) == {"out.csv", "out.card.md", "out.card.json", "out.ledger.jsonl"}
    assert charges() == [1]


def rescued(result: Any) -> Path:
    """The model that a failed command has saved, by its message; it must be good for rows."""
    (place,) = re.findall(r"The model is saved in (\S+): `weft sample \1 -o FILE`", result.stderr)
    assert load(place).sample(3).num_rows == 3
    return Path(place)


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_a_full_disk_under_the_rows(weft: Weft, folder: Path, out: str) -> None:
    """A real limit: no file may grow past 64 KiB, which the journal needs not and the table does."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, usual[1]))
    try:
        words = ("synth", "visits.csv", "-s", "visits.toml", "-e", 1, "-m", "independent", "-n", 50_000, "-o", out)
        result = weft(*words, code=7)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert f"cannot write {out}" in result.stderr
    assert "Recorded as spent: epsilon 1 " in result.stderr
    assert outputs(folder) == {"out.ledger.jsonl", rescued(result).name}
    assert charges() == [1]


@pytest.mark.parametrize("command_words", [("synth", "-o", "out.csv", "--model"), ("fit", "-o")])
def test_a_model_that_has_nowhere_to_go_is_kept(
    weft: Weft, folder: Path, monkeypatch: pytest.MonkeyPatch, command_words: tuple[str, ...]
) -> None:
    """The folder for the model goes away while the model is learned."""
    Path("there").mkdir()
    own = Independent.fit

    def fit(self: Independent, *given: Any) -> Any:
        Path("there").rmdir()
        return own(self, *given)

    monkeypatch.setattr(Independent, "fit", fit)
    name, *more = command_words
    words = (name, "visits.csv", "-s", "visits.toml", "-e", 1, "-m", "independent", *more, "there/m.weft")
    result = weft(*words, "--journal", "j.ledger.jsonl", code=7)
    assert "cannot write there/m.weft" in result.stderr
    assert outputs(folder) == {"j.ledger.jsonl", rescued(result).name}


def test_a_model_is_kept_elsewhere_if_the_journal_has_no_room(
    weft: Weft, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = atomic._flush_file

    def full(path: Path) -> None:
        if path.parent in (Path(), folder):
            raise OSError(errno.ENOSPC, "No space left on device")
        own(path)

    monkeypatch.setattr(atomic, "_flush_file", full)
    result = synth(weft, "visits.csv", "--json", code=7)
    kept = rescued(result)
    assert kept.is_relative_to(os.environ["XDG_STATE_HOME"])
    assert json.loads(result.stdout)["error"]["model"] == str(kept)
    assert outputs(folder) == {"out.ledger.jsonl"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_the_journal(weft: Weft, folder: Path) -> None:
    result = synth(weft, "visits.csv", "--journal", "/dev/full", code=7)
    assert "the rows were not queried" in result.stderr
    assert outputs(folder) == set()


@pytest.mark.parametrize("out", ["nowhere/out.csv", "out.docx", "out", "visits.csv", "visits.toml"])
def test_outputs_that_cannot_be_are_refused_first(weft: Weft, folder: Path, out: str) -> None:
    before = Path("visits.csv").read_bytes(), Path("visits.toml").read_bytes()
    result = weft("synth", "visits.csv", "-s", "visits.toml", "-e", 1, "-o", out, code=7)
    assert "Nothing was spent" in result.stderr
    assert outputs(folder) == set()
    assert (Path("visits.csv").read_bytes(), Path("visits.toml").read_bytes()) == before


def test_ctrl_c(weft: Weft, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(curator: Any) -> None:
        raise KeyboardInterrupt

    Path("out.csv").write_text("an earlier release")
    after_one_charge(monkeypatch, stop)
    result = synth(weft, "visits.csv", "--model", "visits.weft", "--overwrite", code=130)
    assert "interrupted" in result.stderr
    assert "The model is saved" not in result.stderr
    assert "25% of the budget" in result.stderr
    assert outputs(folder) == {"out.csv", "out.ledger.jsonl"}
    assert Path("out.csv").read_text() == "an earlier release"
    assert charges() == [1]


def test_ctrl_c_while_the_rows_are_written_keeps_the_model(
    weft: Weft, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: IndependentModel, *rest: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(IndependentModel, "sample", stop)
    result = synth(weft, "visits.csv", "--model", "visits.weft", code=130)
    assert "The model is saved in visits.weft" in result.stderr
    assert outputs(folder) == {"visits.weft", "out.ledger.jsonl"}
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    weft("sample", "visits.weft", "-o", "out.csv")


# A test that runs in the background is started with such signals ignored, and would hand that on.
HEARING = "from signal import *\nsignal(SIGINT, default_int_handler)\nsignal(SIGHUP, SIG_DFL)\n"

SLEEPER = HEARING + textwrap.dedent("""
    import time
    from pathlib import Path
    from weft.cli import main
    from weft.methods.independent import Independent

    def fit(self, curator, rng, listener):
        curator.measure([("score",)], share=0.25)
        Path("charged").touch()
        time.sleep(60)

    Independent.fit = fit
    main()
""")


def test_a_real_interrupt(folder: Path) -> None:
    words = [sys.executable, "-c", SLEEPER, *command("synth", "visits.csv", "-s", "visits.toml")[3:]]
    words += ["-e", "1", "-m", "independent", "-o", "out.csv"]
    with subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        while not Path("charged").exists() and process.poll() is None:
            time.sleep(0.05)
        time.sleep(0.5)  # until it sleeps: what interrupts a destructor is lost, as Python has it
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert "25% of the budget" in said
    assert "Traceback" not in said
    assert outputs(folder) == {"charged", "out.ledger.jsonl"}
    assert charges() == [1]


def test_ctrl_c_while_rows_are_drawn_keeps_the_model(weft: Weft, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: IndependentModel, *rest: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(IndependentModel, "sample", stop)
        result = synth(weft, code=130)
    assert outputs(folder) == {"out.ledger.jsonl", rescued(result).name}


DRAWER = HEARING + textwrap.dedent("""
    import time
    from pathlib import Path
    from weft.cli import main
    from weft.models.independent_model import IndependentModel

    def sample(self, *given):
        Path("charged").touch()
        time.sleep(60)

    IndependentModel.sample = sample
    main()
""")


@pytest.mark.parametrize(("number", "script"), [(signal.SIGTERM, SLEEPER), (signal.SIGHUP, DRAWER)])
def test_other_signals_end_as_ctrl_c_does(folder: Path, number: signal.Signals, script: str) -> None:
    words = [sys.executable, "-c", script, *command("synth", "visits.csv", "-s", "visits.toml")[3:]]
    words += ["-e", "1", "-m", "independent", "-o", "out.csv"]
    with subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        while not Path("charged").exists() and process.poll() is None:
            time.sleep(0.05)
        time.sleep(0.5)  # until it sleeps
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number, said
    assert f"ended by {number.name}; no partial file was left behind" in said
    assert "Recorded as spent" in said and "Traceback" not in said
    models = {path.name for path in Path().glob("*.weft")}
    assert len(models) == (script is DRAWER)
    assert outputs(folder) == {"charged", "out.ledger.jsonl"} | models


def test_a_reader_of_the_rows_that_goes_away_costs_no_model(folder: Path) -> None:
    words = command("synth", "visits.csv", "-s", "visits.toml", "-e", 1, "-m", "independent", "-n", 300_000, "-o", "-")
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert b"The model is saved in weft-" in process.stderr.read()
        assert process.wait() == 0
    assert len(list(Path().glob("weft-*.weft"))) == 1


def test_a_bug_shows_its_type_only(weft: Weft, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(curator: Any) -> None:
        raise IndexError(f"{CANARY} is out of range")

    after_one_charge(monkeypatch, fail)
    result = synth(weft, code=70)
    assert "IndexError" in result.stderr
    assert "25% of the budget" in result.stderr
    assert outputs(folder) == {"out.ledger.jsonl"}
    assert_discreet(result)
    assert CANARY in synth(weft, "visits.csv", "--debug", code=70).stderr


def test_debug_can_come_from_the_environment(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    after_one_charge(monkeypatch, lambda curator: 1 / 0)
    monkeypatch.setenv("WEFT_DEBUG", "1")
    assert "Traceback" in synth(weft, code=70).stderr


def test_out_of_memory(weft: Weft, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(curator: Any) -> None:
        raise MemoryError

    after_one_charge(monkeypatch, fail)
    assert "--engine stream" in synth(weft, code=1).stderr


def test_failures_in_json(weft: Weft) -> None:
    result = synth(weft, "gone.csv", "--json", code=4)
    error = json.loads(result.stdout)["error"]
    assert (error["type"], error["exit_code"], error["spent"]) == ("SourceError", 4, "Nothing was spent.")


def test_a_missing_schema_without_a_share_to_find_one_says_what_to_do(weft: Weft) -> None:
    result = weft("synth", "visits.csv", "-e", 1, "--discover", 0, "--one-row-per-person", "-o", "out.csv", code=3)
    assert "--discover 0.1" in result.stderr
    assert "Nothing was spent" in result.stderr


def test_missing_options_are_wrong_usage(weft: Weft) -> None:
    weft("synth", "visits.csv", code=2)
    weft("synth", "visits.csv", "-e", "much", "-o", "out.csv", code=2)
    weft("unknown", code=2)
