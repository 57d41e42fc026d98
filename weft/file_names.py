"""What files of every sort need: names of records, and names that are safe on the disk."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Wait until the disk has a folder's names: a new or moved file is there only once they are."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


JOURNAL_ENDING = ".ledger.jsonl"
"""How journals are named that are kept beside an output."""
