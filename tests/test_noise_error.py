"""The foretold error of a noisy table, against noise that was drawn."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from weft.marginals.noise_error import (
    STEPS,
    compute_projected_error,
    compute_threshold_errors,
    find_thresholds,
    group_cells_by_size,
)
from weft.marginals.simplex import project_to_simplex

TABLES = [np.full(4, 500.0), np.array([900.0, 80.0, 10.0, 0.0, 0.0, 0.0]), np.r_[np.full(3, 400.0), np.zeros(60)]]


def foretold(table, sigma, **which):
    return compute_projected_error(group_cells_by_size([table]), np.array([sigma]), **which)[0, 0]


def drawn(table, noise):
    return np.mean([np.abs(project_to_simplex(table + y, table.sum()) - table).sum() for y in noise])


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
    both = compute_projected_error(
        group_cells_by_size(TABLES[:2]), np.array([20.0, 5.0]), whole=np.array([[True], [False]])
    )
    alone = [foretold(table, 20.0, whole=which) for table, which in zip(TABLES[:2], (True, False), strict=True)]
    assert both[:, 0] == pytest.approx(alone) and (both[:, 1] < both[:, 0]).all()


def test_a_single_cell_with_the_whole_total_keeps_no_error():
    assert foretold(np.array([100.0]), 5.0, whole=True) == 0


def plain_threshold(cells, counts, sigma):
    """Newton's steps as numpy writes them, all tables and sigmas together."""
    q, s, tau = counts[:, None, :], sigma[:, :, None], np.zeros(sigma.shape)
    for _ in range(STEPS):
        z = (q - tau[:, :, None]) / s
        above = ndtr(z)
        alive = (cells[:, None, :] * above).sum(axis=2)
        left = (cells[:, None, :] * s * (z * above + np.exp(-z * z / 2) / np.sqrt(2 * np.pi))).sum(axis=2)
        tau = tau + (left - (cells * counts).sum(axis=1)[:, None]) / np.maximum(alive, 1e-9)
    return tau, alive


@pytest.mark.parametrize("tables", [3, 300])
def test_thresholds_are_those_of_plain_steps(tables):
    rng = np.random.default_rng(2)
    made = [10 ** rng.uniform(0, 5) * rng.dirichlet(np.full(rng.integers(1, 400), 0.05)) for _ in range(tables)]
    made[0][:] = 0  # a table of nobody
    grouped = group_cells_by_size(made)
    sigma = np.geomspace(0.01, 1e4, 24) * rng.uniform(0.5, 2, (tables, 1))
    tau, alive = find_thresholds(grouped.cells, grouped.counts, sigma)
    expected_tau, expected_alive = plain_threshold(grouped.cells, grouped.counts, sigma)
    assert (np.abs(tau - expected_tau) <= 1e-9 * sigma).all()
    assert alive == pytest.approx(expected_alive, rel=1e-9, abs=1e-9)
    c = tau[:, :, None] / sigma[:, :, None]
    a = c - grouped.counts[:, None, :] / sigma[:, :, None]
    noisy = 2 * norm.pdf(c) - norm.pdf(a) + 2 * c * norm.cdf(c) - c - c * norm.cdf(a)
    cells = grouped.counts[:, None, :] * norm.cdf(a) + sigma[:, :, None] * noisy
    expected = (grouped.cells[:, None, :] * cells).sum(axis=2)
    found = compute_threshold_errors(grouped.cells, grouped.counts, sigma, tau)
    assert (np.abs(found - expected) <= 1e-9 * expected + 1e-11 * sigma).all()  # differences of larger numbers
