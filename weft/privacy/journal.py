"""A file of JSON lines that outlives a crash: every charge is on the disk before the rows are read.

A run begins with a line {"run": id, "budget": ..., "accounting": ..., "adjacency": ..., "time": ...}; each
charge follows as a line with the same run id. Runs append to one file, also at the same time. A line cut
short by a crash was never acted upon; the next writer ends it with an empty line, and readers skip it.

A journal is PRIVATE: it names the table, and tells when it was queried and by which runs. Only its owner can read the
file, and of the table's path it holds a salted hash alone, by which runs on the same table are found.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import BudgetError, DataError, OutputError, WeftError
from weft.file_names import JOURNAL_ENDING, sync_folder
from weft.marginals.marginal import Array
from weft.privacy.charge import Charge
from weft.privacy.mechanisms import Release

NOTE = "PRIVATE: for the curator of the table, and no part of a release"
"""What every run says of its journal."""

_HASH_ROUNDS = 200_000  # a path is short and can be guessed: each guess shall take a while
_SALT = re.compile("[0-9a-f]{32}")


class Journal:
    """One run's hand on a journal file."""

    def __init__(self, path: Path, run: str, header: Mapping[str, Any]) -> None:
        self._path = path
        self.run = run
        self._waiting: list[Mapping[str, Any]] = [header]

    @classmethod
    def begin(cls, path: Path, header: Mapping[str, Any]) -> Journal:
        """Open a run. Its first line is written with its first charge: a run that is refused leaves no file."""
        if not path.parent.is_dir() or path.is_dir():
            why = "it is a folder. Name a file" if path.is_dir() else "its folder does not exist. Make it first"
            raise OutputError(f"cannot write the budget journal {path}: {why}")
        return cls(path, secrets.token_hex(8), {"note": NOTE, **header})

    def write_stamp(self, text: str) -> None:
        """Append a warning, or keep it until the first charge."""
        if self._waiting:
            self._waiting.append({"stamp": text})
        else:
            self._append([{"stamp": text}])

    def write(self, charge: Mapping[str, Any]) -> None:
        """Append a charge and wait until the disk has it; OutputError if that fails."""
        self._append([*self._waiting, charge])
        if self._waiting:
            sync_folder(self._path.parent)
            self._waiting.clear()

    def _append(self, records: Sequence[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps({"run": self.run, **record}) + "\n" for record in records)
        try:
            with open(self._path, "ab+", buffering=0, opener=_open_private) as file:
                _lock_file(file)
                if file.tell() and _last_byte(file) != b"\n":
                    text = "\n\n" + text
                data = text.encode()
                # One call: in append mode, the lines of simultaneous runs then stay whole, and together.
                if file.write(data) != len(data):
                    raise OSError("the line was written in part; is the disk full?")
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(
                f"cannot write the budget journal {self._path} ({error.strerror or error}): "
                "nothing was asked of the rows"
            ) from error


def fingerprint_table(journal: Path, identity: str) -> dict[str, str]:
    """Return a salted hash of a table's path or address, with its salt.

    All journals of a folder share a salt, so that runs on the same table are found among them; who knows the hash alone
    cannot look up the path.
    """
    salt = _find_salt(journal) or secrets.token_hex(16)
    named = identity.encode("utf-8", "surrogateescape")
    made = hashlib.pbkdf2_hmac("sha256", named, bytes.fromhex(salt), _HASH_ROUNDS, dklen=16)
    return {"salt": salt, "fingerprint": made.hex()}


def _find_salt(journal: Path) -> str | None:
    """Return the salt that a journal has, or another one in its folder."""
    for path in (journal, *sorted(journal.parent.glob(f"*{JOURNAL_ENDING}"))):
        with suppress(WeftError):  # a damaged one is none
            for run in read_journal(path) if path.is_file() else ():
                if _SALT.fullmatch(str(run.header.get("salt"))):
                    return str(run.header["salt"])
    return None


def _open_private(path: str, flags: int) -> int:
    """Open a file that, if it is new, only its owner can read."""
    return os.open(path, flags, 0o600)


def _lock_file(file: FileIO) -> None:
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


# A file of released answers: what a run that dies needs to be finished without a second draw of anything.

ENDING = ".checkpoint"

_MAGIC = b"weft checkpoint 1\n"
_HASH = 32
_MAX_RECORD_LENGTH = 1 << 40


class Checkpoint:
    """One run's hand on its checkpoint."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def begin(cls, path: Path, header: Mapping[str, Any]) -> Checkpoint:
        """Make the file, readable by its owner alone, and write down what the run is; OutputError if it is there."""
        made = cls(path)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            raise made._failed(error) from None
        made._append(_MAGIC + _encode_record({"header": dict(header)}, []))
        return made

    def add(self, charge: Charge, released: Sequence[Array]) -> None:
        """Append the answers to a charge, and wait until the disk has them."""
        self._append(_encode_record({"charge": charge.to_dict()}, released))

    def _append(self, data: bytes) -> None:
        try:
            with open(self._path, "ab", opener=_open_own_file) as file:
                file.write(data)
                file.flush()  # all of it, or an error: one call to the system may write a part
                os.fsync(file.fileno())
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> OutputError:
        return OutputError(f"cannot write the checkpoint {self._path} ({error.strerror or type(error).__name__})")


def _open_own_file(path: str, flags: int) -> int:
    """Open a file that is the owner's alone, also where somebody has taken it away; a link in its place is refused."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


class Recorded:
    """Writes down every answer before it is used. Coins that divide rows are no answers, and stay secret."""

    def __init__(self, release: Release, checkpoint: Checkpoint) -> None:
        self._release, self._checkpoint = release, checkpoint
        self.private = release.private
        self.noise = getattr(release, "noise", None)

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Release the answers to a question that has been paid for."""
        released = self._release(charge, exact)
        if not charge.definition.divides_rows:
            self._checkpoint.add(charge, released)
        return released


class Replayed:
    """Gives the answers of a run that died, in their order; asked for anything else, it refuses."""

    def __init__(self, answers: Sequence[tuple[Charge, list[Array]]], private: bool) -> None:
        self._answers = list(answers)
        self._used = 0
        self.private = private

    @property
    def left(self) -> int:
        """Answers that nobody has asked for."""
        return len(self._answers) - self._used

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Return what was released for this charge. BudgetError if nothing was, for nothing may be drawn anew."""
        if charge.definition.divides_rows:
            return [np.zeros(len(names), np.uint64) for names in exact]  # there are no rows here to be divided
        if self._used == len(self._answers):
            raise BudgetError(
                "this run died before its last question, and must not be finished: what it would ask next was never "
                "answered. What it spent stays spent; start a new run with what is left of the budget"
            )
        recorded, released = self._answers[self._used]
        if recorded.to_dict() != charge.to_dict():
            raise BudgetError(
                "this run cannot be finished: with its answers, this version of Weft on this machine asks something "
                "else. Finish it where it was begun"
            )
        self._used += 1
        return released


def read_checkpoint(path: Path) -> tuple[dict[str, Any], list[tuple[Charge, list[Array]]]]:
    """Return what a run is, and its answers; DataError if the file is none, or damaged before its last record."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or 'it cannot be read'}") from None
    if not data.startswith(_MAGIC):
        raise DataError(f"{path} is no checkpoint of this version of Weft")
    at, records = len(_MAGIC), []
    while at + 8 + _HASH <= len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        body = data[at + 8 + _HASH : at + 8 + _HASH + length] if length < _MAX_RECORD_LENGTH else b""
        if len(body) != length:
            break  # cut short by a crash
        if hashlib.sha256(body).digest() != data[at + 8 : at + 8 + _HASH]:
            raise DataError(f"{path} is damaged; restore it from a copy")
        records.append(_decode_record(body))
        at += 8 + _HASH + length
    if not records or "header" not in records[0][0]:
        raise DataError(f"{path} was cut short before the run asked anything: start a new one")
    return records[0][0]["header"], [(Charge.from_dict(said["charge"]), arrays) for said, arrays in records[1:]]


def _encode_record(said: Mapping[str, Any], arrays: Sequence[Array]) -> bytes:
    """Return a record: its length, its hash, what it says in JSON, and arrays, each in the smallest type for it."""
    body = io.BytesIO()
    head = json.dumps({**said, "types": [np.asarray(array).dtype.str for array in arrays]}).encode()
    body.write(len(head).to_bytes(8, "little") + head)
    for array in arrays:
        np.save(body, _shrink_array_type(np.asarray(array)), allow_pickle=False)
    octets = body.getvalue()
    return len(octets).to_bytes(8, "little") + hashlib.sha256(octets).digest() + octets


def _shrink_array_type(array: Array) -> Array:
    if array.dtype.kind != "i" or not array.size:
        return array
    least, most = int(array.min()), int(array.max())
    return array.astype(np.promote_types(np.min_scalar_type(min(least, -1)), np.min_scalar_type(-max(most + 1, 1))))


def _decode_record(body: bytes) -> tuple[dict[str, Any], list[Array]]:
    file = io.BytesIO(body)
    said = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return said, [np.load(file, allow_pickle=False).astype(kind) for kind in said["types"]]
