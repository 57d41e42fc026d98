import numpy as np
import pytest
from scipy.stats import contingency

from weft.evaluation.metrics import association as module
from weft.evaluation.metrics import association_difference, associations, correlation_difference, correlations


def test_cramers_v_by_hand(table):
    rows = [(0, 0, 0, 0), (0, 0, 0, 1), (1, 1, 0, 0), (1, 1, 0, 1)]
    matrix = associations(table((2, 3, 2, 2), rows))
    assert matrix[0, 1] == pytest.approx(1.0)  # each tells the other, and code 2 of b never occurs
    assert matrix[0, 3] == pytest.approx(0.0, abs=1e-7)
    assert matrix[0, 2] == 0.0  # c is constant
    assert (matrix == matrix.T).all() and np.diag(matrix).tolist() == [1.0] * 4


@pytest.mark.parametrize("dense", [True, False])
def test_cramers_v_agrees_with_scipy(random_table, monkeypatch, dense):
    if not dense:
        monkeypatch.setattr(module, "_DENSE_CELLS", 0)
    records = random_table((3, 5, 300, 2), 2_000, seed=1)
    matrix = associations(records, threads=2)
    for i in range(4):
        for j in range(i):
            counts = np.zeros((records.domain.shape[i], records.domain.shape[j]), np.int64)
            np.add.at(counts, (records.columns[i], records.columns[j]), 1)
            counts = counts[counts.any(axis=1)][:, counts.any(axis=0)]
            assert matrix[i, j] == pytest.approx(contingency.association(counts, method="cramer"), abs=1e-12)


def test_correlations_agree_with_numpy(random_table, monkeypatch):
    monkeypatch.setattr(module, "_ROWS_A_BLOCK", 64)
    records = random_table((3, 300, 70_000), 1_000, seed=1)
    expected = np.corrcoef([column.astype(float) for column in records.columns])
    assert np.allclose(correlations(records), expected, atol=1e-12)
    chosen = correlations(records, ["c02", "c00"])
    assert chosen[0, 1] == pytest.approx(expected[0, 2])


def test_a_constant_column_correlates_with_nothing(table):
    matrix = correlations(table((2, 2), [(0, 1), (1, 1), (1, 1)]))
    assert matrix.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_differences(table):
    tied, free = table((2, 2), [(0, 0), (1, 1)] * 2), table((2, 2), [(0, 0), (0, 1), (1, 0), (1, 1)])
    assert association_difference(tied, free).mean_absolute == pytest.approx(1.0)
    assert association_difference(tied, tied).mean_absolute == 0.0
    change = correlation_difference(tied, free)
    assert change.names == ("a", "b") and change.matrix[0, 1] == pytest.approx(-1.0)
    assert correlation_difference(tied, free, ["b"]).mean_absolute == 0.0
