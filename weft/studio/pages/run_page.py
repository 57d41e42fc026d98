"""Start, follow and cancel a run; list all runs of a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from weft.errors import SchemaError
from weft.io.formats import replace_ending
from weft.privacy import Budget, read_journal
from weft.studio import column_editor as c
from weft.studio import command_text as spoken
from weft.studio.app import Studio, TheStudio, TheTable, redirect_to
from weft.studio.jobs import Job, Started
from weft.studio.workspace import LIFETIME, Table, list_records, read_json

router = APIRouter()


@dataclass(frozen=True)
class RunShown:
    """A run as shown in the list."""

    number: str
    job: Job | None
    card: dict[str, Any]
    begun: str
    epsilon: str
    method: str


def start_run(studio: Studio, table: Table, ticket: str) -> str:
    """Start a run and return its number; repeated submissions of a form start one run, with one charge."""
    if table.facts.unit is None:
        raise SchemaError("state first who is protected, on the table page")
    text = table.schema.read_text(encoding="utf-8")
    if wrong := c.find_schema_fault(text, table.folder):
        raise SchemaError(f"the schema is invalid: correct it on the columns page: {wrong}")
    if not table.facts.tables and c.get_protected_column(text) != (table.facts.unit or None):
        raise SchemaError("schema and table page disagree on who is protected: state it again on the table page")
    if any(column.open for column in c.list_shown_columns(text)):
        raise SchemaError(
            "some facts were read from the private rows and are not reviewed: state on the columns page whether they "
            "are publicly known"
        )

    def make() -> Started:
        number = table.new_run()
        folder = job_folder(table, number)
        return folder, spoken.write_synth_command(table, number).words

    def there() -> list[Path]:
        return [job_folder(table, number) for number in table.runs()]

    folder = studio.jobs.start(table.folder, there, ticket, make)
    return folder.parent.name


@router.get("/t/{table}/runs/{number}/progress")
def progress(studio: TheStudio, table: TheTable, number: str) -> HTMLResponse:
    """Show the progress of a run, as a part of its page."""
    table.run(number)
    job = studio.jobs.job(job_folder(table, number))
    return studio.page("progress", job=job, table=table, step="history", cancel=f"/t/{table.id}/runs/{number}/cancel")


@router.post("/t/{table}/runs/{number}/cancel")
def cancel(studio: TheStudio, table: TheTable, number: str) -> Response:
    """Cancel a run; its charges so far stay recorded."""
    table.run(number)
    studio.jobs.cancel(job_folder(table, number))
    return redirect_to(f"/t/{table.id}/runs/{number}")


@router.get("/t/{table}/history")
def history(studio: TheStudio, table: TheTable) -> HTMLResponse:
    """List the runs of a table with their costs."""
    runs = [_make_shown_run(studio, table, number) for number in table.runs()]
    return studio.page("history", table=table, step="history", runs=runs, spent=list_spent_budgets(table))


def job_folder(table: Table, number: str) -> Path:
    """Return the folder of a run's job."""
    return table.run(number) / "job"


def card_of(table: Table, number: str) -> dict[str, Any]:
    """Return the card of a run; empty if it released no table."""
    place = table.run(number) / (spoken.RELATED_CARD if table.facts.tables else spoken.SYNTHETIC)
    return dict(read_json(replace_ending(place, ".card.json")) or {})


def list_spent_budgets(table: Table) -> float:
    """Return the sum of the budgets of all runs that queried the rows, by their journals, including failed ones.

    An interrupted run counts with its whole budget: its remaining queries would have depended on earlier measurements.
    """
    journals = [path for path in list_records(table.folder) if path.name != LIFETIME]
    asked = [run for path in journals for run in read_journal(path) if run.charges]
    return math.fsum(Budget.from_dict(run.header["budget"]).nominal() for run in asked)


def _make_shown_run(studio: Studio, table: Table, number: str) -> RunShown:
    job = studio.jobs.job(job_folder(table, number))
    words = job.words[0] if job is not None and job.words else ()
    asked = dict(pairwise(words))
    begun = datetime.fromtimestamp(job.began, UTC).strftime("%Y-%m-%d %H:%M UTC") if job is not None else ""
    return RunShown(
        number, job, card_of(table, number), begun, asked.get("--epsilon", "?"), asked.get("--method", "auto")
    )
