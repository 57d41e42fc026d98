"""Finish a run that died after its last question: the same steps, with the answers that it had, and no row in reach.

The fit is run again on a table that has the columns and types of the private one and no rows, with the recorded answers
in place of mechanisms (`weft.privacy.checkpoint`). Whatever it asks must be what was asked and charged, in the same
order; so the model is the one that the run would have made, and its ledger the same. A question more is refused.
"""

from __future__ import annotations

import base64
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from weft.engines.sources import is_written, open_reader, source_name
from weft.errors import BudgetError, DataError
from weft.methods.steps.options import plain
from weft.privacy import Budget, Ledger, read_journal
from weft.privacy import Run as JournalRun
from weft.privacy.checkpoint import ENDING, Checkpoint, Recorded, Replayed, read_checkpoint
from weft.progress import Listener, silence
from weft.reading.dialect import PLAIN, Dialect
from weft.schema import Schema

if TYPE_CHECKING:
    from weft.synthesizer import Synthesizer
    from weft.synthesizer.run import Asked, Run

_NOT_KEPT = ("journal", "budget_file", "budget", "dialect", "noise_seed", "seed", "checkpoint", "engine")


@dataclass(frozen=True)
class Unfinished:
    """A run that died, as its checkpoint and its journal tell it."""

    path: Path
    header: Mapping[str, Any]
    replay: Replayed
    journal: JournalRun | None = None
    """The run in the journal that it was charged to; None where there was no journal."""

    @property
    def wanted(self) -> Mapping[str, Any]:
        """What was to be written, as the command line said."""
        return dict(self.header["wanted"])


def recorded(settings: Synthesizer, run: Run, asked: Asked, ledger: Ledger, seed: int) -> tuple[Run, Path | None]:
    """Return the run with its answers written down, where a checkpoint is asked for, and the file.

    A run with a public table has none: what it learned of that table is no answer.
    """
    if settings.checkpoint is None or settings.options.get("public"):
        return run, None
    folder, stem = Path(settings.checkpoint).parent, Path(settings.checkpoint).name.removesuffix(ENDING)
    # A name of its own: no run may take the answers of another for its own, or destroy them.
    path = folder / f"{stem}-{secrets.token_hex(4)}{ENDING}"
    checkpoint = Checkpoint.begin(path, _header(settings, run, asked, ledger, seed))
    return replace(run, release=Recorded(run.release, checkpoint)), path


def _header(settings: Synthesizer, run: Run, asked: Asked, ledger: Ledger, seed: int) -> dict[str, Any]:
    from weft import __version__

    source, dialect = run.table.source, settings.dialect or PLAIN
    if not isinstance(source, str | PathLike | list | tuple):
        raise DataError("a checkpoint is kept of a table that has a name, a path or an address; leave it out")
    schema = (
        asked.schema if isinstance(asked.schema, Schema) or asked.schema is None else Schema.load(Path(asked.schema))
    )
    known = schema is not None and not schema.incomplete
    types = open_reader(source, run.schema, 1, dialect).schema if known else run.table.columns()
    types = pa.schema([field.remove_metadata() for field in types])  # names and types, and no notes of a library
    kept = {name: value for name, value in settings.get_params().items() if name not in _NOT_KEPT}
    return {
        "version": __version__,
        "settings": plain(kept | run.recipe.kept),
        "budget": None if settings.budget is None else settings.budget.to_dict(),
        "dialect": asdict(Dialect(separator=";", decimal=dialect.decimal, header=True, missing=dialect.missing)),
        "schema": None if schema is None else schema.to_dict(),
        "unit": asked.unit,
        "rows_per_unit": asked.rows_per_unit,
        "source": source_name(source),
        "text": is_written(source),
        "types": base64.b64encode(types.serialize().to_pybytes()).decode("ascii"),
        "seed": seed,
        "private": run.release.private,
        "stamps": list(run.stamps),
        "journal": None if settings.journal is None else str(Path(settings.journal).resolve()),
        "run": ledger.run,
        "lifetime": None if ledger.lifetime is None else dict(ledger.lifetime),
        "wanted": dict(settings.wanted),
    }


