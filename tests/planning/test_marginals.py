"""Plans of marginals, foretold: what is tried is what would run, on rows that are as the plan says."""

import json

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from weft import Schema, Synthesizer
from weft.cli import app
from weft.errors import WeftError
from weft.evaluation.forecast import plan

SIZES = {"a": 20, "b": 20, "c": 3, "d": 4, "e": 6}
SCHEMA = Schema.from_domain(SIZES)
MARGINALS = """\
[compress]
floor = 40

[[groups]]
columns = ["c", "d"]

[[fills]]
column = "b"
from = "a"

[[presence]]
name = "there"
columns = ["e"]
missing = 5

[[marginals]]
sets = [["a", "c"], ["there", "c"]]

[[marginals]]
columns = ["a", "e"]
below = 2.0
"""
RAN = {"delta": 1e-6, "method": "dpsyn", "gum": {"iterations": 5}, "journal": None}


def rows(n=40_000, seed=0):
    rng = np.random.default_rng(seed)
    made = {name: np.minimum(rng.geometric(0.3, n) - 1, size - 1) for name, size in SIZES.items()}
    return pa.table(made | {"b": made["a"] * 7 % 20})


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_what_is_foretold_is_what_the_planned_run_asks(epsilon):
    """Also where few made-up rows with less noise stand for many: their budget is another, the plan is not."""
    synthesizer = Synthesizer(epsilon, marginals=MARGINALS, **RAN)
    told = synthesizer.plan(SCHEMA, 40_000)
    ledger = synthesizer.fit(rows(), SCHEMA).ledger_
    assert [question for question, _ in told.here.questions] == [entry.question for entry in ledger.entries]
    shares = [share for _, share in told.here.questions]
    assert shares == pytest.approx([entry.cost / ledger.capacity for entry in ledger.entries])
    assert set(told.codes) == set(told.here.columns) == {"a", "b", "c & d", "e"}
    most = 400 + 2 * (20 + 6 + 12) + 20 * 12 + 2 * 12 + 2 + (20 * 6 if epsilon < 2 else 0)
    assert 400 < told.here.cells <= most


def test_columns_that_are_filled_in_are_foretold_as_the_plan_says():
    filled = plan(SCHEMA, 40_000, 1.0, method="dpsyn", options={"marginals": MARGINALS, "gum": RAN["gum"]})
    assert filled.here.columns["b"] < 0.05  # it follows from "a" in the made-up rows, too
    assert filled.here.pair_noise["a", "b"] == 0.0 and ("b", "e") in filled.told
    random = MARGINALS.replace('from = "a"', 'by = "random"')
    random = plan(SCHEMA, 40_000, 1.0, method="dpsyn", options={"marginals": random, "gum": RAN["gum"]})
    assert random.here.columns["b"] > 0.2 and not any("b" in pair for pair in random.told)
    assert random.here.cells < filled.here.cells - 300


def test_a_map_makes_a_column_that_is_not_measured():
    answers = ", ".join(f"{code} = {code % 3}" for code in range(20))
    text = f'[[maps]]\nof = "a"\ngives = "c"\nmap = {{{answers}}}\n[[marginals]]\ncolumns = ["a", "e"]\n'
    told = Synthesizer(1.0, marginals=text, **RAN).plan(SCHEMA, 2_000)
    assert "c" not in told.codes and "c" not in told.here.columns


def test_rows_that_make_a_value_rare_are_those_of_the_table_that_is_stood_for():
    text = '[compress]\ndeviations = 0\nfloor = {}\n[[marginals]]\ncolumns = ["a", "b"]\n'
    found = [
        Synthesizer(5.0, marginals=text.format(floor), **RAN).plan(SCHEMA, size).here.cells
        for floor, size in ((300, 5_000), (2_400, 40_000), (300, 40_000))
    ]
    assert abs(found[0] - found[1]) < 0.25 * found[0] < 0.5 * (found[2] - found[0])


def test_a_plan_that_has_nothing_for_budgets_around_is_foretold_for_its_own():
    text = '[[marginals]]\ncolumns = ["a", "e"]\nabove = 0.9\nbelow = 1.1\n'
    told = Synthesizer(1.0, marginals=text, **RAN).plan(SCHEMA, 2_000)
    assert [point.epsilon for point in told.curve] == [0.25, 0.5, 1.0, 2.0, 4.0]
    with pytest.raises(WeftError, match="no item applies at epsilon 2"):
        Synthesizer(2.0, marginals=text, **RAN).plan(SCHEMA, 2_000)


FAULTS = {
    "an unknown column": '[[marginals]]\ncolumns = ["a", "bb"]\n',
    "overlapping groups": '[[groups]]\ncolumns = ["a", "b"]\n[[groups]]\ncolumns = ["b", "c"]\n',
    "weights that cannot be met": '[[marginals]]\ncolumns = ["a"]\n[[fills]]\ncolumn = "b"\nfrom = "a"\nweight = 50\n',
    "a map that is no function": '[[maps]]\nof = "c"\ngives = "d"\nmap = [[0, 0], [0, 1], [1, 1], [2, 2]]\n',
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_run_would_refuse_is_refused_in_the_same_words(fault, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(FAULTS[fault])
    synthesizer = Synthesizer(1.0, marginals=path, **RAN)
    with pytest.raises(WeftError) as fitted:
        synthesizer.fit(rows(50), SCHEMA)
    with pytest.raises(WeftError) as foretold:
        synthesizer.plan(SCHEMA, 50)
    assert str(foretold.value) == str(fitted.value) and f"{path}, line " in str(fitted.value)


def invoke(*words):
    return CliRunner(env={"COLUMNS": "110", "NO_COLOR": "1"}).invoke(app, [str(word) for word in words])


def test_the_command_takes_a_plan_of_marginals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(SCHEMA.to_toml())
    (tmp_path / "plan.toml").write_text(MARGINALS)
    words = ("plan", "s.toml", "-n", 1_000, "-m", "dpsyn", "--marginals", "plan.toml")
    found = json.loads(invoke(*words, "--json").stdout)
    assert "c & d" in found["codes"] and found["questions"][0]["question"] == "1 two-way marginal"
    assert invoke(*words, "--option", "marginals=[]").exit_code == 2
    assert invoke(*words, "--html", "plan.toml").exit_code != 0 and (tmp_path / "plan.toml").read_text() == MARGINALS
    assert "to use a plan, choose one of" in invoke(*words, "-m", "mst").stderr
    (tmp_path / "plan.toml").write_text(FAULTS["an unknown column"])
    done = invoke(*words)
    assert done.exit_code == 2 and "plan.toml, line 2" in done.stderr and list(tmp_path.glob("*.jsonl")) == []
