"""Faults of the machine: little memory, kills between charge and release, many runs at once, a clock that jumps."""

from __future__ import annotations

import errno
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from weft.cli.failure import is_memory_error
from weft.engines import open_engine
from weft.errors import DataError
from weft.privacy import Budget, Lifetime, read_journal
from weft.schema import Schema

from .conftest import Weft, command, environment

FIT = ("visits.csv", "-s", "visits.toml", "--budget", "visits.budget")


def test_too_little_address_space_is_told_with_the_remedy(folder: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (700_000 << 10, 700_000 << 10))

    words = command("synth", "visits.csv", "-s", "visits.toml", "-e", 1, "-o", "out.csv")
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 1, done.stderr
    assert "out of memory" in done.stderr and "ulimit -v" in done.stderr
    assert "bug" not in done.stderr and not list(folder.glob("out.*"))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libscipy_openblas.so: failed to map segment from shared object"),
        OSError("Could not find/load shared object file 'libllvmlite.so'"),
        RuntimeError("can't start new thread"),
    ],
)
def test_libraries_say_in_many_ways_that_memory_is_short(error: Exception) -> None:
    assert is_memory_error(error)
    later = ValueError("a row")
    later.__cause__ = error
    assert is_memory_error(later)


@pytest.mark.parametrize("error", [ValueError("cannot allocate memory"), OSError(2, "x"), ImportError("no module")])
def test_other_errors_are_not_taken_for_a_lack_of_memory(error: Exception) -> None:
    assert not is_memory_error(error)


def test_ten_runs_at_once_do_not_overspend(folder: Path, weft: Weft) -> None:
    lifetime = Lifetime.create("visits.budget", Budget(epsilon=3.0, delta=1e-5))
    words = ("synth", *FIT, "-e", 1, "--delta", "1e-6", "-m", "independent", "-n", 20)
    runs = [
        subprocess.Popen(
            command(*words, "-o", f"made{number}.csv"), env=environment(), stderr=subprocess.PIPE, text=True
        )
        for number in range(10)
    ]
    said = [run.communicate(timeout=300)[1] for run in runs]
    codes = [run.returncode for run in runs]
    assert set(codes) == {0, 5}, said
    state = lifetime.state()
    assert state.spent <= state.capacity * (1 + 1e-9) and state.held == 0
    assert sum(run.charges > 0 for run in state.runs.values()) == codes.count(0)
    for number, code in enumerate(codes):
        made = Path(f"made{number}.csv")
        assert made.exists() == made.with_suffix(".card.json").exists() == (code == 0)
        if code:
            assert "Use an epsilon" in said[number] and "Nothing was spent" in said[number]
            assert not Path(f"made{number}.ledger.jsonl").exists()
        else:
            weft("verify", made)


KILLED = textwrap.dedent("""
    import os, signal, sys

    place, number = sys.argv[1], int(sys.argv[2])
    del sys.argv[1:3]
    from weft.cli import main
    from weft.privacy.journal import Checkpoint
    from weft.privacy.journal import Journal
    from weft.privacy.lifetime import Lifetime
    from weft.privacy.mechanisms import Mechanisms

    owner, name = {
        "lifetime": (Lifetime, "charge"),
        "journal": (Journal, "write"),
        "draw": (Mechanisms, "__call__"),
        "checkpoint": (Checkpoint, "add"),
    }[place]
    own, calls = getattr(owner, name), []

    def call(*given):
        made = own(*given)
        calls.append(place)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return made

    setattr(owner, name, call)
    main()
""")
"""Dies after a charge is entered in the lifetime budget, or in the journal, after its answer is drawn, or recorded."""


