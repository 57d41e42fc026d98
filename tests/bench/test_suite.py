"""The suite of weave: two halves that share no table, every kind with the structure that it is named for."""

import numpy as np
import pytest
from weft_lab import suite
from weft_lab.structures import KINDS
from weft_lab.suite import HALVES, PUBLIC, Suite, ablation, generated, results

from weft.marginals.counting import count_marginals


def test_the_halves_share_no_table():
    chosen, reported = (Suite(half).names() for half in HALVES)
    assert len(chosen) == len(reported) == 12
    assert set(chosen) & set(reported) == set(KINDS) and {*chosen, *reported} == {*KINDS, *PUBLIC}
    for kind in ("tree", "few rows", "high order"):
        one, other = (generated(kind, half).records for half in HALVES)
        assert len(one) != len(other) and one.domain != other.domain


def test_kinds_have_their_structure():
    triple = generated("high order", "chosen").records
    a, b, c = triple.domain.names[:3]
    for pair in ((a, b), (a, c), (b, c)):
        table = count_marginals(triple, [pair])[0] / len(triple)
        assert np.abs(table - np.outer(table.sum(1), table.sum(0))).sum() < 0.05
    table = count_marginals(triple, [(a, b, c)])[0] / len(triple)
    assert np.abs(table - np.multiply.outer(table.sum(2), table.sum((0, 1)))).sum() > 0.5
    copies = generated("near copies", "chosen").records
    first, second = copies.domain.names[:2]
    assert np.mean(copies.column(first) == copies.column(second)) > 0.98


@pytest.fixture
def small(monkeypatch):
    """A half of one small table, and one setting."""
    monkeypatch.setattr(suite, "PUBLIC", ())
    monkeypatch.setattr(suite, "KINDS", {"few rows": KINDS["few rows"]})
    return Suite("reported")


def test_results_name_the_best_other_and_ablations_are_ratios(small):
    sheet = results(small, 1)
    assert [row[0] for row in sheet.rows] == ["few rows"] and len(sheet.rows[0]) == len(sheet.columns)
    assert "Lost by more than its spread" in sheet.notes[0]
    ((label, *ratios),) = ablation([small], 1, {"pairs only": {"order": 2}}).rows
    assert label == "pairs only" and all(0.2 < float(ratio) < 5 for ratio in ratios)
    assert float(ratios[-1]) == pytest.approx(np.prod([float(ratio) for ratio in ratios[:-1]]) ** (1 / 3), rel=0.01)


def test_a_public_table_that_is_not_here_is_left_out_and_named(small, monkeypatch, tmp_path):
    monkeypatch.setattr(suite, "PUBLIC", ("nobody", "nowhere"))
    monkeypatch.setattr(suite, "KINDS", {})
    assert Suite("chosen").left_out() == ["nobody"]
