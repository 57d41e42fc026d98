"""Tables of several kinds, walked from the file to the download in a real browser."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .chromium import CHROMIUM, fits, open_page, read_verdict

pytest.importorskip("playwright.sync_api", reason="the pages are driven by playwright")
pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"), pytest.mark.slow]

COVID = Path(__file__).parents[3] / "shared/data/raw/covid_testing.csv.gz"
TIME = 240_000


def write_rows(path: Path, columns: dict[str, Any]) -> Path:
    with path.open("w", newline="") as file:
        made = csv.writer(file)
        made.writerow(columns)
        made.writerows(zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True))
    return path


def spend_budget(page: Any, epsilon: str) -> None:
    """Go from the budget page to the result."""
    page.fill("#epsilon", epsilon)
    page.click("button.large")
    page.wait_for_selector(".phases li", timeout=TIME)
    page.wait_for_selector("text=Some synthetic rows", timeout=TIME)
    fits(page, "result")


def download(page: Any) -> zipfile.ZipFile:
    with page.expect_download() as begun:
        page.click("text=Download everything that may be published")
    return zipfile.ZipFile(io.BytesIO(Path(begun.value.path()).read_bytes()))


@pytest.mark.skipif(not COVID.is_file(), reason="needs ../shared/data/raw/covid_testing.csv.gz")
def test_a_raw_export_with_persons(address: str) -> None:
    with open_page(address) as page:
        page.set_input_files("input[name=file]", COVID)
        page.click("text=Use this file")
        page.check("input[value=column]")
        page.select_option("select[name=column]", "subject_id")
        page.fill("input[name=rows_per_unit]", "1")
        page.click("text=Save and continue")
        page.click("text=Continue to the budget")
        spend_budget(page, "1")
        assert "not usable" in read_verdict(page, "fake_first_name") and "not listed" in read_verdict(
            page, "fake_first_name"
        )
        assert read_verdict(page, "clinic_name").startswith("usable with care")
        assert "values of the private table are lost" in read_verdict(page, "clinic_name", private=True)
        assert read_verdict(page, "gender").startswith("usable")
        rows = download(page).read("synthetic.csv").decode().splitlines()
    # What the page says is so: nearly every real name is gone.
    with gzip.open(COVID, "rt") as file:
        real = {row["fake_first_name"] for row in csv.DictReader(file)}
    assert len({row["fake_first_name"] for row in csv.DictReader(rows)} & real) < len(real) / 20


def test_a_panel_with_a_time_column(address: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 6, 900)
    owner = np.repeat(np.arange(900), sizes)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    columns = {
        "person": owner,
        "year": rng.integers(2015, 2020, 900)[owner] + step,
        "sex": rng.choice(["f", "m"], 900)[owner],
        "visits": rng.integers(0, 9, len(owner)),
        "remark": np.char.add("remark ", (np.arange(len(owner)) % 700).astype(str)),
    }
    with open_page(address) as page:
        page.set_input_files("input[name=file]", write_rows(tmp_path / "panel.csv", columns))
        page.click("text=Use this file")
        page.check("input[value=column]")
        page.select_option("select[name=column]", "person")
        page.select_option("select[name=time]", "year")
        page.click("text=Save and continue")
        page.click("text=Continue to the budget")
        assert page.is_disabled("text=Forecast the error")
        spend_budget(page, "3")
        assert read_verdict(page, "remark").startswith("not usable")
        assert read_verdict(page, "sex").startswith("usable")
        page.click("details.private a:text-is('keys, families and histories')")
        page.frame_locator("details.private iframe").locator("h3:text-is('visits')").wait_for()
        packed = download(page)
    rows = list(csv.DictReader(packed.read("synthetic.csv").decode().splitlines()))
    card = json.loads(packed.read("synthetic.card.json"))
    assert card["histories"] and not any(card["checks"].values())
    constants = {(row["person"], row["sex"]) for row in rows}
    assert len(constants) == len({person for person, _ in constants})  # one sex for each person


def test_two_related_tables(address: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    owner = np.repeat(np.arange(1500), rng.integers(0, 4, 1500))
    patients = {"id": [f"P{i:04d}" for i in range(1500)], "sex": rng.choice(["f", "m"], 1500)}
    stays = {
        "patient": np.asarray(patients["id"])[owner],
        "ward": rng.choice(["eye", "heart"], len(owner)),
        "remark": np.char.add("remark ", (np.arange(len(owner)) % 700).astype(str)),
    }
    files = [write_rows(tmp_path / "patients.csv", patients), write_rows(tmp_path / "stays.csv", stays)]
    with open_page(address) as page:
        page.set_input_files("input[name=file]", files)
        page.click("text=Use this file")
        fits(page, "links")
        assert "stays.patient refers to patients" in page.text_content("svg title")
        assert page.input_value("select[name=root]") == "patients"
        page.select_option("select[name=link-1]", "")  # without the link there are two roots
        page.click("text=Save and draw")
        page.wait_for_selector(".box.bad:has-text('choose both')")
        page.select_option("select[name=link-1]", "patient")
        page.select_option("select[name=parent-1]", "patients")
        page.fill("input[name=most-1]", "3")
        page.click("text=Save and describe the columns")
        page.click("nav.tables >> text=stays")
        page.click("summary:has-text('ward')")
        page.select_option("select[name='ward:kind']", "category")
        page.fill("textarea[name='ward:values']", "eye\nheart")
        fits(page, "columns")
        page.click("text=Save and continue to the budget")
        spend_budget(page, "2")
        assert read_verdict(page, "stays.remark").startswith("not usable")
        assert read_verdict(page, "stays.ward").startswith("usable")
        page.click("text=Make the evidence pack")
        page.wait_for_selector("text=Download the evidence pack", timeout=TIME)
        packed = download(page)
    made = {n: list(csv.DictReader(packed.read(f"{n}.csv").decode().splitlines())) for n in ("patients", "stays")}
    assert {row["patient"] for row in made["stays"]} <= {row["id"] for row in made["patients"]}
    assert not [name for name in packed.namelist() if "ledger" in name]
