"""Drafted plans: from a schema alone, or by paid scores; both are plans that work."""

import pyarrow.csv
import pytest
from conftest import SCHEMA, make_table
from typer.testing import CliRunner
from weft_lab.mechanisms import find_crossover, noise_of
from weft_lab.plan_draft import draft_marginal_plan, write_plan_draft

import weft
from weft import MarginalPlan
from weft.cli import app
from weft.schema import Schema
from weft.synthesis.marginal_plan.compiled_plan import choose_accounting
from weft.synthesis.marginal_plan.plan_file import Given


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.toml").write_text(SCHEMA)
    pyarrow.csv.write_csv(make_table(3000), tmp_path / "visits.csv")
    return tmp_path


def run(*words):
    return CliRunner(env={"NO_COLOR": "1", "COLUMNS": "120"}).invoke(app, [str(word) for word in words])


def test_a_draft_reads_back_and_works():
    schema = Schema.from_toml(SCHEMA)
    plan = MarginalPlan.from_toml(write_plan_draft(draft_marginal_plan(schema)))
    made = weft.Synthesizer(1.0, method="dpsyn", journal=None, marginals=plan).fit(make_table(300), schema)
    assert made.sample(20, seed=0).num_rows == 20


def test_paid_scores_find_what_belongs_together_and_are_in_the_books(folder):
    done = run("marginals", "draft", "visits.toml", "visits.csv", "--private", "-e", 3, "-o", "plan.toml")
    assert done.exit_code == 0, done.output
    (given,) = MarginalPlan.load("plan.toml").of(Given)
    assert ("age", "ward") in given.sets and not any("sex" in names for names in given.sets)
    assert "dependence (InDif)" in (folder / "plan.ledger.jsonl").read_text()
    done = run(
        "synth", "visits.csv", "-s", "visits.toml", "-e", 1, "-m", "dpsyn", "--marginals", "plan.toml", "-o", "o.csv"
    )
    assert done.exit_code == 0 and (folder / "o.csv").exists()


def test_scores_of_seeded_noise_are_stamped(folder):
    words = ("marginals", "draft", "visits.toml", "visits.csv", "--private", "-e", 3, "--noise-seed", 1)
    done = run(*words, "-o", "plan.toml")
    assert "NOT PRIVATE" in done.stdout and "published" not in done.stdout
    assert (folder / "plan.toml").read_text().startswith("# NOT PRIVATE: ")
    assert MarginalPlan.load("plan.toml").of(Given)


def test_scores_draw_from_the_lifetime_budget_and_are_refused_beyond_it(folder):
    assert run("budget", "create", "b.budget", "-e", 1, "--delta", 1e-5).exit_code == 0
    words = ("marginals", "draft", "visits.toml", "visits.csv", "--private", "--budget", "b.budget", "-e")
    assert run(*words, 0.9, "-o", "one.toml").exit_code == 0
    assert run(*words, 0.9, "-o", "two.toml").exit_code == 5
    assert not (folder / "two.toml").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("visits.toml", "--private"),
        ("visits.toml", "visits.csv", "-e", 1),
        ("visits.toml", "visits.csv"),
        ("visits.toml", "-o", "visits.toml", "--force"),
        ("visits.toml", "-o", "visits.csv"),
    ],
)
def test_a_draft_that_makes_no_sense_is_refused(folder, words):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert run("marginals", "draft", *words).exit_code != 0
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_plan_is_checked_without_a_table(folder):
    run("marginals", "draft", "visits.toml", "-o", "plan.toml")
    done = run("marginals", "check", "plan.toml", "visits.toml", "--json")
    assert done.exit_code == 0 and '"marginals"' in done.stdout
    (folder / "plan.toml").write_text('[[marginals]]\ncolumns = ["aeg"]\n')
    done = run("marginals", "check", "plan.toml", "visits.toml")
    assert done.exit_code == 2 and "plan.toml, line 2" in done.stderr and "age" in done.stderr


def test_few_marginals_get_geometric_noise_and_many_gaussian():
    assert [choose_accounting(k, 1.0, 1e-6) for k in (1, 8, 9, 100)] == ["pure", "pure", "gaussian", "gaussian"]
    assert choose_accounting(1000, 1.0, 0.0) == "pure"
    # Laplace noise against Gaussian noise under zCDP: 2 (m/eps)^2 = m / (2 rho), worked out by hand for three deltas.
    assert [find_crossover(0.1, delta, "gaussian, zCDP") for delta in (1e-6, 1e-9, 1e-12)] == [14, 21, 28]
    found = noise_of(50, 0.5, 1e-9)
    assert found["gaussian, exact"] < found["gaussian, zCDP"] < found["laplace, zCDP"] < found["laplace, advanced"]


def test_the_laboratory_shows_and_draws_which_noise_is_least(folder):
    from xml.etree import ElementTree

    done = run("bench", "mechanisms", "--epsilons", 1, "--marginals", "1,100", "--figure", "m.svg", "--json")
    assert done.exit_code == 0 and '"1.414 *"' in done.stdout and '"42.25 *"' in done.stdout
    assert len(list(ElementTree.parse(folder / "m.svg").getroot().iter("{http://www.w3.org/2000/svg}path"))) >= 10
    assert run("bench", "mechanisms", "--marginals", "0").exit_code == 2
    assert run("bench", "fire", "--lines", "weaver").exit_code == 2
