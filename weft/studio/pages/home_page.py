"""The first page: the tables on the desk, and ways to add one. It needs little, so that it is there at once."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from starlette.background import BackgroundTask

from weft.studio.app import TheStudio

router = APIRouter()


@router.get("/")
def home(studio: TheStudio) -> HTMLResponse:
    """Show the tables; the other pages are loaded once this one is on its way."""
    page = studio.page("home", tables=studio.desk.tables(), table=None, step=None, wrong="")
    page.background = BackgroundTask(studio.later.load)
    return page
