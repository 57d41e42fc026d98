"""The home page, which lists tables, and the login page. They import little, so that they load at once."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Form
from fastapi.responses import HTMLResponse, Response
from starlette.background import BackgroundTask

from weft.studio.access import let_in
from weft.studio.app import TheStudio, redirect_to

router = APIRouter()
SLOW = 1.0
"""Delay in seconds after a wrong password."""


@router.get("/")
def home(studio: TheStudio) -> HTMLResponse:
    """Show the tables, and load the other pages in the background."""
    page = studio.page("home", tables=studio.desk.tables(), table=None, step=None, wrong="")
    page.background = BackgroundTask(studio.later.load)
    return page


@router.get("/login")
def login(studio: TheStudio) -> HTMLResponse:
    """Ask for the password."""
    return studio.page("login", wrong=False, table=None, step=None)


@router.post("/login")
def enter(studio: TheStudio, password: Annotated[str, Form()] = "") -> Response:
    """Check the password and start a session."""
    if studio.keys.is_password(password):
        return let_in(redirect_to("/"), studio.keys, studio.cookie)
    time.sleep(SLOW)
    return studio.page("login", 403, wrong=True, table=None, step=None)
