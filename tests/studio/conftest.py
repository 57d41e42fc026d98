"""A studio on a folder of its own, and a browser without a screen that has its key."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.hospital import hospital

pytest.importorskip("fastapi", reason="the studio needs weft[studio]")
pytest.importorskip("httpx2", reason="the studio's tests need httpx2")

from fastapi.testclient import TestClient
from httpx2 import Response

from weft.studio.access import Keys
from weft.studio.app import create_studio
from weft.studio.workspace import Desk

HOST = "127.0.0.1:8765"
LARGEST = 2_000_000


@pytest.fixture(scope="session")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import pyarrow.csv

    path = tmp_path_factory.mktemp("private") / "stays.csv"
    pyarrow.csv.write_csv(hospital(rows=400), path)
    return path


@pytest.fixture
def keys() -> Keys:
    return Keys()


@pytest.fixture
def stranger(tmp_path: Path, keys: Keys) -> Iterator[TestClient]:
    """A browser that found the address, and has no key."""
    app = create_studio(Desk(tmp_path / "desk"), keys, [HOST], LARGEST, "weft-studio")
    with TestClient(app, base_url=f"http://{HOST}", follow_redirects=False) as client:
        yield client


@pytest.fixture
def browser(stranger: TestClient, keys: Keys) -> TestClient:
    """The browser of the person who started the studio."""
    assert stranger.get("/", params={"token": keys.token}).status_code == 200
    assert len(keys.sessions) == 1
    stranger.headers["origin"] = f"http://{HOST}"
    return stranger


@pytest.fixture
def table(browser: TestClient, csv: Path) -> str:
    """The address of a table in the studio, every row of which is another person's."""
    with csv.open("rb") as stream:
        place = browser.post("/tables", files={"file": ("stays.csv", stream)}).headers["location"]
    assert browser.post(f"{place}/who", data={"unit": "rows"}).status_code == 303
    return place


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


def describe(browser: TestClient, place: str, *forms: dict[str, str]) -> Response:
    """Save the forms of columns, each with the name of its column."""
    typed = {f"{form['column']}:{key}": value for form in forms for key, value in form.items() if key != "column"}
    return browser.post(f"{place}/columns/edit", data=typed)


def spend(browser: TestClient, place: str, ticket: str = "once") -> Response:
    """Press the button that spends a budget."""
    chosen = {"epsilon": "1", "delta": "1e-5", "rows": "400", "method": "independent"}
    return browser.post(f"{place}/budget", data={**chosen, "then": "run", "ticket": ticket})


def wait(browser: TestClient, place: str) -> str:
    """Return the page once nothing runs on it any more."""
    for _ in range(600):
        page = browser.get(place).text
        if "data-poll" not in page:
            return page
        time.sleep(0.1)
    raise AssertionError("it takes too long")


def words(page: str) -> str:
    """Return the text of a page."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())
