"""What somebody meets who was never here before: mistakes in fields, and what the studio makes of them."""

import re
import tomllib

import pytest

from weft.hospital import hospital_schema
from weft.studio.column_editor import fill_open_columns, find_schema_fault, first_schema, list_fillable_columns

from .conftest import describe, spend, wait, words

FOUND = """
discovery = {epsilon = 0.1, delta = 1e-6}

[columns.age]
kind = "integer"
outside = "clip"
paid = ["kind", "range"]
range = [50, 79]

[columns.ward]
kind = "category"
outside = "other"
paid = ["kind", "values"]
values = ["surgery", "other"]
other = "other"
"""


def test_what_was_said_stays_when_what_was_found_is_used():
    said = '[columns.age]\nkind = "integer"\nrange = [0, 120]\n\n' + first_schema(["ward", "sex"])
    assert list_fillable_columns(said, FOUND) == ["ward"]
    made = tomllib.loads(fill_open_columns(said, FOUND))
    assert made["columns"]["age"] == {"kind": "integer", "range": [0, 120]}
    assert made["columns"]["ward"]["values"] == ["surgery", "other"] and made["columns"]["sex"]["kind"] == "unknown"
    assert made["discovery"] == {"epsilon": 0.1, "delta": 1e-6}
    assert (
        list_fillable_columns(fill_open_columns(said, FOUND), FOUND) == []
    )  # it is not offered, and not paid for, twice
    assert fill_open_columns(fill_open_columns(said, FOUND), FOUND) == fill_open_columns(said, FOUND)


def test_what_was_found_fills_the_range_of_a_column_that_has_a_kind():
    made = fill_open_columns(
        'discovery = {epsilon = 0.2, delta = 0}\n[columns.age]\nkind = "integer"\nmissing = true\n', FOUND
    )
    age = tomllib.loads(made)["columns"]["age"]
    assert age == {"kind": "integer", "missing": True, "range": [50, 79], "outside": "clip", "paid": ["range"]}
    assert tomllib.loads(made)["discovery"]["epsilon"] == pytest.approx(0.3)  # both searches were paid for
    assert find_schema_fault(made) == ""


def test_the_studio_offers_and_takes_what_a_search_found(browser, table, tmp_path):
    (tmp_path / "desk" / table.split("/")[-1] / "found.toml").write_text(FOUND)
    describe(browser, table, {"column": "age", "kind": "integer", "low": "0", "high": "120"})
    assert "1 open column was found privately" in words(browser.get(f"{table}/columns").text)
    place = browser.post(f"{table}/columns/take").headers["location"]
    page = words(browser.get(place).text)
    assert "0 to 120" in page and "surgery, other" in page and "review the columns" in page
    assert "it is counted as the value for all others" in page and "Use what was found" not in page


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"column": "age", "kind": "integer", "low": "120", "high": "0"}, "must be below the largest"),
        ({"column": "sex", "kind": "category", "values": "female, male"}, "on a separate line"),
        ({"column": "cost", "kind": "real", "low": "0", "high": "100,000"}, "without units or commas"),
        ({"column": "length_of_stay", "kind": "derived", "formula": "discharge - admitted"}, 'uses "discharge"'),
    ],
)
def test_a_mistake_is_told_at_its_column_and_what_was_typed_stays(browser, table, form, told):
    refused = describe(browser, table, form)
    assert refused.status_code == 400
    (column,) = re.findall(r"<details class=\"column\"[^>]* open>.*?</details>", refused.text, re.DOTALL)
    alert = re.search(r'role="alert">(.*?)</p>', column, re.DOTALL)
    assert told in words(alert[1]).replace("&#34;", '"') and not re.search(r"line \d", alert[1])
    assert re.search(rf'value="{form["kind"]}" selected', column)
    assert all(value in column for key, value in form.items() if key != "column")


def test_a_rule_in_plain_words_is_met_with_the_examples(browser, table):
    refused = browser.post(f"{table}/columns/rule", data={"rule": "discharged is after admitted"})
    assert refused.status_code == 400 and "press one of the examples" in words(refused.text)
    assert "discharged is after admitted</textarea>" in refused.text and "TOML:" not in words(refused.text)


def test_a_number_that_cannot_be_read_is_told_in_words_with_a_way_back(browser, table):
    chosen = {"epsilon": "much", "delta": "STAY-000001", "rows": "400"}
    refused = browser.post(f"{table}/budget", data=chosen)
    page = words(refused.text)
    assert (
        refused.status_code == 422 and "Epsilon must be a number above 0" in page and "Delta must be at least 0" in page
    )
    assert "STAY-000001" not in refused.text and f'href="{table}/budget"' in refused.text
    nowhere = browser.get(f"{table}/nowhere")
    assert nowhere.status_code == 404 and "This page does not exist" in words(nowhere.text)


def test_somebody_without_a_table_gets_one(browser, tmp_path):
    place = browser.post("/tables/demo").headers["location"]
    assert "STAY-000001" in browser.get(place).text
    columns = browser.get(f"{place}/columns").text
    assert all(name in columns for name in tomllib.loads(hospital_schema())["columns"])


def test_a_draft_is_gone_through_column_by_column(browser, table, tmp_path):
    read = "\n".join(f'[columns.{name}]\nkind = "boolean"\nfrom_data = ["kind"]\n' for name in ("a", "b"))
    (tmp_path / "desk" / table.split("/")[-1] / "schema.toml").write_text(read)
    for name in ("a", "b"):
        page = browser.get(f"{table}/columns").text
        (column,) = re.findall(r"<details class=\"column\"[^>]* open>.*?</details>", page, re.DOTALL)
        assert f"<strong>{name}</strong>" in column
        browser.post(f"{table}/columns/edit", data={"settle": f"public kind {name}"})


def test_values_beyond_what_was_said_can_be_taken_in(browser, table, tmp_path):
    schema = tmp_path / "desk" / table.split("/")[-1] / "schema.toml"
    forms = [
        {"column": "age", "kind": "integer", "low": "0", "high": "90", "outside": "on"},
        {"column": "sex", "kind": "category", "values": "female\nmale", "outside": "on"},
        {"column": "cost", "kind": "real", "low": "0", "high": "9"},
    ]
    for form in (*forms, *forms):  # at first, and when it is changed
        assert describe(browser, table, form).status_code == 303, form
    made = tomllib.loads(schema.read_text())["columns"]
    assert made["age"]["outside"] == "clip" and "outside" not in made["cost"]
    assert made["sex"] == {
        "kind": "category",
        "values": ["female", "male", "other"],
        "outside": "other",
        "other": "other",
    }
    assert describe(browser, table, forms[1] | {"outside": ""}).status_code == 303
    assert "outside" not in tomllib.loads(schema.read_text())["columns"]["sex"]


def test_what_is_changed_by_hand_was_not_found(browser, table, tmp_path):
    (tmp_path / "desk" / table.split("/")[-1] / "found.toml").write_text(FOUND)
    browser.post(f"{table}/columns/take")
    form = {"column": "age", "kind": "integer", "low": "0", "high": "120", "outside": "on"}
    assert describe(browser, table, form).status_code == 303
    schema = (tmp_path / "desk" / table.split("/")[-1] / "schema.toml").read_text()
    assert tomllib.loads(schema)["columns"]["age"]["paid"] == ["kind"]


def test_a_run_that_stops_says_how_to_go_on(browser, table):
    describe(browser, table, {"column": "age", "kind": "integer", "low": "0", "high": "3"})
    page = words(wait(browser, spend(browser, table).headers["location"]))
    assert "Nothing was spent" in page and "widen the range" in page and "Go to the columns" in page
