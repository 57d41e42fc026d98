"""DP-Copula: noisy columns, and correlations from noisy pairs."""

import itertools

import numpy as np
import pytest
from recipes import assert_trace, chained, counts, run
from scipy.stats import kendalltau
from weft_lab.methods.dp_copula import CopulaModel, DpCopula, groups_of, repaired, tau

from weft.errors import ModelFileError
from weft.marginals.domain import Domain
from weft.marginals.records import Records


def normal_rows(rho, n=20_000, cuts=20, seed=0):
    """Rows of three columns: two are normal with this correlation, cut at even quantiles; the third stands alone."""
    rng = np.random.default_rng(seed)
    x, y, z = rng.standard_normal((3, n))
    y = rho * x + np.sqrt(1 - rho**2) * y
    codes = [np.argsort(np.argsort(v)) * cuts // n for v in (x, y, z)]
    return Records.of(Domain(("x", "y", "z"), (cuts,) * 3), codes)


@pytest.mark.parametrize(("accounting", "delta"), [("gaussian", 1e-6), ("pure", 0.0)])
def test_half_for_columns_half_for_pairs(accounting, delta):
    made = run(DpCopula(accounting=accounting), chained(), delta=delta)
    assert_trace(made, [("marginals", 0.5), ("marginals", 0.5)])
    assert made.measured == [*((name,) for name in "abcd"), *itertools.combinations("abcd", 2)]


@pytest.mark.parametrize("rho", [-0.8, 0.0, 0.6])
@pytest.mark.parametrize("cuts", [2, 20])
def test_the_correlation_of_normal_columns_is_found_through_the_noise(rho, cuts):
    made = run(DpCopula(), normal_rows(rho, cuts=cuts), epsilon=4.0)
    found = made.model.correlation
    assert found[0, 1] == pytest.approx(rho, abs=0.02 + abs(rho) / 12)
    assert found[0, 2] == pytest.approx(0, abs=0.03) and np.array_equal(found, found.T)


def test_columns_are_their_own_tables_and_pairs_follow_the_copula():
    records = normal_rows(0.7, cuts=4)
    model = run(DpCopula(), records, epsilon=8.0).model
    drawn = model.sample(20_000, np.random.default_rng(1))
    for name in "xyz":
        assert np.abs(counts(drawn, (name,)) / 20_000 - model.marginal([name]) / model.total).max() < 1e-4
    assert np.abs(counts(drawn, ("x", "y")) - counts(records, ("x", "y"))).sum() / 20_000 < 0.08
    table, seen = model.answered(["y", "x"])
    assert seen > 0 and np.abs(table - counts(records, ("x", "y"))).sum() / 20_000 < 0.08


@pytest.mark.parametrize("seed", range(5))
def test_tau_is_kendalls(seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 6, (3, 4))
    x, y = np.nonzero(np.ones_like(table))
    often = table.ravel()
    shares = table / table.sum()
    literal = kendalltau(np.repeat(x, often), np.repeat(y, often)).statistic
    assert tau(shares, shares.sum(axis=1), shares.sum(axis=0)) == pytest.approx(literal)


def test_tau_of_a_noisy_table_is_right_on_average():
    rng = np.random.default_rng(0)
    shares = np.array([[0.3, 0.1, 0.05], [0.05, 0.1, 0.4]])
    sides = shares.sum(axis=1), shares.sum(axis=0)
    noisy = [tau(shares + 0.03 * rng.standard_normal(shares.shape), *sides) for _ in range(4000)]
    assert np.mean(noisy) == pytest.approx(tau(shares, *sides), abs=0.01)


def test_one_value_cannot_rise():
    one = np.array([1.0])
    assert tau(np.array([[0.4, 0.6]]), one, np.array([0.4, 0.6])) == 0.0
    constant = Records.of(Domain(("a", "b"), (1, 2)), [np.zeros(50), np.arange(50) % 2])
    assert_trace(run(DpCopula(), constant), [("marginals", 0.5), ("marginals", 0.5)])


def test_groups_are_neighbours_of_about_equal_counts():
    groups = groups_of(np.full(100, 7.0), 8)
    assert len(np.bincount(groups)) == 8 and np.ptp(np.bincount(groups)) <= 1
    assert (np.diff(groups) >= 0).all() and groups_of(np.zeros(3), 4).tolist() == [0, 0, 0]


def test_correlations_that_contradict_each_other_are_repaired():
    odd = np.array([[1.0, 0.95, -0.95], [0.95, 1.0, 0.95], [-0.95, 0.95, 1.0]])
    assert np.linalg.eigvalsh(odd)[0] < 0
    found = repaired(odd)
    assert np.linalg.eigvalsh(found)[0] > 0 and np.diag(found).tolist() == [1.0, 1.0, 1.0]
    sound = np.array([[1.0, 0.3], [0.3, 1.0]])
    np.testing.assert_allclose(repaired(sound), sound)


def test_a_file_with_correlations_that_are_none_is_refused():
    domain = Domain(("a", "b"), (2, 2))
    held = CopulaModel(domain, 9.0, (np.array([4.0, 5.0]),) * 2, np.eye(2)).to_arrays()
    assert CopulaModel.from_arrays(domain, *held).total == 9.0
    for wrong in (np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[1.0, 0.2], [0.4, 1.0]])):
        with pytest.raises(ModelFileError, match="damaged"):
            CopulaModel.from_arrays(domain, held[0], held[1] | {"correlation": wrong})
    with pytest.raises(ModelFileError, match="no value"):
        CopulaModel.from_arrays(domain, held[0], held[1] | {"tables": np.array([4.0, 5.0, 0.0, 0.0])})
