"""Files that appear whole or not at all, and several that appear as one.

Each file is first written as a draft beside its target (`.NAME.MARK.part`), which the writer holds a lock on: a draft
without a lock belongs to nobody and is removed by the next writer of the same file.

Several files cannot be moved in one step, so a reader could find a new table beside an old card that promises less
privacy loss. Therefore a small record (`.NAME.MARK.commit`) is written once all drafts are on the disk; then everything
but the first file is taken away, the card first of all, and the drafts are moved in their order, the card last of all.
Whenever this is cut short, a reader sees the old files, or a first file without the others, or the new ones; and since
the drafts are complete, whoever comes next finishes the moves (`recover_files`). Writers of one folder take turns by a
lock on it. Where the system knows no such locks, nothing is recovered and nobody's draft is removed.
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
"""Seconds to wait for another process that is moving files into the same folder; it takes an instant."""

_MARK = "[0-9a-f]{8}"
_RECORD = re.compile(rf"\.(?P<name>.+)\.(?P<mark>{_MARK})\.commit", re.DOTALL)
_DRAFT = re.compile(rf"\.(?P<name>.+)\.(?P<mark>{_MARK})\.part", re.DOTALL)


@contextmanager
def stage_files(*targets: Path) -> Iterator[Sequence[Path]]:
    """Lend an empty draft for each target; on success all are moved into place, on failure none is.

    Several targets must lie in one folder, and be ordered as they depend on each other: what describes the others comes
    last. A full disk, an exception or Ctrl-C leaves the targets as they were and no draft behind.
    """
    folder = targets[0].parent
    assert all(target.parent == folder for target in targets), "files that appear as one lie in one folder"
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
                if not commit.record.exists():  # else they are the next one's to move
                    draft.unlink(missing_ok=True)


def recover_files(folder: Path, names: Sequence[str] | None = None) -> list[str]:
    """Finish moves that were cut short, and remove drafts that nobody works on; say what was done.

    `names` are the targets that this is about (None: all in the folder). What cannot be mended is left as it is.
    """
    found = [entry.name for entry in os.scandir(folder) if entry.name.endswith((".commit", ".part"))]
    records = [name for name in found if _RECORD.fullmatch(name)]
    told: list[str] = []
    if records:
        with _hold_folder(folder) as ours, suppress(OSError):
            # Whoever writes a record does so in its turn, and this is ours: its writer is gone.
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
    """Finish what a record speaks of, or remove one that cannot be finished; None if it is about other files."""
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
    """Complete drafts that are to become files of one folder, in this order."""

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
        """Read a record; None if it is none, or speaks of drafts that are not of its folder and mark.

        Whoever may write into the folder can write a record, but only such as move drafts of that folder.
        """
        named = _RECORD.fullmatch(record.name)
        try:
            files = json.loads(record.read_bytes())["files"]
            commit = cls(record.parent, named["mark"] if named else "", tuple(file["target"] for file in files))
            plain = all(name == os.path.basename(name) and name not in ("", ".", "..") for name in commit.names)  # noqa: PTH119
            if not plain or commit.record.name != record.name:
                return None
            for file, draft in zip(files, commit.drafts, strict=True):
                # A draft that is gone must have become its target.
                place = record.parent / (draft if (record.parent / draft).exists() else file["target"])
                if hash_file(place) != file["sha256"]:
                    return None
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return None
        return commit

    def write(self) -> None:
        """Put the record on the disk."""
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
        """Move the drafts; may be called again wherever an earlier call was cut short."""
        waiting = [
            (self.folder / draft, self.folder / name) for draft, name in zip(self.drafts, self.names, strict=True)
        ]
        if waiting[0][0].exists():  # the first file is still the old one: what tells of it must go before it does
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
    """Move complete drafts into place, as one."""
    if len(commit.names) == 1:
        (commit.folder / commit.drafts[0]).replace(commit.folder / commit.names[0])
        sync_folder(commit.folder)
        return
    with _hold_folder(commit.folder):
        try:
            _write_commit(commit)
        except KeyboardInterrupt:  # or a signal like it: the drafts are whole, so that finishing is the way out
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
            f"cannot put {', '.join(commit.names)} in place: {error.strerror}. They are complete, in hidden files "
            "beside it: the next command that writes there, or `weft verify`, finishes this."
        ) from None


@contextmanager
def _create_locked_draft(draft: Path) -> Iterator[None]:
    """Make an empty draft and keep a lock on it, by which others know that somebody works on it."""
    while True:
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            _try_lock(handle)
            # Between the two lines above, somebody may have taken it for abandoned and removed it.
            if draft.exists() and os.path.samestat(os.fstat(handle), draft.stat()):
                if os.name != "posix":  # an open file cannot be moved there
                    os.close(handle)
                    handle = -1
                yield
                return
        finally:
            if handle >= 0:
                os.close(handle)


def _is_abandoned(draft: Path) -> bool:
    """Whether nobody holds a lock on a draft; False where that cannot be told."""
    with suppress(OSError):
        handle = os.open(draft, os.O_RDWR)
        try:
            return _try_lock(handle, wait=False) is True
        finally:
            os.close(handle)
    return False


@contextmanager
def _hold_folder(folder: Path) -> Iterator[bool]:
    """Wait until nobody else moves files into a folder, and hold it; False where the system knows no such locks."""
    if os.name != "posix":
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        end = time.monotonic() + PATIENCE
        while (held := _try_lock(handle, wait=False)) is False:
            if time.monotonic() > end:
                raise OutputError(f"another process is writing into {folder}: try again when it has ended.")
            time.sleep(0.01)
        yield held is True
    finally:
        os.close(handle)


def _try_lock(handle: int, *, wait: bool = True) -> bool | None:
    """Lock an open file; False if somebody else holds it, None if the system knows no such locks."""
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


def _flush_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def check_writable(target: Path) -> None:
    """Refuse a target that cannot be written, before any budget is spent on it."""
    check_appendable(target)
    if target.exists() and not target.is_file():  # what is moved into its place would take a device away
        raise OutputError(f"cannot write {target}: it is there already and no plain file. Choose another name.")


def check_appendable(target: Path) -> None:
    """Refuse a file that nothing can be appended to, or whose folder takes no new file."""
    folder = target.parent
    try:
        if not folder.is_dir():
            raise OutputError(f"cannot write {target}: the folder {folder} does not exist. Make it first.")
        if target.is_dir():
            raise OutputError(f"cannot write {target}: it is a folder. Name a file in it.")
    except (OSError, ValueError) as error:  # a name that is too long, or holds a null
        reason = getattr(error, "strerror", None) or "it is no name for a file"
        raise OutputError(f"cannot write {target}: {reason}. Choose another name.") from None
    if not os.access(folder, os.W_OK):
        raise OutputError(f"cannot write {target}: no permission to write in {folder}.")
