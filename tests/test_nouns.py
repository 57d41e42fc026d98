import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.marginals.domain import Domain, make_clique
from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.marginals.records import Records, code_dtype
from weft.models.apportion import apportion_records


def test_domain_refuses_nonsense():
    for names, shape in [(("a",), (1, 2)), (("a", "a"), (1, 2)), (("a",), (0,))]:
        with pytest.raises(ValueError):
            Domain(names, shape)


def test_cliques_are_sorted_sets():
    assert make_clique(["b", "a", "b"]) == ("a", "b")
    with pytest.raises(ValueError):
        Marginal(("b", "a"), np.zeros((2, 2)))


def test_projection_keeps_the_total_and_the_axis_order():
    table = np.arange(24).reshape(2, 3, 4)
    marginal = Marginal(("a", "b", "c"), table)
    assert np.array_equal(marginal.project(("c", "a")).table, table.sum(axis=1))
    assert marginal.project(()).table == table.sum()


def test_a_noisy_marginal_knows_its_precision():
    assert NoisyMarginal(("a",), np.zeros(3), sigma=2.0).precision == 0.25


def test_records_take_the_smallest_type():
    assert [code_dtype(size).itemsize for size in (256, 257, 65536, 65537)] == [1, 2, 2, 4]
    with pytest.raises(ValueError, match="uint8"):
        Records(Domain(("a",), (2,)), (np.zeros(3, np.uint16),))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20), st.integers(0, 10_000), st.integers(0, 2**32 - 1))
def test_apportioning_is_exact_and_never_off_by_one(weights, n, seed):
    weights = np.array(weights)
    counts = apportion_records(weights, n, np.random.default_rng(seed))
    assert counts.sum() == n
    share = weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1 / len(weights))
    assert np.abs(counts - n * share).max() < 1 + 1e-6


def test_apportioning_is_unbiased():
    weights = np.array([0.3, 0.3, 2.4])
    rng = np.random.default_rng(0)
    mean = np.mean([apportion_records(weights, 2, rng) for _ in range(4000)], axis=0)
    assert np.abs(mean - 2 * weights / 3).max() < 0.03
