"""The whole road in a real browser, as wide as a desk and as a phone: what a page promises works when pressed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="the pages are driven by playwright")
CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1200, "height": 900}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "weft.cli", "studio", "--no-open", "--folder", "desk"]
    # A signal that was ignored by whoever started the tests would stay so.
    started = subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}
    )
    assert started.stdout is not None
    found = re.search(r"http://\S+", started.stdout.readline())
    assert found
    yield found[0]
    started.send_signal(signal.SIGTERM)
    started.wait(30)


def fits(page, name: str) -> None:
    """Require that nothing stands beyond the edge of the page, and that every field says what it is for."""
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


def test_the_whole_road(address: str, csv: Path) -> None:
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = chromium.new_context(viewport=DESK).new_page()
        wrong: list[str] = []
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))

        page.goto(address)
        assert "token" not in page.url
        fits(page, "home")
        page.set_input_files("input[name=file]", csv)
        page.click("text=Use this file")
        page.check("input[value=rows]")
        fits(page, "table")
        page.click("text=Save, and go on")

        page.click("summary:has-text('age')")
        column = page.locator("details:has(> summary strong:text-is('age'))")
        column.locator("select[name=kind]").select_option("integer")
        column.locator("input[name=low]").fill("0")
        column.locator("input[name=high]").fill("120")
        assert not column.locator("textarea[name=values]").is_visible()
        fits(page, "columns")
        column.locator("button:has-text('Save age')").click()
        page.wait_for_selector("text=0 to 120")

        page.click("text=On to the budget")
        page.fill("#epsilon", "4")
        page.wait_for_selector("#meaning:has-text('98.3% sure')")
        page.click("text=Delta and method")
        page.select_option("select[name=method]", "independent")
        fits(page, "budget")
        page.focus("button.large")
        page.keyboard.press("Enter")  # the button is reached without a mouse

        page.wait_for_selector("text=Some synthetic rows", timeout=120_000)
        assert "epsilon 4" in page.inner_text(".tiles")
        frame = page.frame_locator("details.releasable iframe")
        frame.locator("h1").wait_for(timeout=30_000)
        for name in ("sex", "insurance"):
            page.locator(f".chips label:has-text('{name}')").click()
        page.click("button:has-text('Count')")
        page.wait_for_selector("table.counts", timeout=60_000)
        assert "female" in page.inner_text("table.counts")
        fits(page, "result")
        page.click("text=Runs")
        page.wait_for_url("**/history")  # with its styles
        fits(page, "history")
        chromium.close()
        assert wrong == []
