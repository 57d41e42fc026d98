"""The whole road, page by page: a table, its columns, a budget, a run, its result."""

import io
import json
import re
import zipfile

import pytest

from weft.hospital import hospital_schema

from .conftest import describe, spend, wait, words


def test_a_table_becomes_a_release(browser, table):
    describe(browser, table, {"column": "age", "kind": "integer", "low": "0", "high": "120"})
    assert "0 to 120" in words(browser.get(f"{table}/columns").text)
    # Stated, since discovery finds a value with high probability only, and the counts below need it.
    stated = {"column": "sex", "kind": "category", "values": "female\nmale\nother"}
    assert describe(browser, table, stated).status_code == 303
    chosen = {"epsilon": "2", "delta": "1e-5", "rows": "400", "method": "independent"}
    ticket = re.search(r'name="ticket" value="(\w+)"', browser.get(f"{table}/budget").text)[1]
    pressed = {**chosen, "then": "run", "ticket": ticket}
    run = browser.post(f"{table}/budget", data=pressed).headers["location"]
    assert browser.post(f"{table}/budget", data=pressed).headers["location"] == run  # pressed twice: one run
    page = words(wait(browser, run))
    assert "epsilon 2" in page and "independent" in page and "Some synthetic rows" in page
    assert "PRIVATE" in page and "May be published" in page

    packed = zipfile.ZipFile(io.BytesIO(browser.get(f"{run}/release.zip").content))
    assert {"synthetic.csv", "synthetic.card.json", "model.weft", "report.html"} <= set(packed.namelist())
    assert not [name for name in packed.namelist() if "PRIVATE" in name or "ledger" in name]
    assert json.loads(packed.read("synthetic.card.json"))["privacy"]["epsilon"] == 2.0

    counts = browser.post(f"{run}/query", data={"columns": ["sex"], "where": "age>=65"})
    assert counts.status_code == 200 and "female" in counts.text and "meter" in counts.text
    assert browser.post(f"{run}/query", data={"columns": ["sex"], "where": "age>=x"}).status_code == 400
    ledger = browser.get(f"{run}/files/synthetic.ledger.jsonl").text
    assert ledger.count('"begin"') <= 1

    browser.post(f"{run}/more", data={"ticket": "a", "rows": "5", "where": "sex=female"})
    wait(browser, run)
    rows = browser.get(f"{run}/files/more-1.csv").text.splitlines()
    assert len(rows) == 6 and all("female" in row for row in rows[1:])
    assert browser.post(f"{table}/columns/take", data={"run": "001"}).status_code == 303
    assert "found privately" in words(browser.get(f"{table}/columns").text)
    assert "still open" not in words(browser.get(f"{table}/budget").text)
    history = words(browser.get(f"{table}/history").text)
    assert re.search(r"001 \d{4}-\d\d-\d\d \d\d:\d\d UTC done 2 independent", history)


def test_every_page_says_how_to_do_it_without(browser, table):
    page = browser.get(f"{table}/budget").text
    assert "weft synth stays.csv --schema schema.toml --epsilon 1" in page
    assert "weft.Synthesizer(epsilon=1, delta=1e-05)" in page and "--json" not in page


def test_the_same_words_run_outside_the_studio(browser, table, tmp_path, monkeypatch):
    """What the page shows can be pasted into a shell in the table's folder."""
    import shlex

    from typer.testing import CliRunner

    from weft.cli import app
    from weft.studio import command_text as spoken
    from weft.studio.workspace import Desk

    there = Desk(tmp_path / "desk").table(table.split("/")[-1]).change(method="independent")
    there.schema.write_text(hospital_schema())
    monkeypatch.chdir(there.folder)
    there.new_run()
    for line in spoken.write_synth_command(there, "001").commands.splitlines():
        done = CliRunner().invoke(app, shlex.split(line)[1:])
        assert done.exit_code == 0, done.output
    again = (
        spoken.write_query_command("001", ["sex"], ["age>=65"]),
        spoken.write_sample_command("001", 5, ["sex=male"], "m"),
    )
    for said in (spoken.write_synth_command(there, "001"), *again):
        exec(compile(said.python, "page", "exec"), {})


def test_a_plan_needs_every_column_and_says_so(browser, table):
    assert "15 are still open" in words(browser.get(f"{table}/budget").text)


