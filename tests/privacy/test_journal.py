"""F21: the journal tells the spend whatever happened to the run."""

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from weft.errors import BudgetError, DataError, OutputError
from weft.privacy import Adjacency, Budget, Charge, Ledger, read_journal, sigma_for
from weft.privacy.ledger import open_run_ledger

ROOT = Path(__file__).parents[2]


def book(path):
    return Ledger(Budget(rho=1.0), "gaussian", Adjacency(), journal=path)


def spend(ledger, rho=0.25):
    return ledger.charge(Charge.gaussian("counts", sensitivity=1.0, scale=sigma_for(rho, 1.0), draws=4))


def test_every_charge_is_on_the_disk_when_it_returns(tmp_path):
    path = tmp_path / "journal.jsonl"
    ledger = book(path)
    for i in range(3):
        spend(ledger)
        (run,) = read_journal(path)
        assert len(run.charges) == i + 1 and run.spent == pytest.approx(ledger.spent)
    assert run.charges[0]["question"] == "counts" and run.header["accounting"] == "gaussian"
    with pytest.raises(BudgetError):
        spend(ledger, 0.5)
    assert len(path.read_text().splitlines()) == 4  # a refused question was never asked


def test_runs_append_to_one_file_and_may_interleave(tmp_path):
    path = tmp_path / "journal.jsonl"
    one, two = book(path), book(path)
    spend(one), spend(two), spend(one, 0.1)
    two.stamp("NOT PRIVATE")
    first, second = read_journal(path)
    assert first.run != second.run
    assert first.spent == pytest.approx(0.35) and second.spent == pytest.approx(0.25)
    assert second.stamps == ("NOT PRIVATE",) and first.stamps == ()


def test_a_killed_process_leaves_its_spend_on_record(tmp_path):
    path = tmp_path / "journal.jsonl"
    code = (
        "import os, signal, sys; from pathlib import Path; from weft.privacy import *\n"
        "ledger = Ledger(Budget(rho=1.0), 'gaussian', Adjacency(), journal=Path(sys.argv[1]))\n"
        "ledger.charge(Charge.gaussian('counts', sensitivity=1.0, scale=2.0, draws=4))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == -signal.SIGKILL
    (run,) = read_journal(path)
    assert run.spent == pytest.approx(0.125)


def test_a_line_cut_short_at_any_place_does_not_break_reading_or_writing(tmp_path):
    path = tmp_path / "journal.jsonl"
    ledger = book(path)
    spend(ledger)
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    for cut in range(start + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        (run,) = read_journal(path)
        assert run.spent == 0
        later = book(path)
        spend(later, 0.125)
        assert [run.spent for run in read_journal(path)] == [0, pytest.approx(0.125)]
    path.write_bytes(whole[:-1])  # all but the newline: the charge counts
    assert read_journal(path)[0].spent == pytest.approx(0.25)
    spend(book(path))
    assert [r.spent for r in read_journal(path)] == [pytest.approx(0.25)] * 2


@pytest.mark.parametrize("damage", ["{broken}\n", '{"run": "nobody", "cost": 1}\n', "[1]\n", '{"run": "x"'])
def test_other_damage_is_reported_with_its_line(tmp_path, damage):
    path = tmp_path / "journal.jsonl"
    ledger = book(path)
    spend(ledger)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + damage.rstrip("\n") + "\n" + lines[1])
    with pytest.raises(DataError, match=r"line 2 .* is damaged"):
        read_journal(path)


def test_a_negative_or_missing_cost_is_damage(tmp_path):
    path = tmp_path / "journal.jsonl"
    spend(book(path))
    head, line = path.read_text().splitlines()
    for bad in (json.loads(line) | {"cost": -1}, {k: v for k, v in json.loads(line).items() if k != "cost"}):
        path.write_text(f"{head}\n{json.dumps(bad)}\n{line}\n")
        with pytest.raises(DataError, match="line 2"):
            read_journal(path)


def test_a_journal_that_cannot_be_written_stops_the_run_before_it_asks(tmp_path):
    with pytest.raises(OutputError, match="does not exist"):
        book(tmp_path / "missing" / "journal.jsonl")
    with pytest.raises(OutputError):
        book(tmp_path)
    with pytest.raises(DataError):
        read_journal(tmp_path / "none")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_a_full_disk_charges_nothing(tmp_path, monkeypatch):
    path = tmp_path / "journal.jsonl"
    ledger = book(path)
    spend(ledger)
    monkeypatch.setattr(ledger._journal, "_path", Path("/dev/full"))
    with pytest.raises(OutputError, match="No space left"):
        spend(ledger)
    assert len(ledger.entries) == 1 and read_journal(path)[0].spent == ledger.spent == pytest.approx(0.25)


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_a_journal_is_its_owners_alone_and_says_so(tmp_path):
    old = os.umask(0)
    try:
        spend(book(tmp_path / "run.ledger.jsonl"))
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "run.ledger.jsonl").stat().st_mode) == 0o600
    (run,) = read_journal(tmp_path / "run.ledger.jsonl")
    assert run.header["note"].startswith("PRIVATE")


def run_on(table, journal):
    terms = (Adjacency(), "row", Budget(rho=1.0), "gaussian")
    facts = {"source": "stays.csv", "identity": table, "method": "test"}
    with open_run_ledger(terms, None, journal=journal, stamps=(), facts=facts) as ledger:
        spend(ledger)
    return read_journal(journal)[-1].header


def test_the_path_of_a_table_cannot_be_looked_up(tmp_path):
    path = "/home/mary/clinic/hiv.csv"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = (run_on(path, tmp_path / folder / "run.ledger.jsonl") for folder in "ab")
    assert one["fingerprint"] != other["fingerprint"] and one["salt"] != other["salt"]
    text = (tmp_path / "a" / "run.ledger.jsonl").read_text()
    assert "identity" not in text and "/home" not in text
    digest = hashlib.sha256(path.encode()).hexdigest()
    assert digest[:16] not in text


def test_runs_on_one_table_are_found_in_all_journals_of_a_folder(tmp_path):
    (tmp_path / "torn.ledger.jsonl").write_text('{"run": "x", "bud\n{}\n{}\n')
    runs = ("px", "qy", "px", "pz")  # a table, and the journal of the run on it
    headers = [run_on(f"/data/{table}.csv", tmp_path / f"{name}.ledger.jsonl") for table, name in runs]
    marks = [header["fingerprint"] for header in headers]
    assert marks[0] == marks[2] == marks[3] != marks[1]
    assert len({header["salt"] for header in headers}) == 1
