"""Counting queries to models of related tables, and forecasts of their errors."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import weft
from weft.cli import app
from weft.errors import ConditionError, MethodError
from weft.schema.database import Database

SCHEMA = """
root = "patients"

[tables.patients]
key = "id"
columns.sex = {kind = "category", values = ["f", "m"]}
columns.stays = {kind = "integer", range = [0, 4]}

[tables.stays]
key = "stay"
foreign_keys = {patient = "patients.id", ward = "wards.code"}
max_children = 4
columns.days = {kind = "integer", range = [0, 30]}

[tables.drugs]
foreign_keys = {stay = "stays.stay"}
max_children = 3
columns.form = {kind = "category", values = ["pill", "drip"]}

[tables.visitors]
foreign_keys = {patient = "patients.id"}
max_children = 2
columns.kin = {kind = "category", values = ["yes", "no"]}

[tables.wards]
key = "code"
public = true
columns.floor = {kind = "integer", range = [0, 9]}

[[family_rules]]
count = "stays"
column = "stays"
max = 4
"""


def hospital(n=1500, seed=0):
    """Make patients whose wards depend on their sex, and drugs whose forms depend on the ward."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    stays = rng.integers(0, np.where(sex == "f", 4, 5))
    owner = np.repeat(np.arange(n), stays)
    ward = np.where(rng.random(len(owner)) < np.where(sex[owner] == "f", 0.8, 0.3), "eye", "heart")
    drugs = rng.integers(0, np.where(ward == "eye", 2, 4))
    place = np.repeat(np.arange(len(owner)), drugs)
    form = np.where(rng.random(len(place)) < np.where(ward[place] == "eye", 0.9, 0.4), "pill", "drip")
    visited = rng.integers(0, n, 500)
    return {
        "patients": pd.DataFrame({"id": np.arange(n), "sex": sex, "stays": stays}),
        "stays": pd.DataFrame(
            {
                "stay": np.arange(len(owner)),
                "patient": owner,
                "ward": ward,
                "days": rng.poisson(np.where(ward == "eye", 3, 9)).clip(0, 30),
            }
        ),
        "drugs": pd.DataFrame({"stay": place, "form": form}),
        "visitors": pd.DataFrame({"patient": visited, "kin": rng.choice(["yes", "no"], len(visited))}),
        "wards": pd.DataFrame({"code": ["eye", "heart"], "floor": [1, 2]}),
    }


def joined(data):
    """Return stays with their patients, and drugs with their stays and patients."""
    patients = data["patients"].rename(columns=lambda name: f"patients.{name}")
    stays = data["stays"].merge(patients, left_on="patient", right_on="patients.id")
    above = stays.rename(columns=lambda name: name if "." in name else f"stays.{name}")
    drugs = data["drugs"].merge(above, left_on="stay", right_on="stays.stay")
    return {"patients": data["patients"], "stays": stays, "drugs": drugs}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("related") / "hospital.weft"
    synthesizer = weft.Synthesizer(epsilon=4, journal=None, seed=1, noise_seed=4)
    synthesizer.fit(hospital(), Database.from_toml(SCHEMA)).save(path)
    return path


@pytest.mark.parametrize(
    ("table", "columns", "sources"),
    [
        (None, ["sex"], "measured"),
        ("patients", [], "measured"),
        ("stays", [], "measured"),
        ("stays", ["ward"], "measured"),
        ("stays", ["patients.sex"], "measured"),
        ("stays", ["ward", "patients.sex"], "measured model"),
        ("stays", ["stays.ward", "patients.stays"], "rows"),
        ("drugs", [], "measured model"),
        ("drugs", ["stays.ward", "patients.sex"], "measured model"),
        ("drugs", ["form"], "rows"),
        ("drugs", ["form", "stays.ward", "patients.sex"], "rows"),
    ],
)
def test_ranges_contain_the_exact_counts(model, table, columns, sources):
    plain = [name.split(".")[-1] if name.startswith(f"{table}.") else name for name in columns]
    rows = joined(hospital())[table or "patients"]
    exact = rows.groupby([rows[name].astype(str) for name in plain]).size().to_dict() if columns else {}
    counts = weft.load(model).query(columns, table=table)
    assert counts.source in sources.split()
    assert counts.columns == tuple(plain)
    cells = list(counts)
    found = [exact.get(c.values if len(columns) > 1 else c.values[0], 0) if columns else len(rows) for c in cells]
    assert sum(cell.low <= n <= cell.high for cell, n in zip(cells, found, strict=True)) >= 0.9 * len(cells)
    assert abs(sum(cell.count for cell in cells) - len(rows)) < 0.15 * len(rows)
    assert "95" in counts.meaning or "range" in counts.meaning


