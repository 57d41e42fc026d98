"""File names and directory synchronisation, shared by all kinds of output files."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Wait until a folder's directory entries are on disk, without which a new or moved file may be lost."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


JOURNAL_ENDING = ".ledger.jsonl"
"""File name ending of journals next to an output."""
