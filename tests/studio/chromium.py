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


NESTED = """[...document.querySelectorAll("[role=img], button, a, summary")]
  .filter((each) => each.querySelector("a, button, input, select, textarea, summary, [tabindex]")).length"""
TEXT = "p, li, td, th, dd, h1, h2, h3, summary, label, button:enabled, .grade, .badge, .tag"
CONTRAST = (
    f"[...document.querySelectorAll('{TEXT}')]"
    + """.map((each) => {
  const light = (colour) => { const [r, g, b] = colour.match(/[0-9.]+/g).map((part) => { const c = part / 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  let under = each; while (getComputedStyle(under).backgroundColor === "rgba(0, 0, 0, 0)") under = under.parentElement;
  const [a, b] = [light(getComputedStyle(each).color), light(getComputedStyle(under).backgroundColor)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }).reduce((a, b) => Math.min(a, b))"""
)


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
    """Require that the page fits a phone and a desk, that fields have names, and that text is readable."""
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
    assert page.evaluate(NESTED) == 0
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(CONTRAST) >= 4.5, f"{name}, {scheme}"


def read_verdict(page: Any, column: str, private: bool = False) -> str:
    """Return what the result page says about a column: from the release alone, or compared with the private table."""
    cells = page.locator(f"table.verdicts tr:has(> th:text-is('{column}')) td")
    return " ".join(cells.nth(int(private)).inner_text().split())
