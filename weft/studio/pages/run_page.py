"""The pages of runs: start, follow, cancel and list them; result, reports, counts, more rows and downloads."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Query
from fastapi.responses import FileResponse, HTMLResponse, Response

from weft.errors import DataError, SchemaError, WeftError
from weft.io.formats import replace_ending
from weft.privacy import Budget, read_journal
from weft.privacy import Run as JournalRun
from weft.studio import column_editor as c
from weft.studio import command_text as spoken
from weft.studio.access import REPORT_POLICY
from weft.studio.app import Studio, TheStudio, TheTable, redirect_to
from weft.studio.jobs import Job, Started, make_program_words
from weft.studio.workspace import LIFETIME, Table, list_records, read_json
from weft.synthesis.verdicts import GRADES, summarise_grades

router = APIRouter()
SHOWN = 10
MAX_COLUMNS = 4
PATIENCE = 120
"""Maximum seconds for a query."""
RELEASED = re.compile(
    r"(?:synthetic|more-\d+)(?:-[0-9a-f]{8})?(?:\.csv|\.card\.md|\.card\.json|\.schema\.toml|\.weft)"
    rf"|{re.escape(spoken.MODEL)}|{re.escape(spoken.PUBLIC_REPORT)}|report\.json"
)
"""Files that may be published; all others in a run's folder (journal, checkpoint, private report) stay private.

The figures of the releasable report are computed from the release alone, like its page. The journal identifies the
private table and lists interrupted runs; the card contains the released ledger."""
PRIVATE_FIGURES = spoken.PRIVATE_REPORT.replace(".html", ".json")
INDEX = "index"
"""Page that a report on several tables begins with."""
REPORTS = {"private": spoken.PRIVATE_REPORT, "releasable": spoken.PUBLIC_REPORT}


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
    return studio.page(
        "history", table=table, step="history", runs=runs, spent=sum_spent_budgets(list_charged_runs(table))
    )


def job_folder(table: Table, number: str) -> Path:
    """Return the folder of a run's job."""
    return table.run(number) / "job"


def card_of(table: Table, number: str) -> dict[str, Any]:
    """Return the card of a run; empty if it released no table."""
    place = table.run(number) / (spoken.RELATED_CARD if table.facts.tables else spoken.SYNTHETIC)
    return dict(read_json(replace_ending(place, ".card.json")) or {})


def list_charged_runs(table: Table) -> list[JournalRun]:
    """Return all runs that queried the rows, by their journals, including failed ones and searches."""
    journals = [path for path in list_records(table.folder) if path.name != LIFETIME]
    return [run for path in journals for run in read_journal(path) if run.charges]


def sum_spent_budgets(runs: list[JournalRun]) -> float:
    """Return the sum of the budgets of runs; an interrupted one counts with all of it.

    Its remaining queries would have depended on earlier measurements.
    """
    return math.fsum(Budget.from_dict(run.header["budget"]).nominal() for run in runs)


def _make_shown_run(studio: Studio, table: Table, number: str) -> RunShown:
    job = studio.jobs.job(job_folder(table, number))
    words = job.words[0] if job is not None and job.words else ()
    asked = dict(pairwise(words))
    begun = datetime.fromtimestamp(job.began, UTC).strftime("%Y-%m-%d %H:%M UTC") if job is not None else ""
    return RunShown(
        number, job, card_of(table, number), begun, asked.get("--epsilon", "?"), asked.get("--method", "auto")
    )


@router.get("/t/{table}/runs/{number}")
def result(studio: TheStudio, table: TheTable, number: str) -> HTMLResponse:
    """Show the progress of a run, then its result."""
    return _render_result_page(studio, table, number)


@router.get("/t/{table}/compare")
def compare(studio: TheStudio, table: TheTable, run: Annotated[list[str] | None, Query()] = None) -> HTMLResponse:
    """Show the settings, verdicts and private headline figures of several runs side by side."""
    runs = []
    for number in dict.fromkeys(run or ()):
        folder, card = table.run(number), card_of(table, number)
        if card:
            verdicts = _list_verdicts(card, folder)
            heads = (read_json(folder / PRIVATE_FIGURES) or {}).get("headlines", ())
            runs.append(
                {
                    "number": number,
                    "card": card,
                    "grades": _count_grades(verdicts),
                    "verdicts": {name: (grade, reasons) for name, grade, reasons, _ in verdicts},
                    "headlines": {head["name"]: head["figure"] for head in heads},
                }
            )
    if len(runs) < 2:
        raise DataError("select at least two runs that made a table")
    names, headlines = (list(dict.fromkeys(x for each in runs for x in each[key])) for key in ("verdicts", "headlines"))
    return studio.page("compare", table=table, step="history", runs=runs, names=names, headlines=headlines)


