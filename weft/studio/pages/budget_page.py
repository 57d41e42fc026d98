"""The budget page: meaning of epsilon, forecast, lifetime budget, and the button that starts a run."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, Field

from weft.errors import BudgetError, WeftError
from weft.methods import AUTO, METHODS
from weft.privacy import Adjacency, Budget, Lifetime, Run
from weft.privacy.filters import find_affordable_epsilon
from weft.privacy.ledger import sum_earlier_runs
from weft.schema import Schema
from weft.studio import column_editor as c
from weft.studio import command_text as spoken
from weft.studio.app import Studio, TheStudio, TheTable, redirect_to
from weft.studio.pages.run_page import list_charged_runs, start_run, sum_spent_budgets
from weft.studio.workspace import Table
from weft.synthesis.discovery import SHARE, rows_needed

router = APIRouter()
PLAN = "plan"


class BudgetForm(BaseModel):
    """The settings of the budget page, and what to start with them."""

    epsilon: float = Field(gt=0, le=20)
    delta: float = Field(ge=0, lt=1)
    rows: int = Field(ge=1, le=10**12)
    method: str = AUTO
    public: str = ""
    marginals: str = ""
    then: Literal["", "plan", "run"] = ""
    ticket: str = ""


@router.get("/t/{table}/budget")
def budget(studio: TheStudio, table: TheTable) -> HTMLResponse:
    """Show the budget page."""
    return _render_budget_page(studio, table)


@router.post("/t/{table}/budget")
def choose(studio: TheStudio, table: TheTable, given: Annotated[BudgetForm, Form()]) -> Response:
    """Save the settings; then start a plan or a run with exactly these settings, if requested."""
    if given.method not in (AUTO, *METHODS):
        raise BudgetError("choose one of the listed methods")
    settings = given.model_dump(exclude={"then", "ticket"})
    settings |= {"public": given.public.strip(), "marginals": given.marginals.strip()}
    for path in (settings["public"], settings["marginals"]):
        if path and not Path(path).is_file():
            return _render_budget_page(studio, table, f"{path}: there is no such file on this machine", 400)
    table = table.change(**settings)
    if given.then == "run":
        return redirect_to(f"/t/{table.id}/runs/{start_run(studio, table, given.ticket)}")
    if given.then == PLAN:
        ticket = f"{_make_plan_key(table)}-{table.facts.epsilon:g}"
        studio.start(table, table.job(PLAN), spoken.write_plan_command(table), ticket)
    return redirect_to(f"/t/{table.id}/budget")


@router.post("/t/{table}/budget/lifetime")
def lifetime(
    studio: TheStudio,
    table: TheTable,
    epsilon: Annotated[float, Form(gt=0)],
    delta: Annotated[float, Form(ge=0, lt=1)] = 1e-6,
    file: Annotated[str, Form()] = "",
) -> Response:
    """Create a lifetime budget for the table, or use an existing one."""
    try:
        if file.strip():
            Lifetime(file.strip()).state()
            table.change(budget=file.strip())
        elif studio.jobs.busy(table.folder):  # its cost is not known yet
            raise BudgetError("a run of this table is active: wait for it, or cancel it first")
        elif not table.facts.budget:
            place = table.folder / spoken.BUDGET
            total, earlier = Budget(epsilon=epsilon, delta=delta), _find_earlier_cost(list_charged_runs(table))
            Lifetime.create(place, total, table=table.facts.name, earlier=earlier)
            table.change(budget=spoken.BUDGET)
    except WeftError as error:
        return _render_budget_page(studio, table, str(error), 400)
    return redirect_to(f"/t/{table.id}/budget")


def _render_budget_page(studio: Studio, table: Table, wrong: str = "", status: int = 200) -> HTMLResponse:
    text = table.schema.read_text(encoding="utf-8")
    fault, runs = c.find_schema_fault(text, table.folder), list_charged_runs(table)
    schema = None if fault else c.read_schema(text, table.folder)
    # Columns that discovery has to find, or tables that have such columns.
    unknown = () if schema is None else schema.unknown if isinstance(schema, Schema) else schema.incomplete
    job = studio.jobs.job(table.job(PLAN))
    fresh = job is not None and job.ticket.startswith(_make_plan_key(table))
    plan = job.answer() if job is not None and fresh and job.state == "done" else {}
    return studio.page(
        "budget",
        status,
        table=table,
        step="budget",
        wrong=wrong,
        fault=fault,
        open_columns=[each.name for each in unknown],
        read=sum(fact.origin == "read" for column in c.list_shown_columns(text) for fact in column.facts),
        incomplete=schema is None or schema.incomplete,
        needed=_rows_needed(table, schema) if isinstance(schema, Schema) else 0,
        unsaid=table.facts.unit is None,
        methods=[AUTO, *METHODS],
        job=job if fresh else None,
        plan=plan,
        curve=json.dumps(plan.get("curve", [])),
        lifetime=_read_lifetime(table),
        spent=sum_spent_budgets(runs),
        earlier=_find_earlier_cost(runs),
        said=spoken.write_synth_command(table, "NNN"),
        said_plan=spoken.write_plan_command(table),
    )


def _rows_needed(table: Table, schema: Schema) -> int:
    """Return the number of rows that discovery needs at this budget; 0 if there is nothing to discover."""
    facts = table.facts
    if not schema.unknown or facts.delta <= 0:
        return 0
    budget = Budget(epsilon=facts.epsilon, delta=facts.delta)
    return rows_needed(len(schema.unknown), budget, Adjacency("add-remove", schema.rows_per_unit), SHARE)


def _make_plan_key(table: Table) -> str:
    """Return a key of all settings that a plan depends on, except epsilon, which its curve covers."""
    facts, text = table.facts, table.schema.read_text(encoding="utf-8")
    return hashlib.sha256(repr((text, facts.rows, facts.delta, facts.method)).encode()).hexdigest()[:16]


def _find_earlier_cost(runs: list[Run]) -> dict[str, Any] | None:
    """Return what earlier runs cost together; None if there are none, or if their costs do not add up."""
    with suppress(WeftError):
        return sum_earlier_runs(runs) if runs else None
    return None


def _read_lifetime(table: Table) -> dict[str, Any] | None:
    if not table.facts.budget:
        return None
    try:
        state = Lifetime(table.folder / table.facts.budget).state()
    except WeftError as error:
        return {"wrong": str(error)}
    return {
        "wrong": "",
        "facts": {"earlier": None} | dict(state.facts),
        "epsilon": state.budget.epsilon,
        "spent": state.spent / state.capacity,
        "left": state.left / state.capacity,
        "affordable": find_affordable_epsilon(state.left, state.budget, state.filter, state.filter),
    }