def kill_between(place: str, number: int, method: str) -> bool:
    """Kill a run after so many charges, between a charge and its release; return whether it came to that."""
    for path in Path().glob("made*"):
        path.unlink()
    Path("visits.budget").unlink(missing_ok=True)
    lifetime = Lifetime.create("visits.budget", Budget(epsilon=20.0, delta=1e-5))
    words = ["synth", *FIT, "-e", 1, "--delta", "1e-6", "-m", method, "-n", 20, "-o", "made.csv"]
    given = [sys.executable, "-c", KILLED, place, str(number), *map(str, words)]
    done = subprocess.run(given, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != -signal.SIGKILL:
        assert done.returncode == 0, done.stderr
        return False
    journal = Path("made.ledger.jsonl")
    written = read_journal(journal)[-1].charges if journal.exists() else ()
    (run,) = lifetime.state().runs.values()
    assert len(written) == (number - 1 if place == "lifetime" else number) and run.charges == number
    assert run.spent > 0 and run.held == 0  # the charge stays, and what was not spent is free
    assert not Path("made.csv").exists() and not Path("made.card.json").exists()
    check_resume(lifetime, len(written))
    return True


def check_resume(lifetime: Lifetime, written: int) -> None:
    """Resume a run that was killed: it is finished from its answers or refused, and nothing is charged either way."""
    (checkpoint,) = Path().glob("made-*.checkpoint")
    before = lifetime.state().hashes
    words = command("resume", checkpoint)
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 5), done.stderr
    assert lifetime.state().hashes == before
    assert Path("made.card.json").exists() == Path("made.csv").exists() == (done.returncode == 0)
    if done.returncode == 0:
        card = json.loads(Path("made.card.json").read_text())
        assert len(card["ledger"]["entries"]) == written
    else:
        assert "Traceback" not in done.stderr and "bug" not in done.stderr


@pytest.mark.parametrize("place", ["lifetime", "journal", "draw", "checkpoint"])
def test_a_kill_between_charge_and_release_releases_nothing_unpaid(folder: Path, place: str) -> None:
    assert kill_between(place, 1, "independent")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_kills_between_charge_and_release(folder: Path) -> None:
    hits = 0
    for number, place in itertools.product(range(1, 40), ("lifetime", "journal", "draw", "checkpoint")):
        if not kill_between(place, number, "aim"):
            break
        hits += 1
    for method, number, place in itertools.product(("mst", "privbayes", "weave"), range(1, 8), ("journal", "draw")):
        hits += kill_between(place, number, method)
    assert hits >= 50


MOMENTS = ["2031-05-01T00:00:00Z", "1970-01-01T00:00:00Z", "2026-03-29T02:30:00Z", "9999-12-31T23:59:59Z"]


def test_a_clock_that_jumps_changes_no_account(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = itertools.cycle(MOMENTS)
    for clock in ("ledger.get_current_time", "lifetime.get_current_time"):
        monkeypatch.setattr(f"weft.privacy.{clock}", lambda: next(moments))
    lifetime = Lifetime.create("visits.budget", Budget(epsilon=2.0, delta=1e-5))
    spent: list[float] = []
    for number in range(2):
        words = ("synth", *FIT, "-e", 1, "--delta", "1e-6", "-m", "mst", "-n", 20, "-o", f"made{number}.csv")
        weft(*words, "--journal", "all.ledger.jsonl")
        weft("verify", f"made{number}.csv")
        spent.append(lifetime.state().spent)
    assert 0 < spent[0] < spent[1] <= lifetime.state().capacity
    runs = read_journal(Path("all.ledger.jsonl"))
    assert [len(run.charges) for run in runs] == [run.charges for run in lifetime.state().runs.values()]
    assert "spent" in weft("budget", "show", "visits.budget").stdout and weft("ledger", "all.ledger.jsonl").stdout
    assert weft("synth", *FIT, "-e", 1.9, "-o", "more.csv", code=5)


def test_a_file_whose_time_goes_back_is_taken_for_another(folder: Path) -> None:
    """A table that changes during a run is refused by size, time and place, in whatever direction the clock went."""
    opened = open_engine("visits.csv", Schema.load("visits.toml"), engine="stream")
    status = Path("visits.csv").stat()
    os.utime("visits.csv", ns=(status.st_atime_ns, status.st_mtime_ns - 10**15))
    with pytest.raises(DataError, match="has changed"):
        opened.engine.count([("score",)])