@router.get("/t/{table}/runs/{number}/report/{edition}")
def report(table: TheTable, number: str, edition: Literal["private", "releasable"], part: str = "") -> Response:
    """Return a report for a sandboxed frame, or a page of a report on several tables."""
    page = list_report_pages(table, number).get(part, table.run(number) / REPORTS[edition])
    if not page.is_file():
        raise DataError("this report does not exist yet")
    text = re.sub(r'<a href="[^"#]*">(.*?)</a>', r"\1", page.read_text(encoding="utf-8"))  # its frame may not leave it
    return HTMLResponse(text, headers={"content-security-policy": REPORT_POLICY})


def list_report_pages(table: Table, number: str) -> dict[str, Path]:
    """Return the pages of a private report on related tables or histories, the one on all of them first."""
    pages = sorted((table.run(number) / spoken.PRIVATE_PAGES).glob("*.html"), key=lambda page: page.stem != INDEX)
    return {page.stem: page for page in pages}


@router.get("/t/{table}/runs/{number}/files/{name}")
def download(table: TheTable, number: str, name: str) -> Response:
    """Return a file of a run."""
    for path in list_run_files(table, number):
        if path.name == name:
            return FileResponse(path, filename=f"{table.facts.name}-{number}-{path.name}")
    raise DataError("the run does not have this file")


