"""Methods attacked from end to end, by the command and by its parts; faults that the attack must catch."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner
from weft_lab.audit import Audit, run_attacks, worst_cases
from weft_lab.audit_families import RELATED, count_rows, make_databases

from weft.cli import app
from weft.methods import METHODS
from weft.privacy import Adjacency, Budget
from weft.privacy.mechanisms.gaussian import Gaussian

CERTAIN = 0.9999
"""Confidence of the tests that may not fail by chance."""


def command(*words):
    return CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(app, ["audit", *map(str, words)])


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_tables_are_neighbours(relation):
    for case in worst_cases(relation, mu=1.0):
        rows, others = (
            sorted(zip(*table.to_pydict().values(), strict=True)) for table in (case.with_canary, case.without)
        )
        rows.remove(case.canary)
        if case.replaced is not None:
            others.remove(case.replaced)
        assert rows == others
        assert case.counts.min() >= 30


def test_smaller_budgets_get_larger_tables():
    small, large = (worst_cases("add-remove", mu)[0].counts.sum() for mu in (1.0, 0.1))
    assert large == pytest.approx(10 * small, rel=0.01)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_figures_of_exact_counts_move_as_the_canary_does(relation):
    for case in worst_cases(relation, mu=1.0):
        without, canary = (np.array(case.figures(case.count(t))) for t in (case.without, case.with_canary))
        # One count more in each of its cells; where it replaces a row, one less there too, and the total stays.
        moved = np.full(len(without), 1.0 if relation == "add-remove" else 2.0)
        moved[0] = 1.0 if relation == "add-remove" else 0.0
        np.testing.assert_array_equal(canary - without, moved)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_figures_of_families_move_as_the_canary_does(relation):
    case = make_databases(relation, 30)
    without, canary = (np.array(case.subtract(count_rows(made))) for made in (case.without, case.with_canary))
    # Persons: all, of this value, of this size, of both, with all rows alike, and of this value as well; then rows.
    added, replaced = [1, 1, 1, 1, 1, 1, 2, 2, 2], [0, 1, 1, 1, 1, 1, 1, 1, 1]
    lost = np.zeros(9, int) if relation == "add-remove" else np.array(replaced)
    expected = np.array(added) + lost - (np.array([1, 0, 0, 0, 0, 0, 0, 0, 0]) if relation == "replace-one" else 0)
    np.testing.assert_array_equal(canary - without, expected)


def test_related_tables_are_audited_with_weave_only():
    refused = command("--tables", "related", "-m", "mst")
    assert refused.exit_code == 2 and "leave out --method" in refused.stderr


def test_the_command_shows_a_bound_for_every_attack(tmp_path):
    plot = tmp_path / "bounds.svg"
    words = ("-m", "independent", "--runs", 40, "--confidence", CERTAIN)
    shown = command(*words, "--neighbours", "add-remove", "--plot", plot)
    assert shown.exit_code == 0, shown.output
    assert "no attack exceeds the claim" in shown.stdout
    assert shown.stdout.count("holds") == 4
    assert shown.stdout.count("0.925") == 4  # all figures are there at 80 columns
    assert "right at most 67.8% of the time" in " ".join(shown.stdout.split())
    drawn = [node.text for node in ElementTree.parse(plot).iter("{http://www.w3.org/2000/svg}text")]
    assert {"claimed", "best guess", "independent, add-remove, two columns, rows"} <= set(drawn)


def test_a_machine_gets_the_same_as_json():
    words = ("-m", "independent", "--delta", 0, "--runs", 40, "--from", "model", "--confidence", CERTAIN)
    shown = command(*words, "--json")
    assert shown.exit_code == 0, shown.output
    told = json.loads(shown.stdout)
    assert told["broken"] == []
    assert {round(f["claimed_mu"], 3) for f in told["findings"]} == {4.194}  # of a pure epsilon of 4
    assert [(f["neighbours"], f["table"]) for f in told["findings"]] == [
        (relation, table) for relation in ("add-remove", "replace-one") for table in ("one column", "two columns")
    ]
    assert all(f["mu_at_least"] <= f["claimed_mu"] and f["trials"] == 60 for f in told["findings"])
    # The error allowed is shared by all bounds: no audit cries wolf more often than it says.
    assert {round(1 - f["confidence"], 9) for f in told["findings"]} == {round((1 - CERTAIN) / 4, 9)}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("-m", "nonsense"), 2, "no method"),
        (("--plot", "bounds.png"), 2, ".svg"),
        (("--plot", "nowhere/bounds.svg"), 7, "does not exist"),
        (("-m", "mst", "--option", "colour=red"), 2, "no option"),
        (("-e", "-1"), 5, "positive"),
    ],
)
def test_wrong_usage_is_told_before_anything_runs(words, code, told):
    shown = command(*words, "--runs", 10**6)
    assert shown.exit_code == code
    assert told in shown.stderr


# Faults. Each is one that the books do not show: what was charged is what the ledger says.


@pytest.mark.parametrize(("part", "runs"), [(8, 40), pytest.param(2, 400, marks=pytest.mark.slow)])
def test_too_little_noise_is_caught_and_told(monkeypatch, part, runs):
    def less(self, sigma, shape, noise, draw=Gaussian.draw):
        return draw(self, sigma / part, shape, noise)

    monkeypatch.setattr(Gaussian, "draw", less)
    words = ("--runs", runs, "--from", "model", "--neighbours", "add-remove", "--confidence", CERTAIN)
    shown = command("-m", "independent", *words)
    assert shown.exit_code == 1, shown.output
    assert "ABOVE" in shown.stdout
    assert "release nothing" in shown.stderr


@pytest.mark.slow
def test_a_replaced_row_paid_for_like_an_added_one_is_caught(monkeypatch):
    """Replacing a row moves two cells: priced as one, mu is sqrt(2) times what is claimed."""
    monkeypatch.setattr(Adjacency, "marginal_l2", lambda self: 1.0)
    audit = Audit(
        method="independent",
        budget=Budget(epsilon=4.0),
        runs=900,
        relations=("replace-one",),
        sources=("model",),
        confidence=CERTAIN,
    )
    assert any(finding.broken for finding in run_attacks(audit))


def test_a_row_that_is_released_as_it_is_is_caught(monkeypatch):
    """The noise is right, but a cell with few rows gets none."""

    def careful(self, sigma, shape, noise, draw=Gaussian.draw):
        drawn = draw(self, sigma, shape, noise)
        drawn.reshape(-1)[:1] = 0
        return drawn

    monkeypatch.setattr(Gaussian, "draw", careful)
    audit = Audit(method="independent", budget=Budget(epsilon=1.0), runs=60, sources=("rows",), confidence=CERTAIN)
    assert any(finding.broken for finding in run_attacks(audit))


# The long runs.


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("method", METHODS)
def test_no_method_gives_away_more_than_it_claims(method, relation):
    audit = Audit(method=method, budget=Budget(epsilon=4.0), runs=400, relations=(relation,), confidence=CERTAIN)
    assert [finding for finding in run_attacks(audit) if finding.broken] == []


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("method", ["independent", "mst", "weave"])
def test_the_attack_shows_four_fifths_of_what_is_claimed(method, relation):
    """So little is left between the bound and the claim that a fault of a fifth of mu would be seen."""
    audit = Audit(
        method=method,
        budget=Budget(epsilon=4.0),
        runs=6000,
        relations=(relation,),
        sources=("model",),
        tables=("one column",),
    )
    (finding,) = run_attacks(audit)
    assert finding.share >= 0.8
    assert finding.evidence.bound(CERTAIN) <= finding.claim.mu


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_related_tables_give_away_no_more_of_a_person_than_is_claimed(relation):
    budget = Budget(epsilon=4.0)
    audit = Audit(method="weave", budget=budget, runs=300, relations=(relation,), tables=(RELATED,), confidence=CERTAIN)
    assert [finding for finding in run_attacks(audit) if finding.broken] == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_attack_on_related_tables_catches_noise_for_one_row(monkeypatch):
    """A fault: the noise of weighted rows is drawn as if each person had one row, of weight 1."""
    monkeypatch.setattr(Adjacency, "weigh", lambda adjacency, mass: replace(adjacency, rows_per_unit=1))
    audit = Audit(
        method="weave", budget=Budget(epsilon=4.0), runs=60, relations=("add-remove",), sources=("model",),
        tables=(RELATED,),
    )  # fmt: skip
    (finding,) = run_attacks(audit)
    assert finding.broken
