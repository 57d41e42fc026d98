import sys

import numpy as np
import pytest
from weft_lab.classifiers import LINEAR, TREES, classify, distinguishing

from weft.errors import DataError, WeftError
from weft.evaluation.metrics import svm_misclassification
from weft.marginals.domain import Domain
from weft.marginals.records import Records

DOMAIN = Domain(("left", "right", "either", "noise"), (2, 2, 2, 3))


def gate(rows: int, seed: int, tied: bool = True) -> Records:
    """Records whose third column is the `or` of the first two (or, untied, a coin of the same weight)."""
    rng = np.random.default_rng(seed)
    left, right = rng.integers(0, 2, (2, rows))
    either = (left | right) if tied else (rng.random(rows) < 0.75)
    return Records.of(DOMAIN, [left, right, either, rng.integers(0, 3, rows)])


@pytest.fixture(autouse=True)
def _needs_sklearn(request):
    if "absent" not in request.node.name:
        pytest.importorskip("sklearn")


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_svm_learns_a_rule_from_a_good_table_and_not_from_a_bad_one(kernel):
    real, good, bad = gate(1_200, 1), gate(1_000, 2), gate(1_000, 3, tied=False)
    rates = svm_misclassification(real, good, target="either", kernel=kernel)
    assert rates.targets == ("either",)
    assert rates.synth == rates.real == 0.0 and 0.15 < rates.majority < 0.35
    assert svm_misclassification(real, bad, target="either", kernel=kernel).synth > 0.15


def test_svm_over_every_column():
    rates = svm_misclassification(gate(1_200, 1), gate(1_000, 2))
    assert rates.targets == DOMAIN.names
    assert rates.synth == np.mean(rates.synths) and rates.real == np.mean(rates.reals)
    assert rates.synths[2] == 0.0 and rates.majorities[3] > 0.5


def test_svm_reference_never_sees_the_test_rows(table):
    # Every row differs from all others in the label's feature: a reference that had seen them would be perfect.
    rows = [(i, int(i * 7919 % 13 < 6)) for i in range(400)]
    real = table((400, 2), rows)
    rates = svm_misclassification(real, real, target="b", cap=200)
    assert rates.real > 0.3 and rates.synth < rates.real


def test_svm_with_held_out_rows_and_a_constant_label(table):
    real, synth = table((2, 2), [(0, 0), (1, 1)] * 20), table((2, 2), [(0, 1)] * 5)
    test = table((2, 2), [(0, 0), (1, 1), (1, 1), (1, 1)])
    rates = svm_misclassification(real, synth, target="b", test=test)
    assert rates.synth == 0.25 and rates.real == 0.0
    with pytest.raises(DataError, match="too few rows"):
        svm_misclassification(real.take(slice(1)), synth)


def test_classifiers_on_a_good_and_a_bad_table():
    real, good, bad = gate(1_500, 1), gate(800, 2), gate(800, 3, tied=False)
    for result in classify(real, good, target="either", runs=1):
        assert result.synth == result.real == result.agreement == result.agreement_real == 1.0, result.model
        assert 0.65 < result.majority < 0.85
    results = classify(real, bad, target="either", runs=1, models=TREES)
    assert tuple(result.model for result in results) == TREES
    for result in results:
        assert result.synth < 0.9 and result.agreement < 0.9 and result.real == 1.0


def test_classifier_runs_are_averaged_and_repeatable():
    real, synth = gate(400, 1), gate(300, 2, tied=False)
    once = classify(real, synth, target="left", models=("tree",), runs=2, seed=5)
    assert once == classify(real, synth, target="left", models=("tree",), runs=2, seed=5)
    assert once != classify(real, synth, target="left", models=("tree",), runs=2, seed=6)
    held = classify(real, synth, target="left", models=LINEAR, runs=1, test=gate(50, 9))
    assert [result.model for result in held] == list(LINEAR)


def test_distinguishing_game():
    real = gate(3_000, 1)
    for game in distinguishing(real, gate(2_500, 2)):
        assert 0.45 < game.accuracy < 0.55
    # A fifth or so of the untied rows cannot be real, and the rest are as likely as not.
    for game in distinguishing(real, gate(2_500, 3, tied=False)):
        assert 0.6 < game.accuracy < 0.8
    apart = Records.of(DOMAIN, [np.zeros(500), np.zeros(500), np.ones(500), np.zeros(500)])
    for game in distinguishing(real, apart, models=("tree", *LINEAR)):
        assert game.accuracy == 1.0, game.model


def test_unknown_classifier_and_tiny_tables():
    with pytest.raises(ValueError, match="unknown classifier 'oracle'"):
        classify(gate(100, 1), gate(100, 2), target="left", models=("oracle",))
    with pytest.raises(DataError, match="too few rows"):
        classify(gate(3, 1), gate(100, 2), target="left")
    with pytest.raises(DataError, match="too few rows"):
        distinguishing(gate(1, 1), gate(100, 2))


def test_absent_scikit_learn_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(WeftError, match=r"weft\[evaluate\]"):
        svm_misclassification(gate(100, 1), gate(100, 2))


def test_no_classifier_is_tested_on_rows_it_was_trained_on():
    # A tree knows each row it has seen by its number, and can only guess the coin of one that it has not.
    rng = np.random.default_rng(0)
    domain = Domain(("number", "coin"), (1 << 30, 2))
    real, synth = (Records.of(domain, [rng.integers(0, 1 << 30, 4_000), rng.integers(0, 2, 4_000)]) for _ in range(2))
    (tree,) = classify(real, synth, target="coin", models=("tree",), runs=1)
    assert 0.4 < tree.real < 0.6 and 0.4 < tree.agreement_real < 0.6
    (game,) = distinguishing(real, synth, models=("tree",))
    assert 0.4 < game.accuracy < 0.6