@router.get("/t/{table}/runs/{number}/{what}.zip")
def release(table: TheTable, number: str, what: Literal["release", "evidence"]) -> Response:
    """Return a ZIP archive of all files that may be published, or of the evidence pack."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in list_run_files(table, number):
            if (path.parent.name == spoken.EVIDENCE) if what == "evidence" else not stays_with_curator(path):
                archive.write(path, path.name)
    head = {"content-disposition": f'attachment; filename="{what}-{number}.zip"'}
    return Response(packed.getvalue(), media_type="application/zip", headers=head)


@router.post("/t/{table}/runs/{number}/query")
def query(
    studio: TheStudio,
    table: TheTable,
    number: str,
    columns: Annotated[list[str] | None, Form()] = None,
    where: Annotated[str, Form()] = "",
) -> HTMLResponse:
    """Estimate counts by columns from the model, which spends no budget."""
    table.run(number)
    chosen = (columns or [])[:MAX_COLUMNS]
    said = spoken.write_query_command(number, chosen, _split_conditions(where))
    done = subprocess.run(  # noqa: S603 (arguments are a list, no shell)
        make_program_words(said.words[0]),
        cwd=table.folder,
        capture_output=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    answer = json.loads(done.stdout or b"{}")
    cells = answer.get("cells", [])
    largest = max((cell["count"] for cell in cells), default=1.0) or 1.0
    wrong = answer.get("error", {}).get("message", "") if done.returncode else ""
    return studio.page(
        "counts",
        400 if wrong else 200,
        table=table,
        step="history",
        answer=answer,
        cells=cells,
        largest=largest,
        wrong=wrong,
        said=said,
    )


@router.post("/t/{table}/runs/{number}/more")
def more(
    studio: TheStudio,
    table: TheTable,
    number: str,
    ticket: Annotated[str, Form()],
    rows: Annotated[int, Form(ge=1, le=10**9)],
    where: Annotated[str, Form()] = "",
) -> Response:
    """Sample more rows from the model."""
    folder = table.run(number)
    made = 1 + len(list(folder.glob("more-*.csv")))
    said = spoken.write_sample_command(number, rows, _split_conditions(where), f"more-{made}.csv")
    studio.start(table, folder / "more-job", said, ticket)
    return redirect_to(f"/t/{table.id}/runs/{number}#more")


@router.post("/t/{table}/runs/{number}/make/{what}")
def make(
    studio: TheStudio,
    table: TheTable,
    number: str,
    what: Literal["reports", "evidence"],
    ticket: Annotated[str, Form()],
) -> Response:
    """Make the reports of a run that was cancelled after its table was written, or its evidence pack, at no cost."""
    said = (spoken.write_report_commands if what == "reports" else spoken.write_evidence_command)(table, number)
    studio.start(table, table.run(number) / f"{what}-job", said, ticket)
    return redirect_to(f"/t/{table.id}/runs/{number}")


@router.get("/t/{table}/runs/{number}/jobs/{name}")
def job(studio: TheStudio, table: TheTable, number: str, name: Literal["more", "reports", "evidence"]) -> HTMLResponse:
    """Show the progress of additional rows or of the reports, as a part of the page."""
    found = studio.jobs.job(table.run(number) / f"{name}-job")
    return studio.page("progress", job=found, table=table, step="history", cancel="")


def list_run_files(table: Table, number: str) -> list[Path]:
    """Return the files of a run, those of several released tables, and its evidence pack."""
    folders = [table.run(number) / name for name in ("", spoken.RELEASED, spoken.EVIDENCE)]
    found = [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]
    return [path for path in found if path.is_file() and not path.name.startswith(".")]


def stays_with_curator(path: Path) -> bool:
    """Whether a file must not be published."""
    return path.parent.name != spoken.RELEASED and RELEASED.fullmatch(path.name) is None


def _split_conditions(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _render_result_page(studio: Studio, table: Table, number: str) -> HTMLResponse:
    folder = table.run(number)
    job = studio.jobs.job(job_folder(table, number))
    card, files = card_of(table, number), list_run_files(table, number)
    verdicts = _list_verdicts(card, folder)
    places = {name: folder / spoken.RELEASED / f"{name}.csv" for name in table.facts.tables}
    shown = [(name, *_read_first_rows(path)) for name, path in (places or {"": folder / spoken.SYNTHETIC}).items()]
    more = sorted(path.name for path in files if path.name.startswith("more-") and path.suffix == ".csv")
    jobs = {name: studio.jobs.job(folder / f"{name}-job") for name in ("more", "reports", "evidence")}
    pages, wanted = list(list_report_pages(table, number)), spoken.write_report_commands(table, number).words
    return studio.page(
        "result",
        table=table,
        step="history",
        number=number,
        job=job,
        card=card,
        sizes=[(name, entry["rows"]) for name, entry in card.get("tables", {"": card.get("table")}).items() if entry],
        shown=shown if card else [],
        countable=[] if table.released_apart else _list_countable_columns(table, folder, shown[0][1]),
        made=more,
        files=[path for path in files if path.parent.name != spoken.EVIDENCE],
        stays=stays_with_curator,
        reports=["private"] if pages else [edition for edition, name in REPORTS.items() if (folder / name).is_file()],
        pages=pages,
        unreported=bool(card)
        and not pages
        and len(wanted) > sum((folder / name).is_file() for name in REPORTS.values()),
        verdicts=verdicts,
        grades=_count_grades(verdicts),
        overall=summarise_grades([verdict[1] for verdict in verdicts]),
        private_overall=summarise_grades([private["grade"] for *_, private in verdicts if private]),
        troubled=any(verdict[1] != GRADES[0] for verdict in verdicts),
        compared=any(verdict[3] for verdict in verdicts),
        found=_list_filled_columns(table, folder / spoken.FOUND_BY_RUN),
        jobs=jobs,
        evidence=any(path.parent.name == spoken.EVIDENCE for path in files),
        said=spoken.Spoken(job.words, spoken.write_synth_command(table, number).python) if job else None,
        cancel=f"/t/{table.id}/runs/{number}/cancel",
    )


def _list_countable_columns(table: Table, folder: Path, names: list[str]) -> list[str]:
    """Return the columns to count by, without ids, which are newly generated."""
    found = folder / spoken.FOUND_BY_RUN
    shown = c.list_shown_columns((found if found.is_file() else table.schema).read_text(encoding="utf-8"))
    ids = {column.name for column in shown if column.kind == "id"}
    return [name for name in names if name not in ids]


def _list_verdicts(card: Mapping[str, Any], folder: Path) -> list[tuple[str, str, list[str], Any]]:
    """Return the verdict on each column, the worst first: from the card, and PRIVATE, from the curator's report."""
    listed = {"": card.get("columns", ())} if "tables" not in card else card["tables"]
    several, made = len(listed) > 1, []
    for table, entry in listed.items():
        figures = folder / spoken.PRIVATE_PAGES / f"{table}.json" if table else folder / PRIVATE_FIGURES
        compared = {verdict["column"]: verdict for verdict in (read_json(figures) or {}).get("verdicts", ())}
        for each in entry if table == "" else entry.get("columns", ()):
            if "verdict" in each:
                name = f"{table}.{each['name']}" if several else each["name"]
                made.append((name, each["verdict"], each["reasons"], compared.get(each["name"])))
    return sorted(made, key=lambda verdict: -GRADES.index(verdict[1]))


def _count_grades(verdicts: list[tuple[str, str, list[str], Any]]) -> list[tuple[str, int]]:
    return [(grade, sum(verdict[1] == grade for verdict in verdicts)) for grade in reversed(GRADES)]


def _list_filled_columns(table: Table, found: Path) -> list[str]:
    """Return the open columns of the table for which a run has discovered facts."""
    if not found.is_file():
        return []
    return c.list_fillable_columns(table.schema.read_text(encoding="utf-8"), found.read_text(encoding="utf-8"))


def _read_first_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = csv.reader(stream)
            return next(rows), [row for row, _ in zip(rows, range(SHOWN), strict=False)]
    except (OSError, StopIteration, WeftError):
        return [], []
