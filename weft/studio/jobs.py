"""Commands that the studio starts: children of its own, which outlive a closed tab and end with the studio.

A job is one command, or several of which each needs the one before. All that is known of it lies in its folder, so a
page that is opened later, or a studio that is started again, sees the same. Cancelling is the signal that ends any
command: what was paid for by then is on record, and no half-written file is left (decision 012).
"""

from __future__ import annotations

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
"""How far a run steps back behind the pages."""
_GRACE = 20.0
"""Seconds that a command may take to end by itself once it is asked to."""


@dataclass(frozen=True)
class StageShown:
    """A stage of a command as a page shows it."""

    name: str
    share: float | None
    """Part that is done, from 0 to 1; None: nobody knows how long it takes."""
    finished: bool
    note: str


@dataclass(frozen=True)
class Job:
    """A job as its folder tells of it."""

    folder: Path
    words: tuple[tuple[str, ...], ...]
    """The commands, without the program's name."""
    ticket: str
    """The press of a button that it began with."""
    state: State
    seconds: float
    began: float
    """When, in seconds since 1970."""

    @property
    def stages(self) -> list[StageShown]:
        """What it has told of its progress, in the order in which the stages began."""
        found: dict[str, StageShown] = {}
        for number in range(len(self.words)):
            with suppress(OSError):
                for line in (self.folder / f"events-{number}").read_text(encoding="utf-8").splitlines():
                    with suppress(ValueError, KeyError):  # a line that is being written
                        event = json.loads(line)
                        share = min(event["done"] / event["total"], 1.0) if event["total"] else None
                        name = f"{number}:{event['stage']}"
                        done = bool(event["finished"])
                        found[name] = StageShown(event["stage"], 1.0 if done else share, done, event["note"])
        return list(found.values())

    def answer(self, number: int = 0) -> dict[str, Any]:
        """Return what a command answered; nothing, if it has not."""
        return dict(read_json(self.folder / f"answer-{number}") or {})

    @property
    def error(self) -> str:
        """What the command said that failed, to the person at the screen."""
        for number in range(len(self.words)):
            if found := self.answer(number).get("error"):
                return "\n".join(filter(None, [found.get("message", ""), found.get("spent") or ""]))
        said = [
            (self.folder / f"said-{number}").read_text(encoding="utf-8", errors="replace").strip()
            for number in range(len(self.words))
            if (self.folder / f"said-{number}").is_file()
        ]
        return next((text for text in reversed(said) if text), "It ended without a word.")


def make_program_words(words: Sequence[str]) -> list[str]:
    """Return a command of `weft` as the system starts it."""
    return [sys.executable, "-m", "weft.cli", *words]


class Jobs:
    """The children of one studio."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Path, _Child] = {}

    def start(self, place: Path, among: Callable[[], Sequence[Path]], ticket: str, make: Callable[[], Started]) -> Path:
        """Start commands in a place, and return their folder; or that of the job among these which is there already.

        A job is there already if it runs, or if this very press of the button has started it. Which there are is looked
        up under a lock: two tabs that press at once start one run, and make one charge.
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
        """Return a job; None if there was none."""
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
        """Ask a job to end."""
        if child := self._running.get(folder):
            child.stop()

    def busy(self, under: Path) -> bool:
        """Whether a job runs below a folder."""
        return any(child.alive and under in folder.parents for folder, child in self._running.items())

    def close(self) -> None:
        """End all of them, and wait until they have."""
        for child in self._running.values():
            child.stop()
        for child in self._running.values():
            child.join()


class _Child:
    """A thread that runs commands one after the other."""

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
            self._process = subprocess.Popen(  # noqa: S603 (the words are a list, and no shell reads them)
                make_program_words(words),
                cwd=self._place,
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=said,
                env={**os.environ, "WEFT_EVENTS": str(self._folder / f"events-{number}"), "NO_COLOR": "1"},
                start_new_session=True,  # Ctrl-C in the terminal is for the studio, which then ends its children itself
            )
            if os.name == "posix":
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)
            if self._stopped.is_set():
                self.stop()
            return self._process.wait()
