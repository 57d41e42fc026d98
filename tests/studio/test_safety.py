"""Attacks on the studio: other sites, other names of this machine, no key, other people's files, two tabs at once."""

import io
import json
import re
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

import weft
from weft.cli import app
from weft.privacy import Budget
from weft.studio.access import Keys
from weft.studio.app import create_studio
from weft.studio.jobs import Jobs
from weft.studio.workspace import Desk

from .conftest import HOST, LARGEST, describe, spend, wait


def test_without_the_key_there_is_nothing(stranger, keys):
    for path in ("/", "/t/000000000000", "/t/000000000000/runs/001/release.zip", "/?token=", "/?token=wrong"):
        refused = stranger.get(path)
        assert refused.status_code == 403 and "key" in refused.text
    assert (
        stranger.post("/tables", data={"source": "/etc/passwd"}, headers={"origin": f"http://{HOST}"}).status_code
        == 403
    )
    stranger.cookies.set("weft-studio", "guessed")
    assert stranger.get("/").status_code == 403


def test_the_key_becomes_a_cookie_that_no_script_and_no_other_site_sees(stranger, keys):
    first = stranger.get("/", params={"token": keys.token})
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "domain" not in cookie
    assert keys.token not in first.text and keys.token not in cookie and 'url=/"' in first.text
    assert stranger.get("/").status_code == 200


def test_a_failure_quotes_nothing(browser, table, monkeypatch, capfd):
    def broken(*_):
        raise ValueError("STAY-000001")

    monkeypatch.setattr("weft.studio.pages.table_page.possible_units", broken)
    failed = browser.get(table)
    said = capfd.readouterr()
    assert failed.status_code == 500 and "ValueError" in said.err
    assert "STAY-000001" not in failed.text + said.out + said.err


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:80", ""])
def test_a_name_that_was_pointed_here_is_refused(browser, host):
    assert browser.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "http://127.0.0.1:9999"])
def test_another_site_can_do_nothing(browser, table, origin):
    for path in ("/tables", f"{table}/budget", f"{table}/remove", f"{table}/columns/edit"):
        assert browser.post(path, data={"source": "x"}, headers={"origin": origin}).status_code == 403
    assert browser.get(table).status_code == 200


def test_pages_may_load_nothing_from_elsewhere(browser, table):
    for path in ("/", table, f"{table}/columns", f"{table}/budget", f"{table}/history", "/static/studio.js"):
        page = browser.get(path)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert page.headers["x-content-type-options"] == "nosniff" and page.headers["cache-control"] == "no-store"
        assert page.headers["referrer-policy"] == "same-origin"
        if "html" in page.headers["content-type"]:
            assert not re.search(r"""(?:src|href|action)=["'](?:https?:)?//""", page.text)
            assert "<script>" not in page.text and " style=" not in page.text and not re.search(r"\son\w+=", page.text)


@pytest.mark.parametrize(
    "path",
    [
        "/t/../../etc",
        "/t/%2e%2e%2f%2e%2e",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "{table}/runs/..%2f..",
        "{table}/runs/../facts.json",
        "{table}/runs/001/files/..%2f..%2ffacts.json",
        "{table}/runs/001/report/..%2fjob",
    ],
)
def test_no_path_leads_out_of_a_run(browser, table, tmp_path, path):
    (tmp_path / "desk" / table.split("/")[-1] / "runs" / "001").mkdir(parents=True)
    found = browser.get(path.format(table=table))
    assert found.status_code in (400, 403, 404, 422), found.text
    assert "rows_per_unit" not in found.text and "import" not in found.text


def test_a_file_that_is_too_large_is_refused_before_it_is_read(browser, tmp_path):
    big = {"file": ("big.csv", b"a" * (LARGEST + 10))}
    assert browser.post("/tables", files=big).status_code == 413
    sent = browser.build_request("POST", "/tables", content=iter([b"a"]))
    assert browser.send(sent).status_code == 411
    assert list((tmp_path / "desk").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["../../../evil.csv", "..\\evil.csv", "/etc/evil.csv", "evil\x00.csv", ".csv", "a" * 300 + ".csv"]
)
def test_the_name_of_a_file_decides_nothing(browser, tmp_path, name):
    made = browser.post("/tables", files={"file": (name, b"a,b\n1,2\n")})
    assert made.status_code in (303, 400, 422)
    inside = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert all((tmp_path / "desk") in path.parents for path in inside)


