"""Finish a run that died after its last question: the same steps, with the answers that it had, and no row in reach.

The fit is run again on a table that has the columns and types of the private one and no rows, with the recorded answers
in place of mechanisms (`weft.privacy.journal`). Whatever it asks must be what was asked and charged, in the same
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
"""What a synthesizer is made with again; the rest of a request is kept by itself, or has no say without rows."""


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


def record_answers(plan: FitPlan, ledger: Ledger, seed: int) -> tuple[FitPlan, Path | None]:
    """Return the plan with its answers written down, where a checkpoint is asked for, and the file.

    A fit with a public table has none: what it learned of that table is no answer.
    """
    request = plan.request
    if request.checkpoint is None or request.options.get("public"):
        return plan, None
    folder, stem = Path(request.checkpoint).parent, Path(request.checkpoint).name.removesuffix(ENDING)
    # A name of its own: no run may take the answers of another for its own, or destroy them.
    path = folder / f"{stem}-{secrets.token_hex(4)}{ENDING}"
    checkpoint = Checkpoint.begin(path, _make_header(plan, ledger, seed))
    return replace(plan, release=Recorded(plan.release, checkpoint)), path


def _make_header(plan: FitPlan, ledger: Ledger, seed: int) -> dict[str, Any]:
    from weft import __version__

    request, source = plan.request, plan.table.source
    dialect = request.dialect or DEFAULT_DIALECT
    if not isinstance(source, str | PathLike | list | tuple):
        raise DataError("a checkpoint is kept of a table that has a name, a path or an address; leave it out")
    schema = request.read_schema()
    known = schema is not None and not schema.incomplete
    types = open_reader(source, plan.schema, 1, dialect).schema if known else plan.table.columns()
    types = pa.schema([field.remove_metadata() for field in types])  # names and types, and no notes of a library
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
    """Read a checkpoint. BudgetError, which says so, if the run must not be finished."""
    from weft import __version__

    header, answers = read_checkpoint(path)
    if header["version"] != __version__:
        raise DataError(f"{path} is of weft {header['version']}: finish the run with that version")
    if header["journal"] is None:
        return Unfinished(path, header, Replayed(answers, header["private"]))
    known = read_journal(Path(header["journal"])) if answers or Path(header["journal"]).exists() else []
    journal = next((run for run in known if run.run == header["run"]), None)
    if journal is None and not answers:
        raise BudgetError(f"{path}: this run died before its first charge, so that there is nothing to finish")
    if journal is None:
        raise BudgetError(
            f"{path}: {header['journal']} knows nothing of this run, so that nobody can say what it cost. Restore the "
            "journal from a copy"
        )
    if sum(not find_mechanism(charge["mechanism"]).divides_rows for charge in journal.charges) > len(answers):
        raise BudgetError(
            f"{path}: the last question of this run was charged, and no answer to it is on record. It may have "
            "been drawn, and must not be drawn again: the run cannot be finished. What it spent stays spent"
        )
    return Unfinished(path, header, Replayed(answers, header["private"]), journal)


def finish_run(run: Unfinished, listener: Listener = ignore_event) -> Synthesizer:
    """Return the synthesizer that a run would have fitted; nothing is charged, and no row is read."""
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
    write_table([types.empty_table()], path, path.suffix)
    return path


def remove_checkpoint(path: Path | None) -> None:
    """Remove a checkpoint whose run is finished."""
    if path is not None:
        with suppress(OSError):
            path.unlink(missing_ok=True)
