"""The door of a studio that other machines can reach: a password."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Form
from fastapi.responses import HTMLResponse, Response

from weft.studio.access import let_in
from weft.studio.app import TheStudio, redirect_to

router = APIRouter()
SLOW = 1.0
"""Seconds that a wrong password costs."""


@router.get("/login")
def login(studio: TheStudio) -> HTMLResponse:
    """Ask for the password."""
    return studio.page("login", wrong=False, table=None, step=None)


@router.post("/login")
def enter(studio: TheStudio, password: Annotated[str, Form()] = "") -> Response:
    """Let in whoever knows it."""
    if studio.keys.is_password(password):
        return let_in(redirect_to("/"), studio.keys, studio.cookie)
    time.sleep(SLOW)
    return studio.page("login", 403, wrong=True, table=None, step=None)
