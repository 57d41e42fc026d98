"""Columns are saved together, nothing that was typed is lost, and related tables have columns, too."""

import io
import re
import tomllib
import zipfile

import pytest

from .conftest import describe, wait, words

AGE = {"column": "age", "kind": "integer", "low": "0", "high": "120"}
SEX = {"column": "sex", "kind": "category", "values": "female\nmale\nother"}


def schema_of(tmp_path, table):
    return tomllib.loads((tmp_path / "desk" / table.split("/")[-1] / "schema.toml").read_text())


def load_form(browser, place, column):
    """Return the form of a column as the page loads it: the names and contents of its fields."""
    part = browser.get(f"{place}/columns/fields", params={"column": column}).text
    form = dict(re.findall(r'name="([^"]*)" value="([^"]*)"', part))
    return form | {f"{column}:kind": re.search(r'value="(\w+)" selected', part)[1]}


def test_all_changed_columns_are_saved_at_once(browser, table, tmp_path):
    assert describe(browser, table, AGE, SEX).status_code == 303
    made = schema_of(tmp_path, table)["columns"]
    assert made["age"]["range"] == [0, 120] and made["sex"]["values"] == ["female", "male", "other"]
    page = browser.get(f"{table}/columns").text
    assert page.count("Save all changes") == 2  # one for the Enter key
    assert 'name="age:kind"' not in page  # forms are loaded when they are opened, and work as pages of their own
    assert 'name="age:kind"' in browser.get(f"{table}/columns", params={"describe": "age"}).text
    saved = browser.post(f"{table}/columns/edit", data={"then": "budget"})
    assert saved.headers["location"] == f"{table}/budget"


def test_an_invalid_column_stops_no_other_and_loses_nothing(browser, table, tmp_path):
    wrong = {"column": "cost", "kind": "real", "low": "0", "high": "100,000", "markers": "none"}
    refused = describe(browser, table, AGE, wrong, SEX)
    page = words(refused.text)
    assert refused.status_code == 400 and "Not saved: cost. The reason is stated at each column" in page
    assert page.count("without units or commas") == 1 and page.count("not saved") == 1
    assert 'name="cost:high" value="100,000"' in refused.text and 'name="cost:markers" value="none"' in refused.text
    made = schema_of(tmp_path, table)["columns"]
    assert made["age"]["range"] == [0, 120] and "values" in made["sex"] and made["cost"] == {"kind": "unknown"}


def test_columns_that_need_each_other_are_saved_in_any_order(browser, table, tmp_path):
    later = {"column": "admitted", "kind": "datetime", "after": "discharged", "low": "0d", "high": "90d"}
    first = {"column": "discharged", "kind": "datetime", "low": "2024-01-01", "high": "2024-12-31"}
    assert describe(browser, table, later, first).status_code == 303
    assert schema_of(tmp_path, table)["columns"]["admitted"]["after"] == "discharged"


def test_a_column_that_was_changed_in_another_tab_is_not_overwritten(browser, table, tmp_path):
    describe(browser, table, AGE)
    forms = load_form(browser, table, "age")
    assert describe(browser, table, AGE | {"high": "130"}).status_code == 303  # in another tab
    assert browser.post(f"{table}/columns/edit", data=forms).status_code == 303  # this one was only looked at
    assert schema_of(tmp_path, table)["columns"]["age"]["range"] == [0, 130]
    refused = browser.post(f"{table}/columns/edit", data=forms | {"age:high": "90"})
    assert refused.status_code == 400 and "was changed elsewhere" in refused.text
    assert schema_of(tmp_path, table)["columns"]["age"]["range"] == [0, 130]


def test_a_fact_is_settled_without_losing_what_was_typed(browser, table, tmp_path):
    schema = tmp_path / "desk" / table.split("/")[-1] / "schema.toml"
    schema.write_text(
        '[columns.age]\nkind = "integer"\nrange = [0, 99]\nfrom_data = ["range"]\n\n[columns.sex]\nkind = "unknown"\n'
    )
    typed = {f"sex:{key}": value for key, value in SEX.items() if key != "column"}
    assert browser.post(f"{table}/columns/edit", data=typed | {"settle": "public range age"}).status_code == 303
    made = schema_of(tmp_path, table)["columns"]
    assert "from_data" not in made["age"] and made["sex"]["kind"] == "category"


