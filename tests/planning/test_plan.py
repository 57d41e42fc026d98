"""Plans: from the schema alone, in words, with a curve, and never from a row."""

import json
import re
import shlex
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from weft import Schema, Synthesizer
from weft.cli import app
from weft.errors import BudgetError, MethodError, WeftError
from weft.evaluation.forecast import (
    CURVE,
    _find_required_epsilon,
    _interpolate_error,
    describe_expectations,
    format_percent,
    plan,
    render_forecast_page,
)
from weft.evaluation.forecast_simulation import APART, Simulation, draw_made_up_records, simulate_run
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Domain, Order
from weft.privacy import Budget

TEXT = """
[columns.age]
kind = "integer"
range = [0, 99]
[columns.sex]
kind = "category"
values = ["f", "m"]
[columns.ward]
kind = "category"
values = ["a", "b", "c", "d", "e"]
missing = true
[columns.came]
kind = "datetime"
range = ["2024-01-01", "2024-12-31"]
[columns.left]
kind = "datetime"
after = "came"
range = ["0d", "30d"]
"""
SCHEMA = Schema.from_toml(TEXT)
PAGE = (Path(__file__).parents[2] / "docs" / "plan.md").read_text()


@pytest.fixture(scope="module")
def made():
    return plan(SCHEMA, 4000, 1.0, method="mst")


def test_made_up_rows_are_related_skewed_and_repeatable():
    names = tuple("abcdefgh")
    domain = Domain((*names, "n"), (*[5] * 8, 30), (*[Order()] * 8, Order(True, frozenset({29}))))
    records = draw_made_up_records(domain, 200_000, np.random.default_rng(0))
    again = draw_made_up_records(domain, 200_000, np.random.default_rng(0))
    assert all(np.array_equal(one, two) for one, two in zip(records.columns, again.columns, strict=True))
    apart, skew = [], []
    for pair in combinations(names, 2):
        table = count_marginals(records, [pair])[0] / 200_000
        alone = table.sum(axis=1), table.sum(axis=0)
        apart.append(np.abs(table - np.outer(*alone)).sum() / 2)
        skew.append(alone[0].max() / alone[0].min())
    assert np.mean(apart) > 0.012 and np.mean(skew) > 2  # related, and uneven
    assert abs(np.mean(records.column("n") == 29) - APART) < 0.01


def test_a_plan_tells_of_columns_pairs_and_the_guarantee(made):
    assert set(made.here.columns) == set(made.codes) == {"age", "sex", "ward", "came", "came (weekday)", "left"}
    assert 0 < made.here.mean < 0.3 and made.here.mean < made.here.pairs
    assert [point.epsilon for point in made.curve] == [times * 1.0 for times in CURVE]
    errors = [point.columns for point in made.curve]
    assert errors == sorted(errors, reverse=True) and errors[0] > 1.5 * errors[-1]
    assert "73.2% of cases" in made.meaning
    assert sum(share for _, share in made.here.questions) == pytest.approx(1, abs=0.01)
    low, high = made.share_band
    assert 0.2 < low < 0.3 < high < 0.4
    assert json.loads(json.dumps(made.to_dict()))["pairs"] == 15


def test_its_words_are_for_people(made):
    said = describe_expectations(made)
    start = "With 4,000 rows at epsilon 1, a value with a share of 30% would be estimated at "
    assert re.fullmatch(re.escape(start) + r"[\d.]+% to [\d.]+%\.", said[0])
    assert any(re.match(r"(Of|All) 15 pairs", sentence) for sentence in said)
    assert format_percent(0.5) == "50%" and format_percent(0.00012) == "0.01%"


def test_more_rows_tell_more(made):
    many = plan(SCHEMA, 400_000, 1.0, method="mst")
    assert many.here.mean < made.here.mean / 5
    assert len(many.told) >= len(made.told)
    assert many.share_band[0] > made.share_band[0]


def test_fewer_rows_with_less_noise_stand_for_many():
    schema = Schema.from_domain({f"c{i}": 4 for i in range(10)})
    settings = {"method": "independent"}
    whole = [simulate_run(schema, 5_000, Budget(epsilon=0.8), settings, seed=s).mean for s in range(4)]
    shrunk = [simulate_run(schema, 40_000, Budget(epsilon=0.1), settings, seed=s).mean for s in range(4)]
    assert 0.6 < np.mean(shrunk) / np.mean(whole) < 1.6  # the same noise for each row


@pytest.mark.parametrize("method", ["independent", "privbayes", "privsyn", "aim"])
def test_other_methods_can_be_planned(method):
    schema = Schema.from_domain({"a": 3, "b": 4, "c": 2})
    made = plan(schema, 2000, 1.0, method=method)
    assert made.method == method and made.here.mean < 0.2
    if method == "independent":
        assert not made.told and "none can be distinguished" in " ".join(describe_expectations(made))


