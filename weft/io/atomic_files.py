"""Write files atomically, alone or several as one transaction.

Each file is first written as a draft in the folder of its target (`.NAME.MARK.part`). The writer holds a lock on it: a
draft without a lock is abandoned, and the next writer of the same file removes it.

Several files cannot be moved in one step, so a reader could find a new table with an old card that promises less
privacy loss. Therefore a commit record (`.NAME.MARK.commit`) is written once all drafts are on disk; then all targets
but the first are deleted, the card first, and the drafts are moved in order, the card last. After an interruption at
any point, a reader sees the old files, or a first file without the others, or the new files; since the drafts are
complete, the next process finishes the moves (`recover_files`). Writers to one folder take turns by locking it. On
systems without such locks, nothing is recovered and no draft of another writer is removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from weft.errors import OutputError
from weft.file_names import sync_folder

PATIENCE = 60.0
"""Seconds to wait for another process that is moving files into the same folder; a move takes milliseconds."""

_MARK = "[0-9a-f]{8}"
_RECORD = re.compile(rf"\.(?P<name>.+)\.(?P<mark>{_MARK})\.commit", re.DOTALL)
_DRAFT = re.compile(rf"\.(?P<name>.+)\.(?P<mark>{_MARK})\.part", re.DOTALL)


@contextmanager
def stage_files(*targets: Path) -> Iterator[Sequence[Path]]:
    """Provide an empty draft for each target; move all of them into place on success, and none on failure.

    Several targets must be in one folder and in order of dependency: the file that describes the others comes last.
    After a full disk, an exception or Ctrl-C, the targets are unchanged and no draft is left behind.
    """
    folder = targets[0].parent
    assert all(target.parent == folder for target in targets), "all files of one transaction must be in one folder"
    commit = _Commit(folder, secrets.token_hex(4), tuple(target.name for target in targets))
    drafts = [folder / draft for draft in commit.drafts]
    with ExitStack() as held:
        try:
            recover_files(folder, [target.name for target in targets])
            for draft in drafts:
                held.enter_context(_create_locked_draft(draft))
            yield drafts
            for draft in drafts:
                _flush_file(draft)
            _move_drafts(commit)
        except OSError as error:
            names = ", ".join(str(target) for target in targets)
            reason = error.strerror or type(error).__name__
            raise OutputError(f"cannot write {names}: {reason}. Nothing was left behind.") from None
        finally:
            for draft in drafts:
                if not commit.record.exists():  # else the next process moves them
                    draft.unlink(missing_ok=True)


def _flush_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def recover_files(folder: Path, names: Sequence[str] | None = None) -> list[str]:
    """Finish interrupted moves and remove abandoned drafts; return a description of each action.

    `names` restricts this to some targets (None: all in the folder). Files that cannot be recovered are left unchanged.
    """
    found = [entry.name for entry in os.scandir(folder) if entry.name.endswith((".commit", ".part"))]
    records = [name for name in found if _RECORD.fullmatch(name)]
    told: list[str] = []
    if records:
        with _hold_folder(folder) as ours, suppress(OSError):
            # Records are written only while holding the folder's lock, which is ours now: their writers have ended.
            told += [did for name in records if ours and (did := _finish_commit(folder / name, names))]
    left = {mark["mark"] for name in records if (folder / name).exists() and (mark := _RECORD.fullmatch(name))}
    for name in found:
        draft = _DRAFT.fullmatch(name)
        if draft and (names is None or draft["name"] in names) and draft["mark"] not in left:
            with suppress(OSError):
                if _is_abandoned(folder / name):
                    (folder / name).unlink(missing_ok=True)
                    told.append(f"removed {name}, which an interrupted run left behind")
    return told


def _finish_commit(record: Path, names: Sequence[str] | None) -> str | None:
    """Finish the moves of a record, or remove a record that cannot be finished; None if it is about other files."""
    named, commit = _RECORD.fullmatch(record.name), _Commit.read(record)
    about = [named["name"]] if commit is None and named else commit.names if commit else []
    if names is not None and set(names).isdisjoint(about):
        return None
    if commit is None:
        record.unlink(missing_ok=True)
        return f"removed {record.name}, a release that cannot be finished"
    commit.finish()
    return f"finished the interrupted release of {', '.join(commit.names)}"


@dataclass(frozen=True)
class _Commit:
    """Complete drafts to be moved into place in one folder, in this order."""

    folder: Path
    mark: str
    names: tuple[str, ...]

    @property
    def record(self) -> Path:
        return self.folder / f".{self.names[-1]}.{self.mark}.commit"

    @property
    def drafts(self) -> list[str]:
        return [f".{name}.{self.mark}.part" for name in self.names]

    @classmethod
    def read(cls, record: Path) -> _Commit | None:
        """Read a record; None if it is invalid: even a forged record can only move drafts of its folder and mark."""
        named = _RECORD.fullmatch(record.name)
        try:
            files = json.loads(record.read_bytes())["files"]
            commit = cls(record.parent, named["mark"] if named else "", tuple(file["target"] for file in files))
            plain = all(name == os.path.basename(name) and name not in ("", ".", "..") for name in commit.names)  # noqa: PTH119
            if not plain or commit.record.name != record.name:
                return None
            for file, draft in zip(files, commit.drafts, strict=True):
                # A missing draft must have been moved to its target.
                place = record.parent / (draft if (record.parent / draft).exists() else file["target"])
                if hash_file(place) != file["sha256"]:
                    return None
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return None
        return commit

    def write(self) -> None:
        files = [
            {"target": name, "draft": draft, "sha256": hash_file(self.folder / draft)}
            for name, draft in zip(self.names, self.drafts, strict=True)
        ]
        with self.record.open("x", encoding="utf-8") as file:
            json.dump({"commit": 1, "files": files}, file)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self.folder)

    def finish(self) -> None:
        """Move the drafts; safe to repeat after an interruption at any point."""
        waiting = [
            (self.folder / draft, self.folder / name) for draft, name in zip(self.drafts, self.names, strict=True)
        ]
        if waiting[0][0].exists():  # the old first file is in place: delete what describes it first
            for _, target in reversed(waiting[1:]):
                target.unlink(missing_ok=True)
            sync_folder(self.folder)
        for draft, target in waiting:
            with suppress(FileNotFoundError):
                draft.replace(target)
        sync_folder(self.folder)
        self.record.unlink(missing_ok=True)
        sync_folder(self.folder)


def _move_drafts(commit: _Commit) -> None:
    if len(commit.names) == 1:
        (commit.folder / commit.drafts[0]).replace(commit.folder / commit.names[0])
        sync_folder(commit.folder)
        return
    with _hold_folder(commit.folder):
        try:
            _write_commit(commit)
        except KeyboardInterrupt:  # or a similar signal: the drafts are complete, so finish the moves
            if commit.record.exists():
                commit.finish()
            raise


def _write_commit(commit: _Commit) -> None:
    try:
        commit.write()
    except OSError:
        commit.record.unlink(missing_ok=True)
        raise
    try:
        commit.finish()
    except OSError as error:
        raise OutputError(
            f"cannot move {', '.join(commit.names)} into place: {error.strerror}. The files are complete, under hidden "
            "names in the same folder: the next command that writes there, or `weft verify`, finishes the release."
        ) from None


@contextmanager
def _create_locked_draft(draft: Path) -> Iterator[None]:
    """Create an empty draft and hold a lock on it, which marks it as in use."""
    while True:
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            _try_lock(handle)
            # Between the two lines above, another process may have removed the draft as abandoned.
            if draft.exists() and os.path.samestat(os.fstat(handle), draft.stat()):
                if os.name != "posix":  # Windows cannot move an open file
                    os.close(handle)
                    handle = -1
                yield
                return
        finally:
            if handle >= 0:
                os.close(handle)


def _is_abandoned(draft: Path) -> bool:
    """Whether no process holds a lock on a draft; False if this cannot be determined."""
    with suppress(OSError):
        handle = os.open(draft, os.O_RDWR)
        try:
            return _try_lock(handle, wait=False) is True
        finally:
            os.close(handle)
    return False


@contextmanager
def _hold_folder(folder: Path) -> Iterator[bool]:
    """Wait for the lock on a folder and hold it; yield False on systems without such locks."""
    if os.name != "posix":
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        end = time.monotonic() + PATIENCE
        while (held := _try_lock(handle, wait=False)) is False:
            if time.monotonic() > end:
                raise OutputError(f"another process is writing to {folder}: try again when it has ended.")
            time.sleep(0.01)
        yield held is True
    finally:
        os.close(handle)


def _try_lock(handle: int, *, wait: bool = True) -> bool | None:
    """Lock an open file; False if another process holds the lock, None on systems without such locks."""
    if os.name != "posix":
        return None
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_writable(target: Path) -> None:
    """Refuse a target that cannot be written, before any budget is spent on it."""
    check_appendable(target)
    if target.exists() and not target.is_file():  # moving a file there would replace a device
        raise OutputError(f"cannot write {target}: it exists and is no plain file. Choose another name.")


def check_appendable(target: Path) -> None:
    """Refuse a file that cannot be appended to, or whose folder is not writable."""
    folder = target.parent
    try:
        if not folder.is_dir():
            raise OutputError(f"cannot write {target}: the folder {folder} does not exist. Create it first.")
        if target.is_dir():
            raise OutputError(f"cannot write {target}: it is a folder. Name a file in it.")
    except (OSError, ValueError) as error:  # a name that is too long, or contains a null byte
        reason = getattr(error, "strerror", None) or "it is not a valid file name"
        raise OutputError(f"cannot write {target}: {reason}. Choose another name.") from None
    if not os.access(folder, os.W_OK):
        raise OutputError(f"cannot write {target}: no permission to write in {folder}.")
