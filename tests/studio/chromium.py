"""A real browser for the studio's tests, and the questions that every page must answer."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1200, "height": 900}


@contextmanager
def open_page(address: str) -> Iterator[Any]:
    """Yield a page at the studio's address; afterwards, require that nothing went wrong in it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = chromium.new_context(viewport=DESK, accept_downloads=True).new_page()
        wrong: list[str] = []
        told = "status of 400"  # a form that was refused
        page.on(
            "console", lambda said: wrong.append(said.text) if said.type == "error" and told not in said.text else None
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto(address)
        page.wait_for_selector("input[name=file]")
        yield page
        chromium.close()
        assert wrong == []


def fits(page: Any, name: str) -> None:
    """Require that nothing stands beyond the edge of the page, and that every field says what it is for."""
    page.wait_for_load_state()  # with its styles
    for size in (PHONE, DESK):
        page.set_viewport_size(size)
        wide, there = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= there, f"{name} is wider than the screen: {wide} of {there}"
    nameless = page.evaluate(
        """[...document.querySelectorAll("input:not([type=hidden]), select, textarea, button")]
           .filter((field) => !(field.labels && field.labels.length) && !field.getAttribute("aria-label")
                              && !field.textContent.trim()).map((field) => field.outerHTML)"""
    )
    assert nameless == []
    assert page.locator("h1").count() == 1


def read_verdict(page: Any, column: str, private: bool = False) -> str:
    """Return what the result page says about a column: from the release alone, or compared with the private table."""
    cells = page.locator(f"table.verdicts tr:has(> th:text-is('{column}')) td")
    return " ".join(cells.nth(int(private)).inner_text().split())