def test_a_draft_is_reviewed_before_anything_is_released(browser, table):
    browser.post(f"{table}/columns/draft", data={"ticket": "a"})
    page = words(wait(browser, f"{table}/columns"))
    assert "facts were read from the private rows" in page
    refused = spend(browser, table)
    assert refused.status_code == 400 and "are not reviewed" in refused.text
    for fact in ("range", "kind"):
        data = {"settle": f"public {fact} age"}
        assert browser.post(f"{table}/columns/edit", data=data).status_code == 303
    text = browser.get(f"{table}/columns").text
    assert browser.post(f"{table}/columns/edit", data={"settle": "private  "}).status_code == 303
    browser.post(f"{table}/columns/edit", data={"settle": "public  "})
    page = browser.get(f"{table}/columns").text
    assert "read from the private rows" not in page and page != text


def test_who_is_protected_must_be_said(browser, csv):
    place = browser.post("/tables", data={"source": str(csv)}).headers["location"]
    assert "state who is protected" in browser.get(f"{place}/budget").text
    assert spend(browser, place).status_code == 400
    browser.post(f"{place}/who", data={"unit": "column", "column": "stay_id", "rows_per_unit": "3"})
    assert "unit = &#34;stay_id&#34;" in browser.get(f"{place}/columns").text
    browser.post("/tables", data={"source": str(csv)})
    assert csv.exists()
    assert browser.post(f"{place}/remove").status_code == 303 and csv.exists()  # a table that lies elsewhere stays
    assert browser.get(place).status_code == 400


def test_the_rows_do_not_choose_who_is_protected(browser, tmp_path):
    """A hint is shown as PRIVATE, and nothing is chosen for the curator."""
    source = tmp_path / "visits.csv"
    source.write_text("patient_id,age\n" + "".join(f"p{i // 3},{i % 90}\n" for i in range(300)))
    place = browser.post("/tables", data={"source": str(source)}).headers["location"]
    page = browser.get(place).text
    assert "Hint from the rows, do not share" in page
    assert " checked" not in page and " selected" not in page
    for form in ({}, {"unit": "column"}, {"unit": "column", "column": ""}):
        assert browser.post(f"{place}/who", data=form).status_code == 400


def test_a_file_whose_first_line_is_a_row_is_not_taken(browser, tmp_path):
    source = tmp_path / "visits.csv"
    source.write_text("".join(f"smith,{20 + i % 60}\n" for i in range(300)))
    refused = browser.post("/tables", data={"source": str(source)})
    assert refused.status_code == 400 and "looks like a row" in refused.text and "smith" not in refused.text


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"column": "age", "kind": "integer", "low": "9", "high": "3"}, "range"),
        ({"column": "age", "kind": "integer", "low": "9"}, "requires both"),
        ({"column": "age", "kind": "real", "low": "a", "high": "b"}, "numbers"),
        ({"column": "nobody", "kind": "boolean"}, "no column"),
        ({"column": "age", "kind": "colour"}, "choose the kind of the column"),
        ({"column": "discharged", "kind": "datetime", "low": "0d", "high": "9d", "after": "nobody"}, "nobody"),
    ],
)
def test_what_is_wrong_of_a_column_is_told_and_changes_nothing(browser, table, form, told):
    before = browser.get(f"{table}/columns").text
    refused = describe(browser, table, form)
    assert refused.status_code == 400 and told in words(refused.text)
    after = browser.get(f"{table}/columns").text
    assert len({re.sub(r'value="\w{16}"', "", page) for page in (before, after)}) == 1


def test_columns_come_after_others_and_follow_from_them(browser, table):
    forms = [
        {"column": "admitted", "kind": "datetime", "low": "2024-01-01", "high": "2024-12-31"},
        {"column": "discharged", "kind": "datetime", "after": "admitted", "low": "0d", "high": "90d"},
        {"column": "length_of_stay", "kind": "derived", "formula": "discharged - admitted"},
        {"column": "sex", "kind": "category", "values": "female\nmale\n"},
    ]
    for form in forms:
        assert describe(browser, table, form).status_code == 303, form
    rule = {"rule": 'order = ["admitted", "discharged"]'}
    assert browser.post(f"{table}/columns/rule", data=rule).status_code == 303
    assert browser.post(f"{table}/columns/rule", data={"rule": 'order = ["admitted", "nobody"]'}).status_code == 400
    page = browser.get(f"{table}/columns").text
    assert "after admitted" in words(page) and "order = [" in page
    browser.post(f"{table}/columns/unrule", data={"index": "0"})
    assert "order = [" not in browser.get(f"{table}/columns").text.replace("placeholder='order", "").replace(
        "data-fill='order", ""
    )


