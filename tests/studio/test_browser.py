"""The whole road in a real browser, as wide as a desk and as a phone: what a page promises works when pressed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

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


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[list[str]]:
    """The words of the command by which a studio opens the browser, as other users of the machine see them."""
    seen = tmp_path / "arguments"
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$0" "$@" > {seen}.part && mv {seen}.part {seen}\n')
    program.chmod(0o755)
    words = [sys.executable, "-m", "weft.cli", "studio", "--folder", "desk"]
    environment = {**os.environ, "NO_COLOR": "1", "BROWSER": str(program)}
    started = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment)
    for _ in range(600):
        if seen.exists():
            break
        time.sleep(0.1)
    yield seen.read_text().splitlines()
    started.send_signal(signal.SIGTERM)
    started.wait(30)


class Listener(BaseHTTPRequestHandler):
    """Another user's server on another port, which keeps what browsers send."""

    heard: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.heard.append(self.headers.get("cookie", ""))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_the_browser_gets_in_by_a_page_that_only_its_owner_reads(opened: list[str], tmp_path: Path) -> None:
    (place,) = [word for word in opened if word.startswith("file://")]
    assert "token" not in " ".join(opened)
    with playwright.sync_playwright() as started, HTTPServer(("127.0.0.1", 0), Listener) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        context = chromium.new_context()
        page = context.new_page()
        page.goto(place)
        page.wait_for_selector("input[name=file]")
        assert re.fullmatch(r"http://weft-[0-9a-f]{32}[.]localhost:\d+/", page.url)
        assert not list((tmp_path / "desk").glob("*.html"))
        assert len(context.cookies()) == 1
        for host in ("127.0.0.1", "localhost", "other.localhost"):
            page.goto(f"http://{host}:{other.server_port}/")
        other.shutdown()
        chromium.close()
        assert Listener.heard and "weft" not in "".join(Listener.heard)


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
        page.wait_for_selector("input[name=file]")
        assert "token" not in page.url
        fits(page, "home")
        page.set_input_files("input[name=file]", csv)
        page.click("text=Use this file")
        page.check("input[value=rows]")
        fits(page, "table")
        page.click("text=Save and continue")

        page.click("summary:has-text('age')")
        column = page.locator("details:has(> summary strong:text-is('age'))")
        column.locator("select[name=kind]").select_option("integer")
        column.locator("input[name=low]").fill("0")
        column.locator("input[name=high]").fill("120")
        assert not column.locator("textarea[name=values]").is_visible()
        fits(page, "columns")
        column.locator("button:has-text('Save age')").click()
        page.wait_for_selector("text=0 to 120")

        page.click("text=Continue to the budget")
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
