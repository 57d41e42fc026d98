"""Journal and checkpoint files: every charge, and every released answer, is on disk before it is used.

A journal is a file of JSON lines. A run begins with a line {"run": id, "budget": ..., "accounting": ..., "adjacency":
..., "time": ...}; each charge follows as a line with the same run id, before the rows are read. Runs may append to one
file concurrently. A line cut short by a crash was never used: the next writer adds an empty line, and readers skip it.

A journal is PRIVATE: it names the table, and records when it was queried and by which runs. Only its owner can read the
file. It stores the table's path as a salted hash only, by which runs on the same table can be found.
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

_HASH_ROUNDS = 200_000  # paths are short and easy to guess: make each guess slow
_SALT = re.compile("[0-9a-f]{32}")


class Journal:
    """One run's access to a journal file."""

    def __init__(self, path: Path, run: str, header: Mapping[str, Any]) -> None:
        self._path = path
        self.run = run
        self._waiting: list[Mapping[str, Any]] = [header]

    @classmethod
    def begin(cls, path: Path, header: Mapping[str, Any]) -> Journal:
        """Open a run. Its header is written with its first charge: a rejected run leaves no file."""
        if not path.parent.is_dir() or path.is_dir():
            why = "it is a folder. Name a file" if path.is_dir() else "its folder does not exist. Make it first"
            raise OutputError(f"cannot write the budget journal {path}: {why}")
        return cls(path, secrets.token_hex(8), {"note": NOTE, **header})

    def write_stamp(self, text: str) -> None:
        """Append a warning, or keep it until the first charge."""
        self._note({"stamp": text})

    def write_bound(self, rows: int) -> None:
        """Append the contribution bound of all later charges."""
        self._note({"rows_per_unit": rows})

    def _note(self, record: Mapping[str, Any]) -> None:
        if self._waiting:
            self._waiting.append(record)
        else:
            self._append([record])

    def write(self, charge: Mapping[str, Any]) -> None:
        """Append a charge and wait until it is on disk; OutputError if that fails."""
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
                # One call: in append mode, the lines of concurrent runs are then not interleaved.
                if file.write(data) != len(data):
                    raise OSError("the line was written only in part; is the disk full?")
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(
                f"cannot write the budget journal {self._path} ({error.strerror or error}): the rows were not queried"
            ) from error


def fingerprint_table(journal: Path, identity: str) -> dict[str, str]:
    """Return a salted hash of a table's path or address, with the salt, which all journals of a folder share."""
    salt = _find_salt(journal) or secrets.token_hex(16)
    named = identity.encode("utf-8", "surrogateescape")
    made = hashlib.pbkdf2_hmac("sha256", named, bytes.fromhex(salt), _HASH_ROUNDS, dklen=16)
    return {"salt": salt, "fingerprint": made.hex()}


def _find_salt(journal: Path) -> str | None:
    for path in (journal, *sorted(journal.parent.glob(f"*{JOURNAL_ENDING}"))):
        with suppress(WeftError):  # ignore damaged journals
            for run in read_journal(path) if path.is_file() else ():
                if _SALT.fullmatch(str(run.header.get("salt"))):
                    return str(run.header["salt"])
    return None


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _lock_file(file: FileIO) -> None:
    # No other run may write between reading the last byte and appending a line. Closing the file unlocks it.
    if os.name == "posix":
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX)


def _last_byte(file: FileIO) -> bytes:
    file.seek(-1, os.SEEK_END)
    return file.read(1)


@dataclass(frozen=True)
class Run:
    """One run as recorded in a journal."""

    run: str
    header: Mapping[str, Any]
    """Budget, accounting, adjacency, capacity and start time."""
    charges: tuple[Mapping[str, Any], ...]
    stamps: tuple[str, ...]
    """Warnings, such as NOT PRIVATE."""

    @property
    def spent(self) -> float:
        """Sum of the costs, in the unit of the run's accounting."""
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
            elif "rows_per_unit" in record:
                headers[run]["adjacency"] |= {"rows_per_unit": int(record["rows_per_unit"])}
            else:
                if not float(record["cost"]) >= 0:
                    raise ValueError("a cost cannot be negative")
                charges[run].append(record)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if last or (number + 1 < len(lines) and lines[number] == ""):
                continue
            raise DataError(
                f"line {number} of the budget journal {path} is damaged: restore a backup, or start a new journal"
            ) from error
    return [Run(run, header, tuple(charges[run]), tuple(stamps[run])) for run, header in headers.items()]


