"""Another user of the machine, who sees the process list and may listen on every other port, does not get in."""

from __future__ import annotations

import re
import socket
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest
from typer.testing import CliRunner, Result

from weft.cli import app
from weft.cli.studio_command import _open_sockets
from weft.studio.access import Keys

Start = Callable[..., Result]


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Keys:
    made = Keys()
    monkeypatch.setattr("weft.cli.studio_command._make_access_keys", lambda *_: made)
    return made


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Start a studio that serves nothing; what opens the browser and what serves are given."""

    def started(*words: str, opens: Callable[[str], object] = str, serves: Callable[[], object] = str) -> Result:
        monkeypatch.setattr("webbrowser.open", opens)
        monkeypatch.setattr("uvicorn.Config", lambda *_, **__: None)  # nothing is to be configured in this process
        monkeypatch.setattr("uvicorn.Server", lambda _: SimpleNamespace(run=lambda _: serves()))
        done = CliRunner(env={"NO_COLOR": "1"}).invoke(app, ["studio", "--folder", str(tmp_path / "desk"), *words])
        assert done.exit_code == 0, done.output
        return done

    return started


def page_of(address: str) -> Path:
    assert address.startswith("file://")
    return Path(unquote(urlsplit(address).path))


def test_the_command_that_opens_the_browser_shows_no_key(start, keys, tmp_path):
    seen: list[tuple[str, str]] = []

    def opens(address: str) -> None:
        page = page_of(address)
        assert stat.S_IMODE(page.stat().st_mode) == 0o600 and stat.S_IMODE(page.parent.stat().st_mode) == 0o700
        seen.append((address, page.read_text()))

    printed = "".join(start(opens=opens).output.split())
    ((address, page),) = seen
    (once,) = keys.once
    assert once not in address and keys.token not in address and ".localhost" not in address
    assert once in page and keys.token not in page and once not in printed and keys.token in printed
    assert list((tmp_path / "desk").iterdir()) == []  # the page is gone at the end, used or not


def test_the_page_is_gone_once_its_key_was_used(start, keys):
    opened: list[Path] = []

    def serves() -> None:
        (key,) = keys.once
        with ThreadPoolExecutor(8) as many:
            assert sum(many.map(keys.opens, [key] * 8)) == 1
        assert not opened[0].exists() and keys.opens(keys.token)

    start(opens=lambda address: opened.append(page_of(address)), serves=serves)
    assert opened


def test_no_key_is_written_where_others_may_read_it(start, keys, tmp_path, monkeypatch):
    monkeypatch.setattr("weft.studio.workspace.Desk.__init__", lambda self, folder: folder.mkdir(mode=0o755))
    opened: list[str] = []
    said = start(opens=opened.append).output
    assert opened == [] and "other users may have access" in said and keys.token in "".join(said.split())
    assert list((tmp_path / "desk").iterdir()) == []


def test_every_start_has_a_name_of_its_own(start):
    names = {re.search(r"http://(weft-[0-9a-f]{32}[.]localhost):", start("--no-open").output)[1] for _ in range(2)}
    assert len(names) == 2


def test_a_fixed_name_is_chosen_by_hand_and_warned_of(start):
    said = start("--no-open", "--host", "127.0.0.1").output
    assert "http://127.0.0.1:" in said and "every port" in said


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no address ::1")
def test_nobody_else_listens_where_the_name_may_lead(start):
    """A name that ends in .localhost may be resolved to ::1 as well as to 127.0.0.1."""
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        taken = str(other.getsockname()[1])
        done = CliRunner(env={"NO_COLOR": "1"}).invoke(app, ["studio", "--no-open", "--port", taken])
        assert done.exit_code == 2 and "is taken" in done.output and "--port" in done.output
    listening = _open_sockets(["127.0.0.1", "::1"], 0)
    try:
        for each, host in zip(listening, ("127.0.0.1", "::1"), strict=True):
            with socket.socket(each.family) as other:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                with pytest.raises(OSError, match="in use"):
                    other.bind((host, listening[0].getsockname()[1]))
                    other.listen()
    finally:
        for each in listening:
            each.close()