def test_pure_epsilon():
    made = plan(Schema.from_domain({"a": 3, "b": 4}), 50_000, 1.0, 0.0, method="independent")
    assert made.budget.delta == 0 and made.here.mean < 0.01


def test_a_target_is_solved_for():
    schema = Schema.from_domain({"a": 8, "b": 9, "c": 10})
    found = plan(schema, 3000, method="independent", target_error=0.01)
    assert found.here.mean == pytest.approx(0.01, rel=0.6)
    assert "An error of 1% in single attributes requires about epsilon" in describe_expectations(found)[0]
    with pytest.raises(WeftError, match="no epsilon up to 20 reaches"):
        plan(Schema.from_domain({"a": 500, "b": 500}), 100, method="independent", target_error=0.0001)


def test_the_curve_falls_even_where_a_run_was_unlucky():
    runs = [
        Simulation(e, {"a": error}, error, {}, 0.0, (), 0, 0.0, 0) for e, error in ((0.5, 0.1), (1, 0.05), (2, 0.06))
    ]
    errors = [each.mean for each in runs]
    assert _interpolate_error(runs, errors, 2) <= _interpolate_error(runs, errors, 1) == pytest.approx(0.05)
    assert _interpolate_error(runs, errors, 0.1) > 0.1
    assert 0.5 < _find_required_epsilon(runs, 0.07) < 1


def test_what_makes_no_sense_is_refused():
    for wrong in ({"rows": 0}, {"rows": 10, "target_error": 2.0}):
        with pytest.raises(WeftError):
            plan(SCHEMA, **wrong)
    with pytest.raises(BudgetError):
        plan(SCHEMA, 100, -1.0)
    with pytest.raises(MethodError):
        plan(SCHEMA, 100, 1.0, method="mst", options={"colour": "red"})


def test_the_synthesizer_plans_its_own_settings():
    made = Synthesizer(0.5, method="independent").plan(Schema.from_domain({"a": 3, "b": 4}), 1000)
    assert made.epsilon == 0.5 and made.method == "independent" and made.rows == 1000


def test_the_page_stands_alone(made):
    html = render_forecast_page(made)
    assert html.startswith("<!doctype html>") and "<svg" in html and "73.2% of cases" in html
    assert "http" not in html.replace("http://www.w3.org", "")


def invoke(*words):
    return CliRunner(env={"COLUMNS": "110", "NO_COLOR": "1"}).invoke(app, list(words))


def test_the_command_opens_no_table(tmp_path):
    (tmp_path / "s.toml").write_text(TEXT)
    table = tmp_path / "private.csv"  # is not there, and is not missed
    words = ["plan", str(table), "--schema", str(tmp_path / "s.toml"), "--rows", "2000", "-m", "independent"]
    run = invoke(*words, "--html", str(tmp_path / "plan.html"))
    assert run.exit_code == 0, run.output
    assert "With 2,000 rows at epsilon 1, a value with a share of 30%" in run.stdout
    assert "Only the schema was read" in run.stdout
    assert "<svg" in (tmp_path / "plan.html").read_text()
    told = invoke("plan", str(table))
    assert told.exit_code == 2 and "weft schema draft" in told.output and "--schema" in told.output


def test_json_and_names_that_look_like_markup(tmp_path):
    (tmp_path / "s.toml").write_text('[columns."[/red]<b>"]\nkind = "category"\nvalues = ["x", "y", "z"]\n')
    words = ["plan", str(tmp_path / "s.toml"), "-m", "independent", "-n", "500", "--html", str(tmp_path / "p.html")]
    shown = invoke(*words)
    assert shown.exit_code == 0 and "[/red]<b>" in shown.stdout
    assert "<b>" not in (tmp_path / "p.html").read_text()
    found = json.loads(invoke(*words, "--json").stdout)
    assert found["error_of_columns"].keys() == {"[/red]<b>"} and found["rows"] == 500


def test_the_page_of_the_documentation_shows_a_command_that_works(tmp_path, monkeypatch):
    from weft.hospital import hospital_schema

    (tmp_path / "weft-demo").mkdir()
    (tmp_path / "weft-demo" / "hospital.toml").write_text(hospital_schema())
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^\$ (weft plan .*)$", PAGE, re.MULTILINE)
    assert commands
    for command in commands:
        words = shlex.split(command)[1:]
        run = invoke(*words, "--method", "independent")  # quick; its words are those of every method
        assert run.exit_code == 0, run.output
        shown = PAGE.split(command)[1]
        for start in ("With 20,000 rows at epsilon", "Of 78 pairs of attributes"):
            assert start in shown and start in run.stdout
