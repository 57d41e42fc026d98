"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from weft.errors import OutputError


@contextmanager
def staged(*targets: Path) -> Iterator[Sequence[Path]]:
    """Lend a temporary path for each target; on success all are moved into place, on failure none is.

    A full disk, an exception or Ctrl-C leaves the targets as they were and no temporary file behind.
    """
    mark = secrets.token_hex(4)
    drafts = [target.with_name(f".{target.name}.{mark}.part") for target in targets]
    try:
        yield drafts
        for draft in drafts:
            _flush(draft)
        for draft, target in zip(drafts, targets, strict=True):
            draft.replace(target)
    except OSError as error:
        names = ", ".join(str(target) for target in targets)
        reason = error.strerror or type(error).__name__
        raise OutputError(f"cannot write {names}: {reason}. Nothing was left behind.") from None
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)


def _flush(path: Path) -> None:
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
