"""What is looked at in a notebook shows itself; the example notebook runs from its first cell to its last."""

import json
from pathlib import Path

import pytest

import weft
from weft.hospital import hospital, hospital_schema

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorials" / "notebook.ipynb"


@pytest.fixture(scope="module")
def fitted():
    schema = weft.Schema.from_toml(hospital_schema())
    return weft.Synthesizer(1.0, method="independent", journal=None).fit(hospital(300), schema)


def test_everything_shows_itself(fitted):
    from weft.evaluation.report import releasable_report

    schema = fitted.fitted_.schema
    shown = {
        "columns": schema,
        "one-way marginals": fitted.ledger_,
        "fitted by independent": fitted,
        "female": fitted.query("sex"),
        "Error by epsilon": fitted.plan(schema, 300),
        "RELEASABLE": releasable_report(fitted.fitted_),
    }
    for word, thing in shown.items():
        made = thing._repr_html_()
        assert word in made and "<script>" not in made


def test_a_name_cannot_write_into_the_page():
    schema = weft.Schema.from_toml('[columns."<script>alert(1)</script>"]\nkind = "boolean"\n')
    assert "<script>" not in schema._repr_html_()


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = [each for each in json.loads(NOTEBOOK.read_text())["cells"] if each["cell_type"] == "code"]
    assert len(cells) >= 6
    names = {}
    for cell in cells:
        exec(compile("".join(cell["source"]), "notebook", "exec"), names)
