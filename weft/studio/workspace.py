"""The studio's workspace: a folder that only its owner can read, with a folder for each table.

FOLDER/TABLE/facts.json   name and location of the table, settings from the pages
FOLDER/TABLE/schema.toml  schema of the table
FOLDER/TABLE/jobs/NAME/   a command started from a page: arguments, progress, result
FOLDER/TABLE/runs/001/    files of a run
FOLDER/removed/TABLE/     journals and lifetime budget of a removed table
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from weft.errors import DataError
from weft.io.addresses import kind_of_address
from weft.io.atomic_files import stage_files
from weft.io.formats import format_of
from weft.io.output_paths import JOURNAL_ENDING

FACTS, SCHEMA, TABLES = "facts.json", "schema.toml", "tables"
REMOVED, LIFETIME = "removed", "lifetime.budget"
_ID = re.compile(r"[0-9a-f]{12}")
_RUN = re.compile(r"\d{3,6}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Facts:
    """Settings of a table, in addition to its schema."""

    name: str
    source: str
    """The table as named in commands that run in the table's folder."""
    kept: bool
    """Whether the studio has its own copy, which is deleted when the table is removed."""
    added: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M"))
    unit: str | bool | None = None
    """Column that identifies the person; False if every row belongs to a different person; None if not stated."""
    rows_per_unit: int = 5
    time: str = ""
    """Column that orders the rows of a person in time; empty if none does."""
    tables: dict[str, list[str]] = field(default_factory=dict)
    """Related tables with their columns; empty for a single table."""
    rows: int = 10_000
    """Approximate number of rows as stated by the user, for plans."""
    epsilon: float = 1.0
    delta: float = 1e-5
    method: str = "auto"
    budget: str = ""
    """File of the table's lifetime budget; empty if there is none."""
    public: str = ""
    """Public table with the same columns, used as a prior; empty if there is none."""
    marginals: str = ""
    """Plan of marginals; empty if there is none."""


@dataclass(frozen=True)
class Table:
    """A table in the workspace."""

    id: str
    folder: Path
    facts: Facts

    @property
    def schema(self) -> Path:
        """The schema file."""
        return self.folder / SCHEMA

    @property
    def source(self) -> str:
        """The table's path or address, valid from any folder."""
        return str(self.folder / self.facts.source) if self.facts.kept else self.facts.source

    def sources(self) -> dict[str, str]:
        """Return the path or address of each related table, or of the only one; raise DataError if one is missing."""
        if not self.facts.tables:
            return {self.facts.name: self.source}
        if kind_of_address(self.source):
            return {name: f"{self.source}?table={name}" for name in self.facts.tables}
        folder = Path(self.source)
        files = {path.name.partition(".")[0]: str(path) for path in sorted(folder.glob("*")) if path.is_file()}
        if missing := [name for name in self.facts.tables if name not in files]:
            raise DataError(f"the folder has no file named like the table {missing[0]}, such as {missing[0]}.csv")
        return {name: files[name] for name in self.facts.tables}

    @property
    def released_apart(self) -> bool:
        """Whether related tables or histories are released, for which there is no report, forecast or query."""
        return bool(self.facts.tables or self.facts.time)

    def change(self, **facts: Any) -> Table:
        """Save changed settings and return the table with them."""
        changed = replace(self.facts, **facts)
        write_small_file(self.folder / FACTS, json.dumps(asdict(changed), indent=1) + "\n")
        return replace(self, facts=changed)

    def job(self, name: str) -> Path:
        """Return the folder of a job."""
        return self.folder / "jobs" / name

    def runs(self) -> list[str]:
        """Return the run numbers, latest first."""
        made = self.folder / "runs"
        return sorted((each.name for each in made.iterdir()), reverse=True) if made.is_dir() else []

    def run(self, number: str) -> Path:
        """Return the folder of a run; raise DataError if it does not exist."""
        if not _RUN.fullmatch(number) or not (self.folder / "runs" / number).is_dir():
            raise DataError("this run does not exist")
        return self.folder / "runs" / number

    def new_run(self) -> str:
        """Create the folder of the next run and return its number."""
        number = f"{1 + max((int(each) for each in self.runs()), default=0):03d}"
        (self.folder / "runs" / number).mkdir(parents=True)
        return number


class Desk:
    """The workspace: the studio's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)

    def tables(self) -> list[Table]:
        """Return the tables, newest first."""
        found = [self.table(each.name) for each in self.folder.iterdir() if _ID.fullmatch(each.name)]
        return sorted(found, key=lambda table: table.facts.added, reverse=True)

    def table(self, number: str) -> Table:
        """Return a table; raise DataError if it does not exist."""
        if not _ID.fullmatch(number) or not (self.folder / number / FACTS).is_file():
            raise DataError("this table does not exist in the studio")
        folder = self.folder / number
        return Table(number, folder, Facts(**json.loads((folder / FACTS).read_text(encoding="utf-8"))))

    def take_in(self, files: Mapping[str, IO[bytes]]) -> Table:
        """Copy an uploaded file, or several, which are related tables; names determine format and table only."""
        plain = {_UNSAFE.sub("-", Path(name.replace("\\", "/")).name).strip(".-")[-80:]: name for name in files}
        if any(format_of(Path(name)) is None for name in plain):
            told = "the file name has no known ending: expected .csv, .parquet, .xlsx or another supported format"
            raise DataError(told)
        names = [name.partition(".")[0] or "table" for name in plain]
        if len(set(names)) < len(files):
            raise DataError("two files have the name of one table: choose one file for each table")
        if len(names) == 1:
            facts = Facts(names[0], next(iter(plain)), kept=True)
        else:
            facts = Facts(" and ".join(names), TABLES, kept=True, tables={name: [] for name in names})
        table = self._begin(facts)
        folder = table.folder / TABLES if facts.tables else table.folder
        folder.mkdir(mode=0o700, exist_ok=True)
        for name, given in plain.items():
            place = folder / name
            place.touch(mode=0o600)
            with place.open("wb") as copy:
                shutil.copyfileobj(files[given], copy, _CHUNK)
        return table

    def point_at(self, source: str, tables: Sequence[str] = ()) -> Table:
        """Add tables that are not copied: a file, a folder of files or a database, of which several are named."""
        named: dict[str, list[str]] = {name: [] for name in tables}
        if kind_of_address(source):
            return self._begin(Facts(re.split(r"[=/:]", source)[-1] or source, source, kept=False, tables=named))
        path = Path(source).expanduser()
        if not path.exists():
            raise DataError("the file does not exist on this machine: enter its complete path")
        return self._begin(Facts(path.name.partition(".")[0], str(path.absolute()), kept=False, tables=named))

    def remove(self, table: Table) -> None:
        """Remove a table and everything generated from it; a source file elsewhere is not touched.

        Journals and lifetime budget are kept, since the same people may be queried again under another table name.
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
    """Return the journals and lifetime budgets below a folder."""
    return [path for ending in (JOURNAL_ENDING, LIFETIME) for path in sorted(folder.rglob(f"*{ending}"))]


def write_small_file(path: Path, text: str) -> None:
    """Write a small file atomically."""
    with stage_files(path) as (draft,):
        draft.write_text(text, encoding="utf-8")


def read_json(path: Path) -> Mapping[str, Any] | None:
    """Return the JSON object in a file, or None."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
