"""A file of released answers: what a run that dies needs to be finished without a second draw of anything.

Each noisy answer is on the disk before anybody uses it. Nothing else of the rows is in the file: no exact count, and no
coin that divided them. What a run makes of its answers follows from these, its settings and its seed, so that somebody
who has the file can make it again. A record that a crash cut short counts as none.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import BudgetError, DataError, OutputError
from weft.marginals.marginal import Array
from weft.privacy.charge import Charge
from weft.privacy.mechanisms import Release

ENDING = ".checkpoint"

_MAGIC = b"weft checkpoint 1\n"
_HASH = 32
_LONGEST = 1 << 40


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
        made._append(_MAGIC + _record({"header": dict(header)}, []))
        return made

    def add(self, charge: Charge, released: Sequence[Array]) -> None:
        """Append the answers to a charge, and wait until the disk has them."""
        self._append(_record({"charge": charge.to_dict()}, released))

    def _append(self, data: bytes) -> None:
        try:
            with open(self._path, "ab", opener=_own) as file:
                file.write(data)
                file.flush()  # all of it, or an error: one call to the system may write a part
                os.fsync(file.fileno())
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> OutputError:
        return OutputError(f"cannot write the checkpoint {self._path} ({error.strerror or type(error).__name__})")


def _own(path: str, flags: int) -> int:
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
        if charge.mechanism != "coins":
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
        if charge.mechanism == "coins":
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
        body = data[at + 8 + _HASH : at + 8 + _HASH + length] if length < _LONGEST else b""
        if len(body) != length:
            break  # cut short by a crash
        if hashlib.sha256(body).digest() != data[at + 8 : at + 8 + _HASH]:
            raise DataError(f"{path} is damaged; restore it from a copy")
        records.append(_read(body))
        at += 8 + _HASH + length
    if not records or "header" not in records[0][0]:
        raise DataError(f"{path} was cut short before the run asked anything: start a new one")
    return records[0][0]["header"], [(Charge.from_dict(said["charge"]), arrays) for said, arrays in records[1:]]


def _record(said: Mapping[str, Any], arrays: Sequence[Array]) -> bytes:
    """Return a record: its length, its hash, what it says in JSON, and arrays, each in the smallest type for it."""
    body = io.BytesIO()
    head = json.dumps({**said, "types": [np.asarray(array).dtype.str for array in arrays]}).encode()
    body.write(len(head).to_bytes(8, "little") + head)
    for array in arrays:
        np.save(body, _small(np.asarray(array)), allow_pickle=False)
    octets = body.getvalue()
    return len(octets).to_bytes(8, "little") + hashlib.sha256(octets).digest() + octets


def _small(array: Array) -> Array:
    if array.dtype.kind != "i" or not array.size:
        return array
    least, most = int(array.min()), int(array.max())
    return array.astype(np.promote_types(np.min_scalar_type(min(least, -1)), np.min_scalar_type(-max(most + 1, 1))))


def _read(body: bytes) -> tuple[dict[str, Any], list[Array]]:
    file = io.BytesIO(body)
    said = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return said, [np.load(file, allow_pickle=False).astype(kind) for kind in said["types"]]
