"""The foretold error of a noisy table, against noise that was drawn."""

import numpy as np
import pytest

from weft.marginals.noise_error import profile, projected_error
from weft.reconcile import simplex

TABLES = [np.full(4, 500.0), np.array([900.0, 80.0, 10.0, 0.0, 0.0, 0.0]), np.r_[np.full(3, 400.0), np.zeros(60)]]


def foretold(table, sigma, **which):
    return projected_error(profile([table]), np.array([sigma]), **which)[0, 0]


def drawn(table, noise):
    return np.mean([np.abs(simplex(table + y, table.sum()) - table).sum() for y in noise])


@pytest.mark.parametrize("table", TABLES, ids=["even", "skewed", "sparse"])
def test_a_whole_table_has_independent_noise_in_its_cells(table):
    noise = np.random.default_rng(0).normal(0, 20, (2000, table.size))
    assert foretold(table, 20.0, whole=True) == pytest.approx(drawn(table, noise), rel=0.05)


def test_an_interaction_has_lost_the_mean_of_its_noise_already():
    table = TABLES[0]
    noise = np.random.default_rng(1).normal(0, 20, (2000, table.size))
    noise -= noise.mean(axis=1, keepdims=True)
    left = 20 * np.sqrt(1 - 1 / table.size)
    assert foretold(table, left) == pytest.approx(drawn(table, noise), rel=0.05)
    assert foretold(table, left, whole=True) < 0.9 * drawn(table, noise)


def test_each_table_may_be_told_apart():
    both = projected_error(profile(TABLES[:2]), np.array([20.0, 5.0]), whole=np.array([[True], [False]]))
    alone = [foretold(table, 20.0, whole=which) for table, which in zip(TABLES[:2], (True, False), strict=True)]
    assert both[:, 0] == pytest.approx(alone) and (both[:, 1] < both[:, 0]).all()


def test_a_single_cell_with_the_whole_total_keeps_no_error():
    assert foretold(np.array([100.0]), 5.0, whole=True) == 0