ENDING = ".checkpoint"

_MAGIC = b"weft checkpoint 1\n"
_HASH = 32
_MAX_RECORD_LENGTH = 1 << 40


class Checkpoint:
    """One run's access to its checkpoint: the released answers with which an interrupted run can be completed.

    Privacy: completing a run draws nothing a second time. Noisy answers are on disk before they are used; nothing else
    about the rows is: no exact count, and no coin that partitioned them. The result is a function of the answers, the
    settings and the sampling seed, so it can be computed again. A record cut short by a crash is ignored.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def begin(cls, path: Path, header: Mapping[str, Any]) -> Checkpoint:
        """Create the file, readable by its owner only, with the run's header; OutputError if it exists."""
        made = cls(path)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            raise made._failed(error) from None
        made._append(_MAGIC + _encode_record({"header": dict(header)}, []))
        return made

    def add(self, charge: Charge, released: Sequence[Array]) -> None:
        """Append the answers to a charge and wait until they are on disk."""
        self._append(_encode_record({"charge": charge.to_dict()}, released))

    def _append(self, data: bytes) -> None:
        try:
            with open(self._path, "ab", opener=_open_own_file) as file:
                file.write(data)
                file.flush()  # writes everything or raises; a single system call may write only a part
                os.fsync(file.fileno())
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> OutputError:
        return OutputError(f"cannot write the checkpoint {self._path} ({error.strerror or type(error).__name__})")


def _open_own_file(path: str, flags: int) -> int:
    """Open a file readable by its owner only, creating it again if it was removed; a symbolic link is refused."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


class Recorded:
    """Records every answer before it is used. Coins that partition the rows are not answers, and stay secret."""

    def __init__(self, release: Release, checkpoint: Checkpoint) -> None:
        self._release, self._checkpoint = release, checkpoint
        self.private = release.private
        self.noise = getattr(release, "noise", None)

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Release and record the answers to a charged query."""
        released = self._release(charge, exact)
        if not charge.definition.divides_rows:
            self._checkpoint.add(charge, released)
        return released


class Replayed:
    """Returns the recorded answers of an interrupted run in their order; any other query is refused."""

    def __init__(self, answers: Sequence[tuple[Charge, list[Array]]], private: bool) -> None:
        self._answers = list(answers)
        self._used = 0
        self.private = private

    @property
    def left(self) -> int:
        """Number of recorded answers not yet used."""
        return len(self._answers) - self._used

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Return the recorded answers to this charge; BudgetError if none: nothing may be drawn again."""
        if charge.definition.divides_rows:
            return [np.zeros(len(names), np.uint64) for names in exact]  # a replay has no rows to partition
        if self._used == len(self._answers):
            raise BudgetError(
                "this run was interrupted before its last query and cannot be completed, because the remaining queries "
                "were never answered. Its spending stands; start a new run with the remaining budget"
            )
        recorded, released = self._answers[self._used]
        if recorded.to_dict() != charge.to_dict():
            raise BudgetError(
                "this run cannot be completed here: with its answers, this version of Weft on this machine makes "
                "different queries. Complete it with the version and machine that started it"
            )
        self._used += 1
        return released


def read_checkpoint(path: Path) -> tuple[dict[str, Any], list[tuple[Charge, list[Array]]]]:
    """Return a run's header and its answers; DataError if the file has another format or is damaged before its end."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or 'it cannot be read'}") from None
    if not data.startswith(_MAGIC):
        raise DataError(f"{path} is not a checkpoint of this version of Weft")
    at, records = len(_MAGIC), []
    while at + 8 + _HASH <= len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        body = data[at + 8 + _HASH : at + 8 + _HASH + length] if length < _MAX_RECORD_LENGTH else b""
        if len(body) != length:
            break  # cut short by a crash
        if hashlib.sha256(body).digest() != data[at + 8 : at + 8 + _HASH]:
            raise DataError(f"{path} is damaged; restore it from a backup")
        records.append(_decode_record(body))
        at += 8 + _HASH + length
    if not records or "header" not in records[0][0]:
        raise DataError(f"{path} was cut short before the first query of the run: start a new run")
    return records[0][0]["header"], [(Charge.from_dict(said["charge"]), arrays) for said, arrays in records[1:]]


def _encode_record(said: Mapping[str, Any], arrays: Sequence[Array]) -> bytes:
    """Encode a record: length, hash, JSON header, and arrays, each in the smallest integer type that holds it."""
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
