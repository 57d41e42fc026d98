"""A file of JSON lines that outlives a crash: every charge is on the disk before the rows are read.

A run begins with a line {"run": id, "budget": ..., "accounting": ..., "adjacency": ..., "time": ...}; each
charge follows as a line with the same run id. Runs append to one file, also at the same time. A line cut
short by a crash was never acted upon; the next writer ends it with an empty line, and readers skip it.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from weft.errors import DataError, OutputError
from weft.files import sync_folder


class Journal:
    """One run's hand on a journal file."""

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self.run = run

    @classmethod
    def begin(cls, path: Path, header: Mapping[str, Any]) -> Journal:
        """Open a run: write its first line."""
        journal = cls(path, secrets.token_hex(8))
        journal.write(header)
        sync_folder(path.parent)
        return journal

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a line and wait until the disk has it; OutputError if that fails."""
        line = json.dumps({"run": self.run, **record}) + "\n"
        try:
            with self._path.open("ab+", buffering=0) as file:
                _lock(file)
                if file.tell() and _last_byte(file) != b"\n":
                    line = "\n\n" + line
                data = line.encode()
                # One call: in append mode, the lines of simultaneous runs then stay whole.
                if file.write(data) != len(data):
                    raise OSError("the line was written in part; is the disk full?")
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(
                f"cannot write the budget journal {self._path} ({error.strerror or error}): "
                "nothing was asked of the rows"
            ) from error


def _lock(file: FileIO) -> None:
    # Between a look at the last byte and the line that follows it, no other run may write. Closing unlocks.
    if os.name == "posix":
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX)


def _last_byte(file: FileIO) -> bytes:
    file.seek(-1, os.SEEK_END)
    return file.read(1)


@dataclass(frozen=True)
class Run:
    """One run as its journal tells it."""

    run: str
    """Random id."""
    header: Mapping[str, Any]
    """Budget, accounting, adjacency, capacity and time of the start."""
    charges: tuple[Mapping[str, Any], ...]
    """The charges, in order."""
    stamps: tuple[str, ...]
    """Warnings, such as NOT PRIVATE."""

    @property
    def spent(self) -> float:
        """Sum of the costs, in the units of the run's accounting."""
        return math.fsum(float(charge["cost"]) for charge in self.charges)


def read_journal(path: Path) -> list[Run]:
    """Read all runs, oldest first. A line cut short by a crash is skipped; any other damage is an error."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the budget journal {path}: {error}") from error
    lines = text.split("\n")
    headers: dict[str, dict[str, Any]] = {}
    charges: dict[str, list[dict[str, Any]]] = {}
    stamps: dict[str, list[str]] = {}
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        last = number == len(lines)  # no newline after it
        try:
            record = json.loads(line)
            run = record.pop("run")
            if "budget" in record:
                headers[run], charges[run], stamps[run] = record, [], []
            elif "stamp" in record:
                stamps[run].append(str(record["stamp"]))
            else:
                if not float(record["cost"]) >= 0:
                    raise ValueError("a cost cannot be negative")
                charges[run].append(record)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if last or (number + 1 < len(lines) and lines[number] == ""):
                continue
            raise DataError(
                f"line {number} of the budget journal {path} is damaged: restore the file from a copy, "
                "or keep it aside and begin a new one"
            ) from error
    return [Run(run, header, tuple(charges[run]), tuple(stamps[run])) for run, header in headers.items()]
