"""The studio's web application: home page, login, static files and access control; other pages load on demand."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Form, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from weft.display import format_percent
from weft.errors import WeftError
from weft.studio import command_text as spoken
from weft.studio.access import Guarded, Keys, let_in
from weft.studio.jobs import PHASES, Jobs
from weft.studio.workspace import Desk, Table

HERE = Path(__file__).parent
STEPS = (("", "Table"), ("columns", "Columns"), ("budget", "Budget"), ("history", "Runs"))
"""Steps for a table: the end of each page's address, and its title."""


@dataclass
class Studio:
    """State shared by all pages."""

    desk: Desk
    keys: Keys
    cookie: str
    jobs: Jobs = field(default_factory=Jobs)
    later: Later = field(init=False)
    looked: dict[str, Any] = field(default_factory=dict)
    """PRIVATE previews of tables, read once and shown only to the user."""

    def __post_init__(self) -> None:
        self._pages = Environment(
            loader=PackageLoader("weft.studio"),
            autoescape=select_autoescape(("html",)),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._pages.globals |= {"steps": STEPS, "phases": PHASES, "ticket": lambda: secrets.token_hex(8)}
        self._pages.filters |= {"percent": format_percent, "span": format_duration, "size": format_bytes}

    def page(self, name: str, status: int = 200, **shown: Any) -> HTMLResponse:
        """Render a page."""
        return HTMLResponse(self._pages.get_template(f"{name}.html").render(**shown), status)

    def start(self, table: Table, folder: Path, said: spoken.Spoken, ticket: str) -> Path:
        """Start a command in the table's folder, with a folder for the job."""
        return self.jobs.start(table.folder, lambda: [folder], ticket, lambda: (folder, said.words))


def get_studio(request: Request) -> Studio:
    """Return the shared state."""
    found: Studio = request.app.state.studio
    return found


def get_table(request: Request, table: str) -> Table:
    """Return the table named in an address."""
    return get_studio(request).desk.table(table)


TheStudio = Annotated[Studio, Depends(get_studio)]
TheTable = Annotated[Table, Depends(get_table)]


def redirect_to(place: str) -> Response:
    """Redirect the browser after a form was handled."""
    return RedirectResponse(place, 303)


def format_duration(seconds: float) -> str:
    """Format a duration.

    >>> format_duration(3.4), format_duration(80)
    ('3 s', '1 min 20 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{max(rest, 1)} s"


def format_bytes(number: float) -> str:
    """Format a number of bytes.

    >>> format_bytes(1500), format_bytes(2.5e9)
    ('2 kB', '2.5 GB')
    """
    for unit, least in (("GB", 1e9), ("MB", 1e6)):
        if number >= least:
            return f"{number / least:.1f} {unit}"
    return f"{max(number / 1e3, 1):.0f} kB"


entrance = APIRouter()
"""The home page and the login page, which load at once."""

SLOW = 1.0
"""Delay in seconds after a wrong password."""


@entrance.get("/")
def home(studio: TheStudio) -> HTMLResponse:
    """Show the tables, and load the other pages in the background."""
    page = studio.page("home", tables=studio.desk.tables(), table=None, step=None, wrong="")
    page.background = BackgroundTask(studio.later.load)
    return page


@entrance.get("/login")
def login(studio: TheStudio) -> HTMLResponse:
    """Ask for the password."""
    return studio.page("login", wrong=False, table=None, step=None)


@entrance.post("/login")
def enter(studio: TheStudio, password: Annotated[str, Form()] = "") -> Response:
    """Check the password and start a session."""
    if studio.keys.is_password(password):
        return let_in(redirect_to("/"), studio.keys, studio.cookie)
    time.sleep(SLOW)
    return studio.page("login", 403, wrong=True, table=None, step=None)


class Later:
    """Loads the pages of a table on demand: they import most of Weft, which takes seconds."""

    def __init__(self, make: Callable[[], FastAPI]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._made: FastAPI | None = None

    def load(self) -> FastAPI:
        """Return the application of these pages, loaded once."""
        with self._lock:
            self._made = self._made or self._make()
            return self._made

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        app = await run_in_threadpool(self.load)
        await app(scope, receive, send)


def create_studio(desk: Desk, keys: Keys, hosts: list[str], largest: int, cookie: str) -> Guarded:
    """Return the web application of a workspace."""
    studio = Studio(desk, keys, cookie)

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        yield
        studio.jobs.close()

    def pages() -> FastAPI:
        from weft.studio.pages import budget_page as budget
        from weft.studio.pages import columns_page as columns
        from weft.studio.pages import run_page as run
        from weft.studio.pages import table_page as table

        return _make_app(studio, table.router, columns.router, budget.router, run.router)

    studio.later = Later(pages)
    app = _make_app(studio, entrance, lifespan=living)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    app.mount("", studio.later)
    return Guarded(app, keys, hosts, largest, cookie)


def _make_app(studio: Studio, *routers: APIRouter, **settings: Any) -> FastAPI:
    app = FastAPI(title="Weft studio", docs_url=None, redoc_url=None, openapi_url=None, **settings)
    app.state.studio = studio
    for router in routers:
        app.include_router(router)
    app.add_exception_handler(WeftError, _refused)
    app.add_exception_handler(RequestValidationError, _unread)
    app.add_exception_handler(HTTPException, _nowhere)
    return app


async def _refused(request: Request, error: Exception) -> Response:
    """Show an error message of Weft, which contains no private value."""
    return _render_refusal(request, 400, str(error))


async def _unread(request: Request, error: Exception) -> Response:
    """Name the invalid fields of a form, without repeating their contents."""
    assert isinstance(error, RequestValidationError)
    fields = dict.fromkeys(str(each["loc"][-1]) for each in error.errors())
    return _render_refusal(request, 422, "The form contains an invalid value.", list(fields))


async def _nowhere(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _render_refusal(request, error.status_code, "This page does not exist.")


def _render_refusal(request: Request, status: int, why: str, fields: Sequence[str] = ()) -> Response:
    studio, table = get_studio(request), None
    with suppress(WeftError, KeyError):  # adds links back to the table
        table = studio.desk.table(request.path_params["table"])
    return studio.page("refused", status, why=why, fields=fields, table=table, step=None)
