"""Play a case in a process of its own, and judge how it ended."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .cases import KINDS
from .world import SECRETS, copy_world

DOCUMENTED = {0, 1, 2, 3, 4, 5, 6, 7, 8}
"""Exit codes that a command may end with by itself."""

MEMORY = 8 << 30
"""Address space of a case: past it, a size was believed that should have been refused."""

PRIVATE = ("draft.toml", "page.html", "page.json")
"""Files that may hold private values, since they are for the curator's eyes."""


@dataclass(frozen=True)
class Verdict:
    """How a case ended, and what is wrong with that."""

    kind: str
    seed: int
    words: tuple[str, ...]
    code: int | None
    wrong: tuple[str, ...]
    said: str = ""

    def __str__(self) -> str:
        line = " ".join(word if len(word) < 60 else f"{word[:57]}..." for word in self.words)
        return (
            f"{self.kind} {self.seed}: weft {line}\n  exit {self.code}: {'; '.join(self.wrong)}\n  {self.said[-1500:]}"
        )


def warm_up() -> None:
    """Load what every case needs, so that a fork of this process starts at once."""
    import weft.evaluation.report
    import weft.release.verification
    from weft.marginals.counting import compile_kernels

    assert weft.evaluation.report and weft.release.verification
    compile_kernels()
    with tempfile.TemporaryDirectory() as folder:
        copy_world(Path(folder))


def play(kind: str, seed: int, timeout: float = 120.0) -> Verdict:
    """Play one case."""
    home = Path(tempfile.mkdtemp(prefix="weft-case-"))
    try:
        copy_world(home)
        rng = np.random.default_rng([seed, sorted(KINDS).index(kind)])
        words = KINDS[kind](home, rng)
        before = _hashes(home)
        records = _spent(home)
        code, hung = _run(words, home, timeout)
        said = (home / ".said").read_text(errors="replace")
        told = "" if words[:2] == ["schema", "draft"] and "-" in words else said  # a draft is private, and says so
        wrong = [
            *(["it hangs"] if hung else _judge(code, told)),
            *_leftovers(home, before, words),
            *_books(home, records, code, said, words),
        ]
        return Verdict(kind, seed, tuple(words), code, tuple(wrong), said)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(words: list[str], home: Path, timeout: float) -> tuple[int, bool]:
    """Run a command in a fork; return its exit code, and whether it had to be stopped."""
    child = os.fork()
    if child == 0:
        _child(words, home)
    end = time.monotonic() + timeout
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), False
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -signal.SIGKILL, True
        time.sleep(0.005)


def _child(words: list[str], home: Path) -> None:
    code = 99
    try:
        os.chdir(home)
        os.environ |= {"XDG_STATE_HOME": str(home / "state"), "NO_COLOR": "1", "COLUMNS": "200", "TMPDIR": str(home)}
        handle = os.open(".said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for name, number in (("stdout", 1), ("stderr", 2)):
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", errors="replace", closefd=False))
        sys.argv = ["weft", *words]
        from weft.cli import main

        main()
        code = 0
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else 0 if leave.code is None else 1
    except BaseException:  # noqa: BLE001 (what the last door let through is what we are looking for)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _judge(code: int, said: str) -> list[str]:
    wrong = [] if code in DOCUMENTED else [f"exit code {code}"]
    wrong += ["a traceback"] if "Traceback" in said else []
    wrong += ["out of memory"] if "out of memory" in said else []
    wrong += [f"the secret {secret} is told" for secret in SECRETS if secret in said]
    return wrong


def _hashes(home: Path) -> dict[Path, str]:
    files = [path for path in sorted(home.rglob("*")) if path.is_file() and path.name != ".said"]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _leftovers(home: Path, before: dict[Path, str], words: list[str]) -> list[str]:
    """Look at the files: inputs as they were, nothing half-written, no secret in what is released."""
    after = _hashes(home)
    named = {words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-o", "--model", "--journal")}
    read = words[1] in ("*.csv", "**", ".") or "SELECT" in words[1]
    # What is named as an output, and is none of the inputs, may be written.
    free = set() if read else named - set(words[1:4])
    inputs = [
        path for path in before if path.name.startswith(("private.", "schema.", "odd.")) and path.name not in free
    ]
    wrong = [f"{path.name} was changed" for path in inputs if after.get(path) != before[path]]
    wrong += [f"{path.name} was left" for path in after if path.suffix in (".part", ".commit")]
    for path in set(after) - set(before):
        if path.name not in PRIVATE and words[:2] != ["schema", "draft"] and words[0] != "report":
            content = path.read_bytes()
            wrong += [f"the secret {secret} is in {path.name}" for secret in SECRETS if secret.encode() in content]
    return wrong


def _spent(home: Path) -> int:
    """Count the charges in every journal there is, line by line: a damaged line is no reason to miss the others."""
    charges = 0
    for path in home.rglob("*"):
        if path.is_file() and path.suffix != ".json" and path.stat().st_size < 1 << 24:
            charges += sum(b'"run"' in line and b'"mechanism"' in line for line in path.read_bytes().split(b"\n"))
    return charges


def _books(home: Path, before: int, code: int | None, said: str, words: list[str]) -> list[str]:
    """Look whether what was said of the spending is what the journals have."""
    charged = _spent(home) - before
    if "Nothing was spent" in said and charged:
        return ["it says that nothing was spent, and something was"]
    if code in (2, 3, 4, 5) and charged:
        return ["it was refused after it had charged"]
    if code and charged and "recorded" not in said.lower():
        return ["it has charged, failed, and does not say so"]
    if code == 0 and words[0] in ("synth", "fit") and "--help" not in words and not charged:
        return ["it has made a model, and no charge is on record"]
    return []