def test_with_little_noise_weighted_counts_are_numbers_of_rows(tmp_path):
    budget = weft.Budget(epsilon=5000.0, delta=1e-5, insecure=True)
    data = hospital(600, 3)
    fitted = weft.Synthesizer(budget=budget, journal=None, seed=1).fit(data, Database.from_toml(SCHEMA))
    (cell,) = fitted.query(table="stays")
    assert cell.count == pytest.approx(len(data["stays"]), rel=0.005)
    for cell in fitted.query("ward", table="stays"):
        assert cell.count == pytest.approx((data["stays"]["ward"] == cell.values[0]).sum(), rel=0.03)
    for cell in fitted.query("stays.ward", table="drugs"):
        assert cell.count == pytest.approx((joined(data)["drugs"]["stays.ward"] == cell.values[0]).sum(), rel=0.05)


def test_conditions_select_rows(model):
    synthesizer, data = weft.load(model), joined(hospital())
    stays, drugs = data["stays"], data["drugs"]
    by_sex = synthesizer.query("patients.sex", table="stays", where="ward = eye")
    assert by_sex.where
    for cell in by_sex:
        assert cell.low <= ((stays["ward"] == "eye") & (stays["patients.sex"] == cell.values[0])).sum() <= cell.high
    (cell,) = synthesizer.query(table="drugs", where=["patients.sex=f", "form=pill"])
    assert cell.low <= ((drugs["form"] == "pill") & (drugs["patients.sex"] == "f")).sum() <= cell.high
    assert len(synthesizer.query("days", table="stays", bins=4)) <= 4


def test_the_same_query_has_the_same_answer(model):
    first, again = (weft.load(model).query("form", "patients.sex", table="drugs") for _ in range(2))
    assert np.array_equal(first.estimate, again.estimate)


@pytest.mark.parametrize(
    ("table", "columns", "where", "fault"),
    [
        ("stay", [], None, 'no private table "stay". Did you mean "stays"'),
        ("wards", [], None, 'no private table "wards"'),
        ("stays", ["wrd"], None, 'Did you mean "ward"'),
        ("stays", ["sex"], None, 'Did you mean "patients.sex"'),
        ("stays", ["visitors.kin"], None, "by columns of stays, patients"),
        ("patients", ["stays.ward"], None, "by columns of patients"),
        ("stays", ["patient"], None, "generated ids"),
        ("stays", ["ward", "stays.ward"], None, "named twice"),
        ("stays", [], "kin = yes", "names no column"),
        ("stays", [], "patient = 3", "is an id"),
    ],
)
def test_invalid_queries_are_refused(model, table, columns, where, fault):
    with pytest.raises((MethodError, ConditionError), match=fault.replace(".", r"\.").replace("(", r"\(")):
        weft.load(model).query(columns, table=table, where=where)


def test_a_model_of_one_table_has_no_table_to_name():
    schema = weft.Schema.from_dict({"columns": {"sex": {"kind": "category", "values": ["f", "m"]}}})
    synthesizer = weft.Synthesizer(method="independent", journal=None).fit(
        pd.DataFrame({"sex": ["f", "m"] * 200}), schema, unit=False
    )
    with pytest.raises(MethodError, match="leave it out"):
        synthesizer.query("sex", table="stays")


