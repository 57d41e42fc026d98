"""`python -m tests.studio.measure [TABLE]`: how soon the studio answers, also in a run, and page weights."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import numpy as np

from weft.hospital import hospital

RATE, SECONDS = 100, 10
"""Requests a second during a run, and for how long."""
PAGES = ("/", "{table}", "{table}/columns", "{table}/budget", "{table}/history", "{run}", "{run}/progress")


def ask(browser: httpx2.Client, page: str, due: float) -> float:
    """Request a page when it is due; return the seconds from then until it has arrived."""
    time.sleep(max(0.0, due - time.perf_counter()))
    browser.get(page).raise_for_status()
    return time.perf_counter() - due


def main() -> None:
    """Print the times."""
    import pyarrow.csv

    with tempfile.TemporaryDirectory() as folder:
        source = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "stays.csv"
        if not source.exists():
            pyarrow.csv.write_csv(hospital(rows=100_000), source)
        began = time.perf_counter()
        words = [
            sys.executable,
            "-m",
            "weft.cli",
            "studio",
            "--no-open",
            "--host",
            "127.0.0.1",
            "--folder",
            f"{folder}/desk",
        ]
        studio = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert studio.stdout is not None
        address = re.search(r"http://\S+", studio.stdout.readline())
        assert address
        printed = time.perf_counter() - began
        origin = address[0].partition("/?")[0]
        with httpx2.Client(base_url=origin, follow_redirects=True, headers={"origin": origin}, timeout=60) as browser:
            before = time.perf_counter()
            browser.get(address[0]).raise_for_status()
            first = time.perf_counter() - before
            table = browser.post("/tables", data={"source": str(source.absolute())}).url.path
            browser.post(f"{table}/who", data={"unit": "rows"})
            chosen = {"epsilon": "1", "delta": "1e-5", "rows": "100000", "then": "run", "ticket": "a"}
            run = browser.post(f"{table}/budget", data=chosen).url.path
            pages = [page.format(table=table, run=run) for page in PAGES]
            begun = time.perf_counter() + 0.1
            with ThreadPoolExecutor(64) as many:
                asked = [
                    many.submit(ask, browser, pages[i % len(pages)], begun + i / RATE) for i in range(RATE * SECONDS)
                ]
                rated = [each.result() for each in asked]
            running = 'data-state="running"' in browser.get(f"{run}/progress").text
            took: list[float] = []
            while 'data-state="running"' in browser.get(f"{run}/progress").text or not took:
                for page in PAGES:
                    before = time.perf_counter()
                    browser.get(page.format(table=table, run=run)).raise_for_status()
                    took.append(time.perf_counter() - before)
            weights = {page: len(browser.get(page.format(table=table, run=run)).content) for page in PAGES}
        studio.terminate()
        studio.wait()
        p50, p95 = np.quantile(took, [0.5, 0.95])
        print(f"address printed after {printed:.2f} s, first page {1000 * first:.0f} ms later")
        late = np.quantile(rated, 0.95)
        print(f"{RATE} requests/s for {SECONDS} s, run still active: {running}, 95% within {1000 * late:.0f} ms")
        print(f"during a run: {len(took)} pages, median {1000 * p50:.0f} ms, 95% within {1000 * p95:.0f} ms")
        print("weights in kB:", ", ".join(f"{page} {weight / 1000:.1f}" for page, weight in weights.items()))


if __name__ == "__main__":
    main()
