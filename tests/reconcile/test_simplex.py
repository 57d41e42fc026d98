import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.optimize import minimize

from weft.marginals.simplex import find_simplex_threshold, project_to_simplex

noisy = arrays(np.float64, array_shapes(max_dims=3, max_side=6), elements=st.floats(-1e4, 1e4, width=32))
totals = st.floats(0.01, 1e5)


@given(noisy, totals)
@settings(deadline=None)
def test_projection_satisfies_the_optimality_conditions(v, total):
    x = project_to_simplex(v, total)
    scale = max(np.abs(v).max(), total)
    assert x.shape == v.shape
    assert x.min() >= 0
    assert x.sum() == pytest.approx(total, abs=1e-9 * scale)
    # Karush-Kuhn-Tucker: positive cells moved by one and the same amount, the others would have had to fall below zero.
    moved = v - x
    tau = moved[x > 0].max()
    assert np.allclose(moved[x > 0], tau, atol=1e-9 * scale)
    assert (v[x == 0] <= tau + 1e-9 * scale).all()


@given(noisy, totals)
@settings(deadline=None)
def test_the_kernel_agrees_with_the_sorting_twin(v, total):
    flat = v.astype(np.float64).ravel()
    tau = find_simplex_threshold(flat, total, flat.mean() - total / flat.size)
    quick = np.maximum(v - tau, 0.0)
    assert np.allclose(quick, project_to_simplex(v, total), atol=1e-9 * max(np.abs(v).max(), total))


@pytest.mark.parametrize("seed", range(5))
def test_projection_is_what_a_quadratic_programme_finds(seed):
    rng = np.random.default_rng(seed)
    v, total = rng.normal(1, 3, 6), 5.0
    found = minimize(
        lambda x: ((x - v) ** 2).sum(),
        np.full(6, total / 6),
        jac=lambda x: 2 * (x - v),
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda x: x.sum() - total, "jac": lambda x: np.ones(6)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert np.allclose(project_to_simplex(v, total), found.x, atol=1e-5)


def test_points_of_the_simplex_stay():
    table = np.array([[0.0, 3.0], [5.0, 2.0]])
    assert np.allclose(project_to_simplex(table, 10.0), table)


def test_input_is_left_alone_and_integers_are_accepted():
    table = np.array([-3, 5, 9])
    quick = project_to_simplex(table, 10.0)
    assert table.tolist() == [-3, 5, 9]
    assert quick.tolist() == [0.0, 3.0, 7.0]


@pytest.mark.parametrize("total", [0.0, -1.0, float("nan")])
def test_a_total_that_is_not_positive_is_refused(total):
    with pytest.raises(ValueError, match="positive total"):
        project_to_simplex(np.ones(3), total)
