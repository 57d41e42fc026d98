"""`python -m tests.studio.pictures [FOLDER]`: pictures of the studio's pages, on the demo's table, for the docs."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.csv
from playwright.sync_api import Page, sync_playwright

from weft.hospital import hospital, hospital_schema

from .chromium import CHROMIUM, DESK, FLAGS, PHONE


def main() -> None:
    """Take the pictures: at the width of a desk, and the last of them on a phone in the dark."""
    into = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/studio").absolute()
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "hospital.csv"
        pyarrow.csv.write_csv(hospital(rows=5000), table)
        words = [sys.executable, "-m", "weft.cli", "studio", "--no-open", "--folder", f"{folder}/desk"]
        studio = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert studio.stdout is not None
        address = re.search(r"http://\S+", studio.stdout.readline())
        assert address
        with sync_playwright() as started:
            chromium = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            page = chromium.new_context(viewport=DESK).new_page()
            walk(page, address[0], table, into)
            phone = chromium.new_context(viewport=PHONE, color_scheme="dark")
            phone.add_cookies(page.context.cookies())
            small = phone.new_page()
            small.goto(page.url)
            small.screenshot(path=into / "phone.png")
            chromium.close()
        studio.terminate()
        studio.wait()


def walk(page: Page, address: str, table: Path, into: Path) -> None:
    """Go the whole road."""
    page.goto(address)
    page.screenshot(path=into / "home.png")
    page.set_input_files("input[name=file]", table)
    page.click("text=Use this file")
    page.check("input[value=rows]")
    page.screenshot(path=into / "table.png")
    page.click("text=Save and continue")
    page.click("text=The schema as a file")
    page.fill("textarea[name=text]", hospital_schema())
    page.click("text=Save the file")
    page.click("summary:has-text('discharged')")
    page.screenshot(path=into / "columns.png")
    page.click("text=Continue to the budget")
    page.fill("input[name=rows]", "5000")
    page.click("text=Forecast the error")
    page.wait_for_selector(".curve svg", timeout=120_000)
    page.screenshot(path=into / "budget.png", full_page=True)
    page.click("text=Spend the budget and create the table")
    page.wait_for_selector(".phases li.done", timeout=60_000)
    page.screenshot(path=into / "run.png")
    page.wait_for_selector("text=Some synthetic rows", timeout=180_000)
    page.frame_locator("details.releasable iframe").locator("h1").wait_for(timeout=30_000)
    page.locator("details.releasable iframe").scroll_into_view_if_needed()
    page.wait_for_timeout(500)  # a frame that was never in sight is not painted
    page.screenshot(path=into / "result.png", full_page=True)


if __name__ == "__main__":
    main()