def test_what_is_no_table_is_told_and_not_kept(browser, tmp_path):
    for name, content in (
        ("a.pdf", b"%PDF"),
        ("a.csv", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"),
        ("a.parquet", b"nothing"),
        ("a.csv", b""),
    ):
        assert browser.post("/tables", files={"file": (name, content)}).status_code == 400
    assert list((tmp_path / "desk").iterdir()) == []


def test_the_desk_is_for_its_owner_alone(browser, table, tmp_path):
    for folder in (tmp_path / "desk", tmp_path / "desk" / table.split("/")[-1]):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    copied = tmp_path / "desk" / table.split("/")[-1] / "stays.csv"
    assert stat.S_IMODE(copied.stat().st_mode) == 0o600


def test_two_tabs_that_press_at_once_make_one_charge(browser, table, tmp_path, monkeypatch):
    start, both = Jobs.start, Barrier(2)

    def at_once(*given):
        both.wait()
        return start(*given)

    monkeypatch.setattr(Jobs, "start", at_once)
    with ThreadPoolExecutor(2) as tabs:
        pressed = [tabs.submit(spend, browser, table, ticket) for ticket in ("a", "b")]
        places = {each.result().headers["location"] for each in pressed}
    assert len(places) == 1
    wait(browser, places.pop())
    ledgers = list((tmp_path / "desk").rglob("*.ledger.jsonl"))
    assert len(ledgers) == 1


def test_what_was_spent_is_not_forgotten_with_a_table(browser, table, tmp_path):
    folder = tmp_path / "desk" / table.split("/")[-1]
    assert browser.post(f"{table}/budget/lifetime", data={"epsilon": "3", "delta": "1e-6"}).status_code == 303
    begun = {"run": "a", "accounting": "zcdp", "budget": Budget(epsilon=2.0, delta=1e-5).to_dict()}
    charge = {"run": "a", "question": "q", "cost": 0.1}
    for name in ("found", "runs/001/synthetic"):  # a search, and a run that was cut short
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.ledger.jsonl").write_text(f"{json.dumps(begun)}\n{json.dumps(charge)}\n")
    assert "at most epsilon 4 was spent" in browser.get(f"{table}/history").text
    assert browser.post(f"{table}/remove").status_code == 303 and not folder.exists()
    kept = tmp_path / "desk" / "removed" / folder.name
    names = {str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()}
    assert names == {"lifetime.budget", "found.ledger.jsonl", "runs/001/synthetic.ledger.jsonl"}
    assert browser.get("/").status_code == 200


def test_private_values_stand_in_no_address_and_no_record(browser, table, csv, capfd):
    browser.get(table)
    describe(browser, table, {"column": "age", "kind": "real", "low": "STAY-000001", "high": "2"})
    said = capfd.readouterr()
    assert "STAY-000001" not in said.out + said.err


def test_a_report_can_reach_nothing(browser, table, tmp_path):
    folder = tmp_path / "desk" / table.split("/")[-1] / "runs" / "001"
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("<script>1</script>")
    policy = browser.get(f"{table}/runs/001/report/releasable").headers["content-security-policy"]
    assert policy.startswith("sandbox") and "allow-same-origin" not in policy and "connect-src" not in policy


def test_only_what_is_known_to_be_public_is_in_a_release(browser, table, tmp_path):
    folder = tmp_path / "desk" / table.split("/")[-1] / "runs" / "001"
    folder.mkdir(parents=True)
    public = {"synthetic.csv", "synthetic.card.json", "synthetic.schema.toml", "synthetic-0a1b2c3d.weft", "model.weft"}
    public |= {"report.html", "report.json", "more-1.csv", "more-1.card.md"}
    own = {
        "synthetic-0a1b2c3d.checkpoint",
        "synthetic.ledger.jsonl",
        "report-PRIVATE.html",
        "report-PRIVATE.json",
        "notes.txt",
        "stays.csv",
    }
    for name in public | own:
        (folder / name).write_text("")
    packed = zipfile.ZipFile(io.BytesIO(browser.get(f"{table}/runs/001/release.zip").content))
    assert set(packed.namelist()) == public


def test_a_run_protects_whom_the_page_says(browser, table, tmp_path):
    browser.post(f"{table}/who", data={"unit": "column", "column": "stay_id", "rows_per_unit": "2"})
    schema = tmp_path / "desk" / table.split("/")[-1] / "schema.toml"
    lines = [line for line in schema.read_text().splitlines() if not line.startswith(("unit =", "rows_per_unit"))]
    schema.write_text("\n".join(['# unit = "stay_id"', *lines]))
    refused = spend(browser, table)
    assert refused.status_code == 400 and "disagree on who is protected" in refused.text
    browser.get(f"{table}/columns")  # which mends it
    assert 'unit = "stay_id"' in [line.strip() for line in schema.read_text().splitlines()]


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--host", "0.0.0.0"], "--i-know"), (["--host", "0.0.0.0", "--i-know"], "WEFT_STUDIO_PASSWORD")],
)
def test_other_machines_are_let_in_only_by_somebody_who_knows(words, told, monkeypatch):
    monkeypatch.delenv("WEFT_STUDIO_PASSWORD", raising=False)
    done = CliRunner(env={"NO_COLOR": "1"}).invoke(app, ["studio", "--no-open", *words])
    assert done.exit_code == 2 and told in done.output


def test_with_a_password_there_is_no_other_way_in(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("weft.studio.app.SLOW", 0.0)
    keys = Keys(password="correct horse battery")
    studio = create_studio(Desk(tmp_path / "desk"), keys, [HOST], LARGEST, "weft-studio")
    with TestClient(studio, base_url=f"http://{HOST}", follow_redirects=False) as visitor:
        visitor.headers["origin"] = f"http://{HOST}"
        assert visitor.get("/").headers["location"] == "/login"
        assert visitor.get("/", params={"token": keys.token}).headers["location"] == "/login"
        assert visitor.post("/login", data={"password": "wrong"}).status_code == 403
        assert visitor.post("/login", data={"password": "x" * 5000}).status_code == 413
        assert visitor.post("/tables", data={"source": "x"}).status_code == 403
        assert visitor.post("/login", data={"password": "correct horse battery"}).status_code == 303
        assert visitor.get("/").status_code == 200


def test_rows_as_they_are_leave_the_curator_for_the_page_of_the_table_alone():
    code = Path(weft.__file__).parent
    callers = [path.name for path in code.rglob("*.py") if ".first_rows(" in path.read_text(encoding="utf-8")]
    assert callers == ["table_page.py"]
