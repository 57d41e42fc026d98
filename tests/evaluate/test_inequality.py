import numpy as np
import pytest
from weft_lab.inequality import gini_gap

COLUMNS = {"income": "a", "group": "b", "gender": "c"}
AMOUNTS = [0.0, 10.0, 30.0, np.nan]
SIZES = (4, 3, 2)


def test_equal_tables_score_one_and_figures_are_right(table):
    men_and_woman = [(0, 0, 0), (1, 0, 0), (1, 0, 0), (2, 0, 1)]  # group 0: men 0, 10, 10, a woman 30
    couple = [(1, 2, 0), (0, 2, 1)]  # group 2: a man 10, a woman 0
    unknown = [(3, 1, 0), (3, 0, 1)]  # group 1 has nobody else
    real = table(SIZES, men_and_woman + couple + unknown)
    same = gini_gap(real, real, **COLUMNS, values=AMOUNTS)
    assert (same.gini, same.gap, same.score) == (1.0, 1.0, 1.0)
    assert same.groups.tolist() == [0, 2]
    # 2 (1*0 + 2*10 + 3*10 + 4*30) / (4 * 50) - 5/4 = 0.45; of 0 and 10: 2*2*10 / (2*10) - 3/2 = 0.5
    assert same.gini_real.tolist() == pytest.approx([0.45, 0.5])
    assert same.gap_real.tolist() == pytest.approx([20 / 3 - 30, 10.0])


def test_gini_agrees_with_the_pairwise_definition(table):
    rng = np.random.default_rng(0)
    amounts = np.array([5.0, 0.0, 80.0, 20.0])
    codes = rng.integers(0, 4, 60)
    real = table((4, 1, 2), [(code, 0, i % 2) for i, code in enumerate(codes)])
    x = amounts[codes]
    pairwise = np.abs(x[:, None] - x[None, :]).mean() / (2 * x.mean())
    assert gini_gap(real, real, **COLUMNS, values=amounts).gini_real[0] == pytest.approx(pairwise)


def test_a_missing_group_is_the_worst_case(table):
    real = table(SIZES, [(1, g, s) for g in range(3) for s in range(2)])
    synth = table(SIZES, [(1, g, s) for g in range(2) for s in range(2)])
    result = gini_gap(real, synth, **COLUMNS, values=AMOUNTS)
    assert result.gini == pytest.approx(1 - np.sqrt(1 / 3))
    assert result.gap == pytest.approx(1 - np.sqrt(1 / 3))
    assert np.isnan(result.gini_synth[2])


def test_ranks_by_gap(table):
    def gaps(*codes):  # each group: a man with that income and a woman with none
        return table(SIZES, [row for g, code in enumerate(codes) for row in ((code, g, 0), (0, g, 1))])

    values = dict(**COLUMNS, values=AMOUNTS)
    # ranks 1, 2, 3 against 3, 2, 1: errors 1, 0, 1
    turned = gini_gap(gaps(0, 1, 2), gaps(2, 1, 0), **values)
    assert turned.gap == pytest.approx(1 - np.sqrt(2 / 3))
    # the genders swapped turn every gap round, in both tables
    assert gini_gap(gaps(0, 1, 2), gaps(2, 1, 0), **values, genders=(1, 0)).gap == turned.gap
    # equal gaps share a rank: 1, 2, 3 against 2, 2, 2
    assert gini_gap(gaps(0, 1, 2), gaps(1, 1, 1), **values).gap == pytest.approx(1 - np.sqrt(0.5 / 3))


def test_nobody_earns_anything(table):
    real = table(SIZES, [(0, 0, 0), (0, 0, 1)])
    assert gini_gap(real, real, **COLUMNS, values=AMOUNTS).gini_real.tolist() == [0.0]


def test_nonsense_is_refused(table):
    real = table(SIZES, [(0, 0, 0)])
    with pytest.raises(ValueError, match="one amount for each"):
        gini_gap(real, real, **COLUMNS, values=[1.0])
    with pytest.raises(ValueError, match="negative amounts"):
        gini_gap(real, real, **COLUMNS, values=[-1.0, 0, 1, 2])
    with pytest.raises(ValueError, match="two different codes of 'c'"):
        gini_gap(real, real, **COLUMNS, values=AMOUNTS, genders=(1, 2))
