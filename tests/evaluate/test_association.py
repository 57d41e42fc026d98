import numpy as np
import pytest
from scipy.stats import contingency

from weft.evaluation.metrics import associations
from weft.evaluation.metrics import marginal_distances as module


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
