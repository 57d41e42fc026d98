"""What the studio keeps: a folder that only its owner may read, and in it a folder for each table.

DESK/TABLE/facts.json     what the table is called, where it is, what was chosen on the pages
DESK/TABLE/schema.toml    what is said of its columns
DESK/TABLE/jobs/NAME/     a command that was started from a page: its words, its progress, what it answered
DESK/TABLE/runs/001/      what a run has made
DESK/removed/TABLE/       what was spent on a table that was taken off the desk
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from weft.errors import DataError
from weft.io.addresses import kind_of_address
from weft.io.atomic_files import stage_files
from weft.io.formats import format_of
from weft.io.output_paths import JOURNAL_ENDING

FACTS, SCHEMA = "facts.json", "schema.toml"
REMOVED, LIFETIME = "removed", "lifetime.budget"
_ID = re.compile(r"[0-9a-f]{12}")
_RUN = re.compile(r"\d{3,6}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Facts:
    """What was said of a table on the pages, beside its schema."""

    name: str
    source: str
    """The table as a command names it, from the table's folder."""
    kept: bool
    """Whether the studio holds a copy, which goes when the table is removed from it."""
    added: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M"))
    unit: str | bool | None = None
    """The column that tells whose row it is; False: every row is another person's; None: nobody has said."""
    rows_per_unit: int = 5
    rows: int = 10_000
    """About how many rows the table has, as the curator says; for plans."""
    epsilon: float = 1.0
    delta: float = 1e-5
    method: str = "auto"
    budget: str = ""
    """The file of the table's lifetime budget."""


@dataclass(frozen=True)
class Table:
    """One table on the desk."""

    id: str
    folder: Path
    facts: Facts

    @property
    def schema(self) -> Path:
        """The schema file."""
        return self.folder / SCHEMA

    @property
    def source(self) -> str:
        """The table, wherever one stands."""
        return str(self.folder / self.facts.source) if self.facts.kept else self.facts.source

    def change(self, **facts: Any) -> Table:
        """Return the table with other facts, which are on the disk."""
        changed = replace(self.facts, **facts)
        write_small_file(self.folder / FACTS, json.dumps(asdict(changed), indent=1) + "\n")
        return replace(self, facts=changed)

    def job(self, name: str) -> Path:
        """Return the folder of a command of this table."""
        return self.folder / "jobs" / name

    def runs(self) -> list[str]:
        """Return the runs by number, the last first."""
        made = self.folder / "runs"
        return sorted((each.name for each in made.iterdir()), reverse=True) if made.is_dir() else []

    def run(self, number: str) -> Path:
        """Return the folder of a run; DataError if there is none of this number."""
        if not _RUN.fullmatch(number) or not (self.folder / "runs" / number).is_dir():
            raise DataError("there is no such run")
        return self.folder / "runs" / number

    def new_run(self) -> str:
        """Begin the folder of the next run."""
        number = f"{1 + max((int(each) for each in self.runs()), default=0):03d}"
        (self.folder / "runs" / number).mkdir(parents=True)
        return number


class Desk:
    """The folder of the studio."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)

    def tables(self) -> list[Table]:
        """Return the tables, the newest first."""
        found = [self.table(each.name) for each in self.folder.iterdir() if _ID.fullmatch(each.name)]
        return sorted(found, key=lambda table: table.facts.added, reverse=True)

    def table(self, number: str) -> Table:
        """Return a table; DataError if there is none of this number."""
        if not _ID.fullmatch(number) or not (self.folder / number / FACTS).is_file():
            raise DataError("the studio has no such table")
        folder = self.folder / number
        return Table(number, folder, Facts(**json.loads((folder / FACTS).read_text(encoding="utf-8"))))

    def take_in(self, name: str, stream: IO[bytes]) -> Table:
        """Copy a file that was sent by the browser; its name decides nothing but how it is read."""
        plain = _UNSAFE.sub("-", Path(name.replace("\\", "/")).name).strip(".-")[-80:]
        if format_of(Path(plain)) is None:
            raise DataError(
                "the name of the file does not tell what it is: it should end in .csv, .parquet, .xlsx, ..."
            )
        table = self._begin(Facts(plain.partition(".")[0] or "table", plain, kept=True))
        place = table.folder / table.facts.source
        place.touch(mode=0o600)
        with place.open("wb") as copy:
            shutil.copyfileobj(stream, copy, _CHUNK)
        return table

    def point_at(self, source: str) -> Table:
        """Take a table that stays where it is: a file of this machine, or a table of a database."""
        if kind_of_address(source):
            return self._begin(Facts(re.split(r"[=/]", source)[-1] or source, source, kept=False))
        path = Path(source).expanduser()
        if not path.exists():
            raise DataError("there is no such file on this machine; write its whole path")
        return self._begin(Facts(path.name.partition(".")[0], str(path.absolute()), kept=False))

    def remove(self, table: Table) -> None:
        """Take a table off the desk, with all that the studio made of it; a file that lies elsewhere stays there.

        What was spent on it stays on record: the same people may be asked again, under another name.
        """
        for record in list_records(table.folder):
            place = self.folder / REMOVED / table.id / record.relative_to(table.folder)
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            record.replace(place)
        shutil.rmtree(table.folder)

    def _begin(self, facts: Facts) -> Table:
        number = secrets.token_hex(6)
        folder = self.folder / number
        folder.mkdir(mode=0o700)
        return Table(number, folder, facts).change()


def list_records(folder: Path) -> list[Path]:
    """Return the journals and the lifetime budget that lie below a folder."""
    return [path for ending in (JOURNAL_ENDING, LIFETIME) for path in sorted(folder.rglob(f"*{ending}"))]


def write_small_file(path: Path, text: str) -> None:
    """Write a small file, whole or not at all."""
    with stage_files(path) as (draft,):
        draft.write_text(text, encoding="utf-8")


def read_json(path: Path) -> Mapping[str, Any] | None:
    """Return the object in a file; None if there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
