import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weft_lab.methods.aim import make_pair_at_distance


@given(st.integers(1, 9), st.integers(1, 9), st.floats(0, 1), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_columns_and_distance_are_kept(a, b, part, seed):
    rng = np.random.default_rng(seed)
    one, other = rng.dirichlet(np.ones(a)) * 500, rng.dirichlet(np.ones(b)) * 500
    far = make_pair_at_distance(one, other, np.inf)
    product = np.outer(np.sort(one)[::-1], np.sort(other)[::-1]) / 500
    most = np.abs(far - product).sum()
    table = make_pair_at_distance(one, other, part * most)
    np.testing.assert_allclose(table.sum(axis=1), np.sort(one)[::-1], atol=1e-6)
    np.testing.assert_allclose(table.sum(axis=0), np.sort(other)[::-1], atol=1e-6)
    assert np.abs(table - product).sum() == pytest.approx(part * most, abs=1e-6)
    assert np.count_nonzero(far > 1e-9) <= a + b - 1


def test_noise_below_zero_means_independent():
    np.testing.assert_allclose(
        make_pair_at_distance(np.array([1.0, 3.0]), np.array([2.0, 2.0]), -5.0), [[1.5, 1.5], [0.5, 0.5]]
    )
