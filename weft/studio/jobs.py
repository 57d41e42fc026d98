"""Commands that the studio runs as child processes, which outlive a closed tab and end with the studio.

A job is a sequence of commands; each one needs the one before. Its state is stored in its folder, so that pages
opened later and a restarted studio show the same. Cancelling sends the signal that ends any command: all charges so far
are recorded, and no partial file is left behind (decision 012).
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from weft.studio.workspace import read_json, write_small_file

Started = tuple[Path, Sequence[Sequence[str]]]
"""The folder of a job, and its commands."""

State = Literal["running", "done", "failed", "cancelled", "lost"]
_NICE = 5
"""Niceness of commands, so that pages stay responsive."""
_GRACE = 20.0
"""Seconds that a command has to end after the signal."""
PHASES = ("describe the columns", "measure with noise", "generate rows and reports")
"""What a run does, as a page shows it; its commands report more stages (`weft.progress`)."""
_PHASE_ENDS = (0.0, 0.15, 0.6, 1.0)
_USUAL_STAGES = (6, 5, 18)
"""Usual number of stages of each phase."""
_DESCRIBING = ("load", "read", "find ", "compile", "count rows per person")
_GENERATING = ("weave", "sample", "choose records", "adjust records", "decode", "draw", "link families", "write")
_EARLY = 0.1
"""Completed share below which the time left is unknown."""


@dataclass(frozen=True)
class StageShown:
    """A stage of a command as shown on a page."""

    name: str
    share: float | None
    """Completed share, from 0 to 1; None if unknown."""
    finished: bool
    note: str
    command: int = 0
    """Number of the command that reports it."""


@dataclass(frozen=True)
class Job:
    """State of a job, as stored in its folder."""

    folder: Path
    words: tuple[tuple[str, ...], ...]
    """Arguments of the commands, without the program's name."""
    ticket: str
    """Identifier of the form submission that started it."""
    state: State
    seconds: float
    began: float
    """Start time, in seconds since 1970."""

    @property
    def stages(self) -> list[StageShown]:
        """Progress by stage, in the order in which the stages began."""
        found: dict[str, StageShown] = {}
        for number in range(len(self.words)):
            with suppress(OSError):
                for line in (self.folder / f"events-{number}").read_text(encoding="utf-8").splitlines():
                    with suppress(ValueError, KeyError):  # an incomplete line
                        event = json.loads(line)
                        share = min(event["done"] / event["total"], 1.0) if event["total"] else None
                        name = f"{number}:{event['stage']}"
                        done = bool(event["finished"])
                        found[name] = StageShown(event["stage"], 1.0 if done else share, done, event["note"], number)
        return list(found.values())

    @property
    def phase(self) -> int | None:
        """Number of the current phase of a run; None for other commands."""
        if not self.words or self.words[0][0] != "synth":
            return None
        return max((_find_phase(stage) for stage in self.stages), default=0)

    @property
    def share(self) -> float:
        """Estimated completed share, from 0 to 1."""
        stages, phase = self.stages, self.phase
        if phase is None:
            return (sum(stage.share or 0.0 for stage in stages) + 0.2) / (len(stages) + 0.4)
        done = sum(stage.share or 0.0 for stage in stages if _find_phase(stage) == phase)
        part = min(done / _USUAL_STAGES[phase], 0.97)
        return _PHASE_ENDS[phase] + part * (_PHASE_ENDS[phase + 1] - _PHASE_ENDS[phase])

    @property
    def seconds_left(self) -> float | None:
        """Estimated time left of a run; None if it is unknown."""
        if self.phase is None or self.share < _EARLY or self.state != "running":
            return None
        return self.seconds * (1 - self.share) / self.share

    def answer(self, number: int = 0) -> dict[str, Any]:
        """Return the JSON result of a command; empty if there is none."""
        return dict(read_json(self.folder / f"answer-{number}") or {})

    @property
    def error(self) -> str:
        """Error message of the command that failed."""
        for number in range(len(self.words)):
            if found := self.answer(number).get("error"):
                return "\n".join(filter(None, [found.get("message", ""), found.get("spent") or ""]))
        said = [
            (self.folder / f"said-{number}").read_text(encoding="utf-8", errors="replace").strip()
            for number in range(len(self.words))
            if (self.folder / f"said-{number}").is_file()
        ]
        return next((text for text in reversed(said) if text), "The command ended without a message.")


