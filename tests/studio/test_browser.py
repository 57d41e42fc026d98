"""The whole road in a real browser, as wide as a desk and as a phone: what a page promises works when pressed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from csv import DictReader
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from .chromium import CHROMIUM, FLAGS, fits, open_page, read_verdict

playwright = pytest.importorskip("playwright.sync_api", reason="the pages are driven by playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


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


def test_the_whole_road(address: str, csv: Path) -> None:
    with open_page(address) as page:
        assert "token" not in page.url
        fits(page, "home")
        page.set_input_files("input[name=file]", csv)
        page.click("text=Use this file")
        page.check("input[value=rows]")
        fits(page, "table")
        page.click("text=Save and continue")

        page.click("summary:has-text('age')")
        column = page.locator("details:has(> summary strong:text-is('age'))")
        column.locator("select[name='age:kind']").select_option("integer")
        column.locator("input[name='age:low']").fill("0")
        column.locator("input[name='age:high']").fill("120")
        assert not column.locator("textarea[name='age:values']").is_visible()
        fits(page, "columns")
        page.click(".save button:has-text('Save all')")
        page.wait_for_selector("text=0 to 120")

        page.click("text=Continue to the budget")
        page.fill("#epsilon", "4")
        page.wait_for_selector("#meaning:has-text('98.3% of cases')")
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


def test_a_draft_with_long_lists_can_be_released(address: str, tmp_path: Path) -> None:
    """Long lists of values are written to files next to the draft: every page reads them from there."""
    source = tmp_path / "codes.csv"
    source.write_text("code,n\n" + "".join(f"K{i % 300:03d},{i % 7}\n" for i in range(3000)))
    with open_page(address) as page:
        page.set_input_files("input[name=file]", source)
        page.click("text=Use this file")
        page.check("input[value=rows]")
        page.click("text=Save and continue")
        page.click("button:has-text('Read a draft')")
        page.click("text=All of them are publicly known", timeout=60_000)
        assert list((tmp_path / "desk").glob("*/schema.values/*.txt"))
        page.click("summary:has-text('code')")
        assert page.input_value("#c-0 textarea[name='code:values']").startswith("K000\nK001")
        page.click(".save button:has-text('Save all')")
        page.wait_for_selector("#c-0 >> text=300 values: K000")
        page.click("text=Continue to the budget")
        assert page.locator(".box.bad").count() == 0
        assert page.is_enabled("text=Forecast the error")
        assert page.is_visible("button:has-text('Spend the budget')")


def test_a_run_on_the_fictional_hospital_is_cancelled_and_keeps_its_table(address: str, tmp_path: Path) -> None:
    with open_page(address) as page:
        page.click("text=Try it on a fictional hospital")
        page.check("input[value=rows]")
        page.click("text=Save and continue")
        assert "after admitted" in page.inner_text("summary:has-text('discharged')")
        page.click("text=Continue to the budget")
        assert page.is_enabled("text=Forecast the error")
        page.fill("#epsilon", "0.05")  # at which noise drowns some columns
        page.click("text=Delta and method")
        page.select_option("select[name=method]", "independent")
        page.click("button.large")
        page.wait_for_selector("[data-state=running]")
        page.click("text=Details")
        for _ in range(600):  # until the table is written, and its reports are not
            if list((tmp_path / "desk").glob("*/runs/001/synthetic.card.json")):
                break
            time.sleep(0.02)
        page.click("button:has-text('Cancel')")
        page.wait_for_selector("text=The synthetic table is complete", timeout=60_000)
        assert page.is_visible("text=Download everything that may be published")
        assert page.locator("a:text-is('Run again')").count() == 0 and page.locator("iframe").count() == 0
        page.click("button:has-text('Make the reports')")
        page.frame_locator("details.releasable iframe").locator("h1").wait_for(timeout=60_000)
        assert not list((tmp_path / "desk").glob("*/runs/002"))
        own = page.locator("section[aria-labelledby=files] li:has(.private) a").all_inner_texts()
        assert read_verdict(page, "diagnosis").startswith("not usable noise alone is expected to misplace")
        assert read_verdict(page, "sex").startswith("usable")
        assert "rows are misplaced" in read_verdict(page, "diagnosis", private=True)
        page.click("details.private summary")
        page.click("details.private a:text-is('columns')")
        page.frame_locator("details.private iframe").locator("#column-0").wait_for()
        fits(page, "result")
    with next((tmp_path / "desk").glob("*/runs/001/synthetic.csv")).open() as made:
        assert all(row["admitted"] <= row["discharged"] for row in DictReader(made))
    assert own == ["report-PRIVATE.html", "report-PRIVATE.json", "synthetic.ledger.jsonl"]