def read_unfinished(path: Path) -> Unfinished:
    """Read a checkpoint. BudgetError, which says so, if the run must not be finished."""
    from weft import __version__

    header, answers = read_checkpoint(path)
    if header["version"] != __version__:
        raise DataError(f"{path} is of weft {header['version']}: finish the run with that version")
    if header["journal"] is None:
        return Unfinished(path, header, Replayed(answers, header["private"]))
    journal = next((run for run in read_journal(Path(header["journal"])) if run.run == header["run"]), None)
    if journal is None:
        raise BudgetError(
            f"{path}: {header['journal']} knows nothing of this run, so that nobody can say what it cost. Restore the "
            "journal from a copy"
        )
    if sum(charge["mechanism"] != "coins" for charge in journal.charges) > len(answers):
        raise BudgetError(
            f"{path}: the last question of this run was charged, and no answer to it is on record. It may have "
            "been drawn, and must not be drawn again: the run cannot be finished. What it spent stays spent"
        )
    return Unfinished(path, header, Replayed(answers, header["private"]), journal)


def finished(run: Unfinished, listener: Listener = silence) -> Synthesizer:
    """Return the synthesizer that a run would have fitted; nothing is charged, and no row is read."""
    from weft.synthesizer import Synthesizer

    header = run.header
    dialect = dict(header["dialect"])
    dialect["missing"] = tuple(dialect["missing"])
    budget = None if header["budget"] is None else Budget.from_dict(header["budget"])
    made = Synthesizer(
        **header["settings"],
        budget=budget,
        journal=None,
        seed=header["seed"],
        dialect=Dialect(**dialect) if header["text"] else Dialect(missing=dialect["missing"]),
    )
    types = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(header["types"])))
    schema = None if header["schema"] is None else Schema.from_dict(header["schema"])
    with tempfile.TemporaryDirectory() as folder:
        table = _without_rows(types, header["text"], Path(folder))
        made.fit(
            table,
            schema,
            unit=header["unit"],
            rows_per_unit=header["rows_per_unit"],
            listener=listener,
            release=run.replay,
        )
    ledger = made.fitted_.ledger
    for stamp in header["stamps"]:
        ledger.stamp(stamp)
    _check_charged(run, ledger)
    ledger.lifetime = header["lifetime"]  # every charge of the run is entered there already
    return made


def _check_charged(run: Unfinished, ledger: Ledger) -> None:
    """Refuse a ledger that is not the one of the run that was charged: its card would promise what nobody paid for."""
    said, journal = ledger.to_dict(), run.journal
    same = run.replay.left == 0
    if journal is not None:
        charges = [{key: value for key, value in charge.items() if key != "time"} for charge in journal.charges]
        terms = ("budget", "accounting", "adjacency", "capacity")
        same = same and charges == said["entries"] and set(journal.stamps) <= set(said["stamps"])
        same = same and all(journal.header[term] == said[term] for term in terms)
    if not same:
        raise BudgetError(
            f"{run.path}: what it says of the run is not what was charged, in its journal or with its answers. Was it "
            "edited? Nothing was written; what was spent stays spent"
        )


def _without_rows(types: pa.Schema, text: bool, folder: Path) -> Path:
    """Write a table of these columns without a row: text where the columns of the private one were."""
    if text:
        path = folder / "none.csv"
        quoted = ('"' + name.replace('"', '""') + '"' for name in types.names)
        path.write_text(";".join(quoted) + "\n", encoding="utf-8")
        return path
    path = folder / "none.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, types):
        pass
    return path


def forget(path: Path | None) -> None:
    """Remove a checkpoint whose run is finished."""
    if path is not None:
        with suppress(OSError):
            path.unlink(missing_ok=True)