def _find_phase(stage: StageShown) -> int:
    if stage.command or stage.name.startswith(_GENERATING):
        return 2
    return 0 if stage.name.startswith((*_DESCRIBING, "count")) else 1


def make_program_words(words: Sequence[str]) -> list[str]:
    """Return the program and its arguments for a `weft` command."""
    return [sys.executable, "-m", "weft.cli", *words]


class Jobs:
    """The jobs of one studio."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Path, _Child] = {}

    def start(self, place: Path, among: Callable[[], Sequence[Path]], ticket: str, make: Callable[[], Started]) -> Path:
        """Start commands in `place` and return their job folder, or that of an existing job in `among`.

        A job exists if it is running, or if the same form submission (`ticket`) started it. The lookup holds a lock:
        two tabs that submit at the same time start one run, with one charge.
        """
        with self._lock:
            for folder in among():
                there = self.job(folder)
                if there is not None and (there.state == "running" or there.ticket == ticket):
                    return folder
            folder, words = make()
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.iterdir():
                old.unlink()
            facts = {"words": [list(each) for each in words], "ticket": ticket, "began": time.time()}
            write_small_file(folder / "job.json", json.dumps(facts))
            self._running[folder] = _Child(folder, place, [list(each) for each in words])
            return folder

    def job(self, folder: Path) -> Job | None:
        """Return the job of a folder, or None."""
        facts = read_json(folder / "job.json")
        if facts is None:
            return None
        ended = read_json(folder / "ended.json")
        child = self._running.get(folder)
        if ended is not None:
            state: State = ended["state"]
            seconds = ended["seconds"]
        else:
            state = "running" if child is not None and child.alive else "lost"
            seconds = time.time() - facts["began"]
        words = tuple(tuple(each) for each in facts["words"])
        return Job(folder, words, facts["ticket"], state, seconds, facts["began"])

    def cancel(self, folder: Path) -> None:
        """Signal a job to end."""
        if child := self._running.get(folder):
            child.stop()

    def busy(self, under: Path) -> bool:
        """Whether a job is running below a folder."""
        return any(child.alive and under in folder.parents for folder, child in self._running.items())

    def close(self) -> None:
        """End all jobs and wait for them."""
        for child in self._running.values():
            child.stop()
        for child in self._running.values():
            child.join()


class _Child:
    """A thread that runs commands in sequence."""

    def __init__(self, folder: Path, place: Path, words: list[list[str]]) -> None:
        self._folder, self._place, self._words = folder, place, words
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        self._stopped.set()
        process = self._process
        if process is not None and process.poll() is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    def join(self) -> None:
        self._thread.join(_GRACE)

    def _run(self) -> None:
        began = time.monotonic()
        state: State = "done"
        for number, words in enumerate(self._words):
            code = self._command(number, words)
            if code:
                state = "cancelled" if self._stopped.is_set() else "failed"
                break
        ended = {"state": state, "seconds": time.monotonic() - began}
        write_small_file(self._folder / "ended.json", json.dumps(ended))

    def _command(self, number: int, words: Sequence[str]) -> int:
        if self._stopped.is_set():
            return 1
        with (
            (self._folder / f"answer-{number}").open("wb") as answer,
            (self._folder / f"said-{number}").open("wb") as said,
        ):
            self._process = subprocess.Popen(  # noqa: S603 (arguments are a list, no shell)
                make_program_words(words),
                cwd=self._place,
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=said,
                env={**os.environ, "WEFT_EVENTS": str(self._folder / f"events-{number}"), "NO_COLOR": "1"},
                start_new_session=True,  # Ctrl-C reaches only the studio, which ends its children itself
            )
            if os.name == "posix":
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)
            if self._stopped.is_set():
                self.stop()
            return self._process.wait()
