"""`python -m tests.fuzz.kills --kills 100`: kill -9 and SIGTERM at random moments, and what is found afterwards.

Every command that asks the private rows draws from a lifetime budget, from which another process draws at the same
time. After every kill: each answer that left the curator has its charge in a journal and in the lifetime budget,
which is not overspent and holds nothing back for the dead; what a reader finds is an old release, a table without a
card, or a new release; SIGTERM leaves no draft; and the next command on the same files leaves nothing behind. Two
commands on one journal, or on the last of a lifetime budget, are played too (`RACES`).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .world import copy_world

ASKED = "asked.log"
"""Where a watched command notes every answer that leaves the curator, one line each."""

WATCHED = textwrap.dedent(f"""
    import os
    from weft.cli import main
    from weft.privacy.mechanisms import Mechanisms

    own = Mechanisms.__call__

    def noted(self, charge, answers):
        with open({ASKED!r}, "ab", buffering=0) as file:
            file.write(b"answer\\n")
            os.fsync(file.fileno())
        return own(self, charge, answers)

    Mechanisms.__call__ = noted
    main()
""")

BUDGET = "table.budget"
FIT = ("-s", "schema.toml", "-e", "1", "-m", "mst", "--budget", BUDGET)
BESIDE = ("fit", "private.csv", *FIT, "-o", "beside.weft")
"""What another process does at the same time."""


@dataclass(frozen=True)
class Scene:
    """A command that is killed, and the one that comes after it."""

    words: tuple[str, ...]
    then: tuple[str, ...]
    """The next command that writes to the same files."""


SYNTH = ("synth", "private.csv", *FIT, "-n", "150000", "-o", "released.csv", "--overwrite")
AGAIN = ("sample", "model.weft", "-n", "9", "-o", "released.csv", "--overwrite")
SCENES = (
    Scene(SYNTH, AGAIN),
    Scene((*SYNTH, "--model", "other.weft"), AGAIN),
    Scene(
        ("fit", "private.csv", *FIT, "-o", "model.weft", "--overwrite"),
        ("fit", "private.csv", "-s", "schema.toml", "-e", "1", "-m", "independent", "-o", "model.weft", "--overwrite"),
    ),
    Scene(("sample", "model.weft", "-n", "150000", "-o", "released.csv", "--overwrite"), AGAIN),
)


@dataclass(frozen=True)
class Race:
    """Commands that run at once in one folder, and what must hold of the folder afterwards."""

    words: tuple[tuple[str, ...], ...]
    check: Callable[[Path], list[str]]


def start(words: Sequence[str], home: Path, *, watched: bool = True) -> subprocess.Popen[bytes]:
    """Start a command as another process does."""
    root = str(Path(__file__).parents[2])
    env = os.environ | {"PYTHONPATH": root, "XDG_STATE_HOME": str(home / "state"), "NO_COLOR": "1"}
    how = ["-c", WATCHED] if watched else ["-m", "weft.cli"]
    said = (home / ".said").open("wb")
    return subprocess.Popen([sys.executable, *how, *words], cwd=home, env=env, stdout=said, stderr=said)


def on_record(home: Path) -> list[str]:
    """Every answer has its charge: journals are read as they are, since a kill may cut their last line."""
    from weft.privacy import read_journal

    journals = [path for path in home.glob("*.jsonl") if path.name != "model.ledger.jsonl" or path.stat().st_size]
    charges = sum(len(run.charges) for path in journals for run in read_journal(path))
    asked = (home / ASKED).read_bytes().count(b"\n") if (home / ASKED).exists() else 0
    wrong = [f"{asked} answers, {charges} charges on record"] if asked > charges else []
    return [*wrong, *_of_lifetime(home, asked)]


def _of_lifetime(home: Path, asked: int) -> list[str]:
    from weft.privacy import Lifetime

    state = Lifetime(home / BUDGET).state()  # an error if its chain is broken
    charges = sum(run.charges for run in state.runs.values())
    wrong = [f"{asked} answers, {charges} charges in the lifetime budget"] if asked > charges else []
    return wrong + (["the lifetime budget is overspent"] if state.spent > state.capacity * (1 + 1e-9) else [])


def held(home: Path) -> list[str]:
    """Nothing is held back for commands that are over."""
    from weft.privacy import Lifetime

    return ["the lifetime budget holds something back for the dead"] if Lifetime(home / BUDGET).state().held else []


def furnished(home: Path, epsilon: float = 19.0) -> None:
    """Put what commands need into a folder, with a lifetime budget."""
    from weft.privacy import Budget, Lifetime

    copy_world(home)
    (home / "model.ledger.jsonl").unlink()
    Lifetime.create(home / BUDGET, Budget(epsilon=epsilon, delta=1e-5))


def unmixed(home: Path) -> list[str]:
    """Whatever card is there is that of the table and the page beside it; nothing is mended before this."""
    from weft.release.verification import _verify_model, _verify_release

    cards = sorted(home.glob("*.card.json"))
    checks = [check for card in cards for check in _verify_release(card)]
    checks += [_verify_model(model, []) for model in home.glob("*.weft")]
    return [f"{check.file}: {check.wrong}" for check in checks if check.wrong]


def leftovers(home: Path) -> list[str]:
    """Drafts and records that nobody needs."""
    return [f"{path.name} was left" for path in home.iterdir() if path.suffix in (".part", ".commit")]


def wait_for(process: subprocess.Popen[bytes], home: Path, rng: np.random.Generator, whole: float) -> None:
    """Wait until a moment worth dying at: any, or one while files are drafted, or while they are moved."""
    sign = ["", ".part", ".commit"][int(rng.integers(3))]
    end = time.monotonic() + 4 * whole
    if not sign:
        time.sleep(rng.uniform(0, 1.2 * whole))
        return
    while time.monotonic() < end and process.poll() is None:
        if any(path.name.endswith(sign) for path in home.iterdir()):
            time.sleep(rng.uniform(0, 0.2) if sign == ".part" else 0)
            return
        time.sleep(0.0005)


def kill(scene: Scene, number: signal.Signals, rng: np.random.Generator, whole: float) -> tuple[int, list[str]]:
    """Kill a command; return its exit code and what is wrong afterwards."""
    with tempfile.TemporaryDirectory(prefix="weft-kill-") as folder:
        home = Path(folder)
        furnished(home)
        beside = start(BESIDE, home)
        process = start(scene.words, home)
        wait_for(process, home, rng, whole)
        process.send_signal(number)
        code = process.wait(timeout=120)
        wrong = [*on_record(home), *unmixed(home)]
        if beside.wait(timeout=240):
            wrong.append("the other process failed")
        wrong += [*on_record(home), *held(home)]
        if number == signal.SIGTERM:
            # Before the command has begun, the system itself ends it.
            wrong += [f"exit code {code}"] if code not in (0, -number, 128 + number) else []
            wrong += leftovers(home)
        following = start(scene.then, home, watched=False)
        if following.wait(timeout=120):
            wrong.append(f"the next command failed: {(home / '.said').read_text()[-400:]}")
        return code, [*wrong, *unmixed(home), *leftovers(home)]


RACES = (
    Race(
        (
            ("synth", "private.csv", *FIT, "-n", "2000", "-o", "one.csv", "--journal", "shared.ledger.jsonl"),
            ("synth", "private.csv", *FIT, "-n", "2000", "-o", "two.csv", "--journal", "shared.ledger.jsonl"),
        ),
        on_record,
    ),
    Race(tuple(("fit", "private.csv", *FIT, "-o", f"{name}.weft") for name in ("one", "two", "three")), on_record),
    Race(
        (
            ("sample", "model.weft", "-n", "60000", "-o", "released.csv", "--overwrite"),
            ("sample", "model.weft", "-n", "50000", "-o", "released.csv", "--overwrite"),
        ),
        unmixed,
    ),
)
"""What several processes share: a journal, a lifetime budget, the files of one release."""


def race(one: Race, rng: np.random.Generator, whole: float) -> list[str]:
    """Run the commands at once, kill one of them, and look at what they share."""
    with tempfile.TemporaryDirectory(prefix="weft-race-") as folder:
        home = Path(folder)
        furnished(home, epsilon=1.5)  # enough for two runs of epsilon 1, and not for three
        running = [start(words, home) for words in one.words]
        time.sleep(rng.uniform(0.3, 1.0) * whole)
        running[int(rng.integers(len(running)))].kill()
        codes = [process.wait(timeout=240) for process in running]
        wrong = [f"exit code {code}" for code in codes if code not in (0, 5, -signal.SIGKILL)]  # 5: no budget left
        wrong += held(home)
        return [*wrong, *one.check(home)]


def measure() -> float:
    """Return the seconds that a command takes when nobody kills it."""
    with tempfile.TemporaryDirectory(prefix="weft-kill-") as folder:
        furnished(Path(folder))
        begun = time.monotonic()
        assert start(SCENES[0].words, Path(folder)).wait() == 0
        return time.monotonic() - begun


def main() -> int:
    """Kill commands; print what is wrong."""
    asked = argparse.ArgumentParser(prog="python -m tests.fuzz.kills", description=__doc__)
    asked.add_argument("--kills", type=int, default=100, help="how many commands to kill")
    asked.add_argument("--races", type=int, default=10, help="how many times commands run at once")
    asked.add_argument("--seed", type=int, default=1, help="seed of the moments")
    given = asked.parse_args()
    rng, whole, bad = np.random.default_rng(given.seed), measure(), 0
    ends: Counter[str] = Counter()
    for number in range(given.kills):
        scene, sign = SCENES[number % len(SCENES)], [signal.SIGKILL, signal.SIGTERM][number // len(SCENES) % 2]
        code, wrong = kill(scene, sign, rng, whole)
        ends[f"{sign.name}: exit {code}"] += 1
        bad += bool(wrong)
        if wrong:
            print(f"kill {number}, {sign.name} on weft {' '.join(scene.words)}:", *wrong, sep="\n  ", flush=True)
    for number in range(given.races):
        wrong = race(RACES[number % len(RACES)], rng, whole)
        bad += bool(wrong)
        if wrong:
            print(f"race {number}:", *wrong, sep="\n  ", flush=True)
    print(", ".join(f"{end} ({times} times)" for end, times in sorted(ends.items())))
    print(f"{given.kills} kills and {given.races} races; {bad} left something wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
