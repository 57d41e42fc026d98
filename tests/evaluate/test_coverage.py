import pytest

from weft.evaluation.metrics import aligned_tables as tables
from weft.evaluation.metrics import coverage


def test_values_by_hand(table):
    # column a: code 0 nine times, code 1 once; column b: code 0 eight times, 1 and 2 once each
    real = table((3, 3), [(0, 0)] * 7 + [(0, 1), (0, 2), (1, 0)])
    synth = table((3, 3), [(0, 0)] * 4 + [(2, 1)])
    values = coverage(real, synth, rare=0.1)
    assert values.cliques == (("a",), ("b",))
    assert values.rare.tolist() == [1, 2] and values.found.tolist() == [0, 1]
    assert values.invented.tolist() == [1, 0]
    assert values.share == pytest.approx(1 / 3)


@pytest.mark.parametrize("cells", [1 << 16, 0])
def test_pairs_by_hand(table, monkeypatch, cells):
    monkeypatch.setattr(tables, "_DENSE_CELLS", cells)
    real = table((30, 30), [(0, 0)] * 7 + [(0, 1), (0, 2), (1, 0)])
    synth = table((30, 30), [(0, 0), (0, 2), (2, 1)])
    pairs = coverage(real, synth, ways=2, rare=0.1)
    assert (pairs.rare.tolist(), pairs.found.tolist(), pairs.invented.tolist()) == ([3], [1], [1])


def test_nothing_rare_is_nothing_missed(table):
    real = table((2,), [(0,), (1,)])
    assert coverage(real, table((2,), [(0,)]), rare=0.01).share == 1.0
    assert coverage(real, table((2,), [(0,)]), rare=0.5).share == 0.5


def test_chosen_cliques_and_nonsense(table):
    real = table((2, 2, 2), [(0, 1, 0)])
    assert coverage(real, real, cliques=[("a", "c")]).cliques == (("a", "c"),)
    with pytest.raises(ValueError, match="share of the rows"):
        coverage(real, real, rare=0)