def test_rules_are_added_by_forms(browser, table):
    """What a form adds is a rule of the schema, and a rule that cannot hold is refused with its reason."""
    place = f"{table}/columns/guided"
    for name in ("admitted", "discharged"):
        described = {"column": name, "kind": "datetime", "low": "2024-01-01", "high": "2024-12-31"}
        assert describe(browser, table, described).status_code == 303
    assert describe(browser, table, {"column": "age", "kind": "integer", "low": "0", "high": "99"})
    assert browser.post(place, data={"kind": "order", "columns": ["admitted", "discharged"]}).status_code == 303
    assert browser.post(place, data={"kind": "unique", "columns": ["admitted", "age"]}).status_code == 303
    page = words(browser.get(f"{table}/columns").text)
    assert "admitted" in page and "discharged" in page
    assert browser.post(place, data={"kind": "order", "columns": ["", ""]}).status_code == 400
    assert browser.post(place, data={"kind": "sum", "columns": ["age"]}).status_code == 400
    assert browser.post(place, data={"kind": "order", "columns": ["admitted", "nobody"]}).status_code == 400


def test_columns_that_stay_the_same_for_a_person_are_stated_by_a_form(browser, csv):
    place = browser.post("/tables", data={"source": str(csv)}).headers["location"]
    browser.post(f"{place}/who", data={"unit": "column", "column": "region", "rows_per_unit": "3"})
    sex = {"column": "sex", "kind": "category", "values": "female\nmale\n"}
    assert describe(browser, place, sex).status_code == 303
    done = browser.post(f"{place}/columns/guided", data={"kind": "per_unit", "columns": ["sex"]})
    assert done.status_code == 303, done.text
    assert "per_unit = [" in browser.get(f"{place}/columns").text


def test_a_code_book_describes_open_columns_only(browser, table):
    book = "column,type,values\nsex,category,female;male;other\nage,integer,\n"
    done = browser.post(f"{table}/columns/import", files={"file": ("book.csv", book.encode())})
    assert done.status_code == 303, done.text
    assert "female" in words(browser.get(f"{table}/columns").text)
    refused = browser.post(f"{table}/columns/import", files={"file": ("book.csv", b"column,type\nnobody,integer\n")})
    assert refused.status_code == 400 and "describes no column that is still open" in refused.text


def test_a_public_table_is_named_for_a_run(browser, table, csv):
    chosen = {"epsilon": "1", "delta": "1e-5", "rows": "400", "public": str(csv)}
    assert browser.post(f"{table}/budget", data=chosen).status_code == 303
    assert f"--public {csv}" in words(browser.get(f"{table}/budget").text)
    refused = browser.post(f"{table}/budget", data=chosen | {"public": "/nowhere.csv"})
    assert refused.status_code == 400 and "no such file" in refused.text


def test_two_runs_are_compared_column_by_column(browser, table):
    for number, ticket in (("001", "one"), ("002", "two")):
        wait(browser, spend(browser, table, ticket).headers["location"])
        assert number in browser.get(f"{table}/history").text
    page = words(browser.get(f"{table}/compare", params={"run": ["001", "002"]}).text)
    assert "Run 001 Run 002" in page and "Single columns" in page and "usable" in page
    assert page.index("age") and "not in this run" not in page
    assert browser.get(f"{table}/compare", params={"run": "001"}).status_code == 400


def test_a_lifetime_budget_is_shown_and_kept(browser, table):
    assert browser.post(f"{table}/budget/lifetime", data={"epsilon": "3", "delta": "1e-6"}).status_code == 303
    page = words(browser.get(f"{table}/budget").text)
    assert "100% is left" in page and "--budget lifetime.budget" in page


def test_a_run_is_cancelled_safely(browser, table):
    run = spend(browser, table).headers["location"]
    assert browser.post(f"{run}/cancel").status_code == 303
    page = words(wait(browser, run))
    assert "Cancelled" in page and "Traceback" not in page
    files = re.findall(r"files/([^\"]+)\"", browser.get(run).text)
    assert "synthetic.csv" not in files


def test_a_result_says_at_its_top_how_many_columns_can_be_used(browser, table):
    run = spend(browser, table).headers["location"]
    page = wait(browser, run)
    verdicts = json.loads(browser.get(f"{run}/files/synthetic.card.json").text)["columns"]
    grades = [each["verdict"] for each in verdicts if "verdict" in each]
    said = re.search(r'id="overall"><strong>(.*?)</strong>', page)[1]
    assert said.startswith(f"{grades.count('usable')} of {len(grades)} columns usable, ")
    assert f"{grades.count('not usable')} not usable" in said
    worst = next(each["name"] for each in verdicts if each.get("verdict") == "not usable")
    assert f'<a href="#verdict-0">{worst}</a>' in page and f'id="verdict-0"><th scope="row">{worst}</th>' in page
    for edition in ("private", "releasable"):
        report = browser.get(f"{run}/report/{edition}").text
        assert re.search(r'id="overall"><b>\d+ of 15 columns usable', report)
        assert "Look first at" in report
    assert said in browser.get(f"{run}/report/releasable").text
