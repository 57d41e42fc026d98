"""Finish an interrupted run from its recorded measurements, without access to private rows.

The fit is repeated on an empty table with the columns and types of the private one, with the recorded answers in place
of the mechanisms (`weft.privacy.journal`). Its queries must be those that were charged, in the same order, so the model
and the ledger are those that the run would have produced. Any further query is refused.
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
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.io.table_files import write_table
from weft.methods.common.options import convert_to_plain
from weft.privacy import Budget, Ledger, read_journal
from weft.privacy import Run as JournalRun
from weft.privacy.journal import ENDING, Checkpoint, Recorded, Replayed, read_checkpoint
from weft.privacy.mechanisms import find_mechanism
from weft.progress import Listener, ignore_event
from weft.schema import Schema

if TYPE_CHECKING:
    from weft.synthesis.fit_plan import FitPlan
    from weft.synthesis.synthesizer import Synthesizer

_SETTINGS = ("epsilon", "delta", "method", "neighbours", "memory", "trust_data_for_schema", "discover")
"""Settings of the new synthesizer; other settings are stored separately, or have no effect without rows."""


@dataclass(frozen=True)
class Unfinished:
    """An interrupted run, read from its checkpoint and its journal."""

    path: Path
    header: Mapping[str, Any]
    replay: Replayed
    journal: JournalRun | None = None  # the run in its journal; None if there was no journal

    @property
    def wanted(self) -> Mapping[str, Any]:
        """Outputs requested on the command line."""
        return dict(self.header["wanted"])


def record_answers(plan: FitPlan, ledger: Ledger, seed: int) -> tuple[FitPlan, Path | None]:
    """Return the plan with its answers recorded, if a checkpoint is requested, and the checkpoint file.

    A fit with a public table has no checkpoint: what is read from that table is not a recorded answer.
    """
    request = plan.request
    if request.checkpoint is None or request.options.get("public"):
        return plan, None
    folder, stem = Path(request.checkpoint).parent, Path(request.checkpoint).name.removesuffix(ENDING)
    # Unique name: no run may use or overwrite the answers of another.
    path = folder / f"{stem}-{secrets.token_hex(4)}{ENDING}"
    checkpoint = Checkpoint.begin(path, _make_header(plan, ledger, seed))
    return replace(plan, release=Recorded(plan.release, checkpoint)), path


def _make_header(plan: FitPlan, ledger: Ledger, seed: int) -> dict[str, Any]:
    from weft import __version__

    request, source = plan.request, plan.table.source
    dialect = request.dialect or DEFAULT_DIALECT
    if not isinstance(source, str | PathLike | list | tuple):
        raise DataError("a checkpoint requires a table with a path or an address; leave checkpoint out")
    schema = request.read_schema()
    known = schema is not None and not schema.incomplete
    types = open_reader(source, plan.schema, 1, dialect).schema if known else plan.table.columns()
    types = pa.schema([field.remove_metadata() for field in types])  # metadata of libraries may describe the rows
    kept = {name: getattr(request, name) for name in _SETTINGS} | dict(request.options)
    own_budget = request.budget is not None or request.insecure
    return {
        "version": __version__,
        "settings": convert_to_plain(kept | plan.method.kept),
        "budget": request.read_budget().to_dict() if own_budget else None,
        "dialect": asdict(Dialect(separator=";", decimal=dialect.decimal, header=True, missing=dialect.missing)),
        "schema": None if schema is None else schema.to_dict(),
        "unit": request.unit,
        "rows_per_unit": request.rows_per_unit,
        "source": source_name(source),
        "text": is_written(source),
        "types": base64.b64encode(types.serialize().to_pybytes()).decode("ascii"),
        "seed": seed,
        "private": plan.release.private,
        "stamps": list(plan.stamps),
        "journal": None if request.journal is None else str(Path(request.journal).resolve()),
        "run": ledger.run,
        "lifetime": None if ledger.lifetime is None else dict(ledger.lifetime),
        "wanted": dict(request.outputs),
    }


def read_unfinished(path: Path) -> Unfinished:
    """Read a checkpoint; raise BudgetError if the run must not be finished."""
    from weft import __version__

    header, answers = read_checkpoint(path)
    if header["version"] != __version__:
        raise DataError(f"{path} was written by weft {header['version']}: finish the run with that version")
    if header["journal"] is None:
        return Unfinished(path, header, Replayed(answers, header["private"]))
    known = read_journal(Path(header["journal"])) if answers or Path(header["journal"]).exists() else []
    journal = next((run for run in known if run.run == header["run"]), None)
    if journal is None and not answers:
        raise BudgetError(f"{path}: this run was interrupted before its first charge; there is nothing to finish")
    if journal is None:
        raise BudgetError(
            f"{path}: {header['journal']} does not contain this run, so its cost is unknown. Restore the "
            "journal from a copy"
        )
    if sum(not find_mechanism(charge["mechanism"]).divides_rows for charge in journal.charges) > len(answers):
        raise BudgetError(
            f"{path}: the last query of this run was charged, but its answer was not recorded. Noise may have been "
            "drawn for it and must not be drawn again: the run cannot be finished. What it spent stays spent"
        )
    return Unfinished(path, header, Replayed(answers, header["private"]), journal)


def finish_run(run: Unfinished, listener: Listener = ignore_event) -> Synthesizer:
    """Return the synthesizer that the run would have fitted; nothing is charged, and no row is read."""
    from weft.synthesis.synthesizer import Synthesizer

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
    ledger.lifetime = header["lifetime"]  # it contains every charge of the run already
    return made


def _check_charged(run: Unfinished, ledger: Ledger) -> None:
    """Refuse a ledger that differs from the charges of the run: its card would state a wrong guarantee."""
    said, journal = ledger.to_dict(), run.journal
    same = run.replay.left == 0
    if journal is not None:
        charges = [{key: value for key, value in charge.items() if key != "time"} for charge in journal.charges]
        terms = ("budget", "accounting", "adjacency", "capacity")
        same = same and charges == said["entries"] and set(journal.stamps) <= set(said["stamps"])
        same = same and all(journal.header[term] == said[term] for term in terms)
    if not same:
        raise BudgetError(
            f"{run.path}: the checkpoint does not match what was charged, in its journal or its answers. Was it "
            "edited? Nothing was written; what was spent stays spent"
        )


def _without_rows(types: pa.Schema, text: bool, folder: Path) -> Path:
    """Write an empty table with these columns, as CSV if the private table was text."""
    if text:
        path = folder / "none.csv"
        quoted = ('"' + name.replace('"', '""') + '"' for name in types.names)
        path.write_text(";".join(quoted) + "\n", encoding="utf-8")
        return path
    path = folder / "none.arrow"
    write_table([types.empty_table()], path, path.suffix)
    return path


def remove_checkpoint(path: Path | None) -> None:
    """Remove the checkpoint of a finished run."""
    if path is not None:
        with suppress(OSError):
            path.unlink(missing_ok=True)