def test_histories_are_counted_by_all_their_columns():
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(600), 3)
    panel = pd.DataFrame(
        {
            "person": person,
            "year": np.tile([2001, 2002, 2003], 600),
            "sex": np.where(person % 3 == 0, "f", "m"),
            "job": rng.choice(["yes", "no"], len(person), p=[0.7, 0.3]),
        }
    )
    schema = {
        "unit": "person",
        "rows_per_unit": 4,
        "time": "year",
        "per_unit": ["sex"],
        "columns": {
            "person": {"kind": "id"},
            "year": {"kind": "integer", "range": [2001, 2003]},
            "sex": {"kind": "category", "values": ["f", "m"]},
            "job": {"kind": "category", "values": ["yes", "no"]},
        },
    }
    made = weft.Synthesizer(epsilon=4, journal=None, seed=1, noise_seed=2).fit(panel, weft.Schema.from_dict(schema))
    for columns in (["sex"], ["job"], ["job", "sex"]):
        counts = made.query(columns)
        exact = panel.groupby(columns if len(columns) > 1 else columns[0]).size()
        for cell in counts:
            n = exact[cell.values if len(columns) > 1 else cell.values[0]]
            assert cell.low <= n <= cell.high, (columns, cell)
    assert counts.counted is None
    with pytest.raises(MethodError, match="leave it out"):
        made.query("sex", table="rows")


def test_the_command_line_counts_rows_of_a_table(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        return CliRunner().invoke(app, ["query", str(model), *map(str, words)])

    shown = run("--table", "stays", "ward", "patients.sex", "--where", "days>=3")
    assert shown.exit_code == 0, shown.output
    assert "Rows of stays with days >= 3" in shown.output
    assert "95% range" in shown.output
    answer = json.loads(run("--table", "stays", "ward", "--json").stdout)
    assert answer["table"] == "stays"
    assert [cell["values"] for cell in answer["cells"]] == [["eye"], ["heart"]]
    assert run("--table", "stays", "ward", "patients.sex", "--csv", "counts.csv").exit_code == 0
    assert Path("counts.csv").read_text().startswith("ward,patients.sex,count")
    refused = run("--table", "nothing", "ward")
    assert refused.exit_code == 2
    assert "Its tables are patients, stays" in " ".join(refused.output.split())


def test_a_plan_forecasts_each_table_without_reading_a_row(tmp_path):
    path = tmp_path / "hospital.toml"
    path.write_text(SCHEMA)
    few, many = (weft.Synthesizer(1.0).plan(path, rows=rows) for rows in (1000, 20_000))
    assert list(few.tables) == ["patients", "stays", "visitors", "drugs"]
    assert sum(table.share + table.share_siblings for table in few.tables.values()) == pytest.approx(1)
    for name, table in few.tables.items():
        assert many.tables[name].mean < table.mean
        assert many.tables[name].pairs < table.pairs
    assert list(few.tables["patients"].columns) == ["sex"]  # the family rule computes the number of stays
    assert few.tables["patients"].siblings is None
    assert 0 < many.tables["stays"].siblings < few.tables["stays"].siblings < 1
    with pytest.raises(MethodError, match="leave them out"):
        weft.Synthesizer(1.0, method="mst").plan(path, rows=1000)


def test_the_command_line_plans_related_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("hospital.toml").write_text(SCHEMA)
    shown = CliRunner().invoke(app, ["plan", "hospital.toml", "--rows", "2000"])
    assert shown.exit_code == 0, shown.output
    assert "2,000 rows of the root" in shown.output
    assert "visitors" in shown.output
    answer = json.loads(CliRunner().invoke(app, ["plan", "hospital.toml", "--delta", "0", "--json"]).stdout)
    assert set(answer["tables"]["stays"]["columns"]) == {"days"}
    refused = CliRunner().invoke(app, ["plan", "hospital.toml", "--html", "plan.html"])
    assert refused.exit_code == 2
    assert "has no page" in refused.output