@pytest.fixture
def related(browser):
    """The address of three related tables."""
    return browser.post("/tables/demo", data={"related": "yes"}).headers["location"]


def test_columns_of_related_tables_are_described_table_by_table(browser, related, tmp_path):
    links = browser.get(related).text
    assert f'href="{related}/columns?of=stays"' in links and "Save and describe the columns" in links
    page = browser.get(f"{related}/columns", params={"of": "stays"}).text
    assert "cardiology, geriatrics" in words(page) and "born" not in words(page)
    ward = {"stays:x": "", "ward:kind": "category", "ward:values": "eye\nheart"}
    done = browser.post(f"{related}/columns/edit?of=stays", data=ward | {"nights:kind": "integer", "nights:low": "0"})
    assert done.status_code == 400 and "requires both" in words(done.text)
    made = schema_of(tmp_path, related)
    assert made["tables"]["stays"]["columns"]["ward"]["values"] == ["eye", "heart"]
    assert made["tables"]["stays"]["foreign_keys"] == {"patient": "patients.patient"} and made["family_rules"]
    rule = {"rule": 'forbid = [{ward = "eye"}]'}
    assert browser.post(f"{related}/columns/rule?of=stays", data=rule).status_code == 303
    assert schema_of(tmp_path, related)["tables"]["stays"]["rules"]
    refused = browser.post(f"{related}/columns/edit?of=stays", data={"admitted:kind": "boolean"})
    assert refused.status_code == 400 and "is not a modelled column of numbers or dates" in words(refused.text)


def test_open_columns_of_related_tables_are_described_before_a_run(browser, tmp_path):
    patients = "id,sex,born\n" + "".join(f"P{i},{'fm'[i % 2]},{1950 + i % 50}\n" for i in range(300))
    stays = "patient,ward\n" + "".join(f"P{i // 2},{('eye', 'heart')[i % 2]}\n" for i in range(600))
    files = [("file", ("patients.csv", patients.encode())), ("file", ("stays.csv", stays.encode()))]
    place = browser.post("/tables", files=files).headers["location"]
    form = {"root": "patients", "key-0": "id", "link-1": "patient", "parent-1": "patients", "most-1": "2"}
    saved = browser.post(f"{place}/links", data=form | {"then": "/columns"})
    assert saved.headers["location"] == f"{place}/columns", saved.text
    page = words(browser.get(f"{place}/columns").text)
    assert "an id, newly generated" in page and page.count("to be found privately") >= 2
    known = {
        "sex:kind": "category",
        "sex:values": "f\nm",
        "born:kind": "integer",
        "born:low": "1950",
        "born:high": "1999",
    }
    assert browser.post(f"{place}/columns/edit?of=patients", data=known).status_code == 303
    known = {"ward:kind": "category", "ward:values": "eye\nheart"}
    assert browser.post(f"{place}/columns/edit?of=stays", data=known).status_code == 303
    pressed = {"epsilon": "4", "delta": "1e-5", "rows": "400", "then": "run", "ticket": "once"}
    page = words(wait(browser, browser.post(f"{place}/budget", data=pressed).headers["location"]))
    assert "synthetic rows of patients" in page and "stays.ward" in page
    # The curator compares the tables with the private ones, page by page; no page is part of the release.
    run = f"{place}/runs/001"
    assert "Real and synthetic side by side: keys, families and histories , patients , stays , stays-siblings" in page
    for part in ("index", "patients", "stays", "stays-siblings"):
        report = browser.get(f"{run}/report/private", params={"part": part})
        assert "PRIVATE" in report.text and report.headers["content-security-policy"].startswith("sandbox")
        assert not re.search(r'href="\w+\.html"', report.text)
    for part in ("../released/patients", "report-PRIVATE/stays", "nobody"):
        assert browser.get(f"{run}/report/private", params={"part": part}).status_code == 400
    packed = zipfile.ZipFile(io.BytesIO(browser.get(f"{run}/release.zip").content))
    assert {"patients.csv", "stays.csv"} <= set(packed.namelist())
    assert not [name for name in packed.namelist() if name.endswith((".html", ".json")) and "card" not in name]
