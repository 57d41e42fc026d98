import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.marginals.domain import Domain, Order
from weft.marginals.marginal import NoisyMarginal
from weft.marginals.pooling import common_total
from weft.marginals.value_groups import merge_rare


def oneway(counts, sigma=2.0):
    return NoisyMarginal(("job",), np.array(counts, dtype=np.int64), sigma)


def test_values_below_the_threshold_become_the_last_code():
    values = merge_rare(oneway([50, 3, 6, -4, 5, 80]), threshold=6.0)
    assert values.size == 4
    assert values.codes.tolist() == [0, 3, 1, 3, 3, 2]
    assert values.merged.tolist() == [1, 3, 4]


@pytest.mark.parametrize("counts", [[50, 60, 70], [50, 2, 70]])
def test_fewer_than_two_rare_values_are_not_merged(counts):
    values = merge_rare(oneway(counts), threshold=6.0)
    assert values.codes.tolist() == [0, 1, 2]
    assert values.size == 3
    assert values.merged.size == 0
    assert values.unfold(np.array([2, 0, 1]), np.random.default_rng(0)).tolist() == [2, 0, 1]


def test_all_values_may_merge():
    values = merge_rare(oneway([1, 0, -3]), threshold=6.0)
    assert values.size == 1
    assert values.codes.tolist() == [0, 0, 0]
    assert set(values.unfold(np.zeros(50, np.uint8), np.random.default_rng(0)).tolist()) == {0}


def test_folding_adds_counts_and_keeps_the_weight_of_the_total():
    before = oneway([50, 3, 6, -4, 5, 80])
    values = merge_rare(before, threshold=6.0)
    after = values.fold(before)
    assert after.clique == before.clique
    assert after.table.tolist() == [50, 6, 80, 4]
    assert after.table.dtype == before.table.dtype
    assert common_total([after]) == pytest.approx(common_total([before]))
    assert after.sigma**2 * after.cells == pytest.approx(before.sigma**2 * before.cells)  # k cells in one: k variances


@given(st.lists(st.integers(-20, 100), min_size=1, max_size=30), st.integers(0, 2**32 - 1))
def test_unfolding_inverts_the_map(counts, seed):
    rng = np.random.default_rng(seed)
    values = merge_rare(oneway(counts), threshold=10.0)
    new = rng.integers(0, values.size, 200)
    old = values.unfold(new, rng)
    assert (values.codes[old] == new).all()
    assert old.dtype == np.uint8


def test_merged_values_return_in_proportion_to_their_noisy_counts():
    values = merge_rare(oneway([500, 9, 3, -5]), threshold=10.0)
    old = values.unfold(np.ones(40_000, np.uint8), np.random.default_rng(0))
    assert np.bincount(old, minlength=4) / old.size == pytest.approx([0, 0.75, 0.25, 0], abs=0.01)


def test_without_any_positive_count_merged_values_return_evenly():
    values = merge_rare(oneway([500, -9, 0, -5]), threshold=10.0)
    old = values.unfold(np.ones(40_000, np.uint8), np.random.default_rng(0))
    assert np.bincount(old, minlength=4)[1:] / old.size == pytest.approx([1 / 3] * 3, abs=0.01)


def test_wide_attributes_come_back_in_a_type_that_holds_them():
    values = merge_rare(oneway([1000] + [0] * 4999), threshold=10.0)
    assert values.size == 2
    assert values.unfold(np.array([0, 1], np.uint8), np.random.default_rng(0)).dtype == np.uint16


def test_only_one_way_tables_are_taken():
    with pytest.raises(ValueError, match="one-way"):
        merge_rare(NoisyMarginal(("a", "b"), np.ones((2, 2)), 1.0), 3.0)


RISING = Order(True, frozenset({6}))


def test_neighbours_of_an_ordered_attribute_are_joined_until_they_are_common():
    values = merge_rare(oneway([3, 4, 50, 2, 60, 5, 1]), threshold=6.0, order=RISING)
    # 3 and 4 are rare and neighbours; 2 stands between common values, and 5 before a code that stands apart.
    assert values.codes.tolist() == [0, 0, 1, 2, 3, 4, 5]
    tail = merge_rare(oneway([90, 5, 5, 4, 1, 0, 7]), threshold=6.0, order=RISING)
    # Two together are above 6 sqrt(2); the rest is one group, however little it holds.
    assert tail.codes.tolist() == [0, 1, 1, 2, 2, 2, 3]
    assert tail.merged.tolist() == [1, 2, 3, 4, 5]


@given(st.lists(st.integers(-20, 100), min_size=1, max_size=30), st.sets(st.integers(0, 29)), st.integers(0, 99))
def test_groups_are_runs_and_codes_that_stand_apart_stay_alone(counts, apart, seed):
    order = Order(True, frozenset(code for code in apart if code < len(counts)))
    values = merge_rare(oneway(counts), threshold=10.0, order=order)
    assert (np.diff(values.codes) >= 0).all() and (np.diff(values.codes) <= 1).all()
    assert not set(values.merged.tolist()) & order.apart
    rng = np.random.default_rng(seed)
    new = rng.integers(0, values.size, 100)
    assert (values.codes[values.unfold(new, rng)] == new).all()


def test_codes_of_an_unordered_attribute_that_stand_apart_are_not_merged():
    values = merge_rare(oneway([50, 3, 2, 1]), threshold=6.0, order=Order(apart=frozenset({3})))
    assert values.codes.tolist() == [0, 2, 2, 1]


def test_values_of_several_groups_return_in_proportion():
    values = merge_rare(oneway([9, 3, 80, 2, 6, 500]), threshold=10.0, order=Order(True))
    assert values.codes.tolist() == [0, 0, 1, 2, 2, 3]
    old = values.unfold(np.repeat([0, 2], 40_000), np.random.default_rng(0))
    assert np.bincount(old, minlength=6) / 40_000 == pytest.approx([0.75, 0.25, 0, 0.25, 0.75, 0], abs=0.01)


def test_a_domain_keeps_the_order_of_its_attributes():
    domain = Domain(("a", "b"), (3, 4), (Order(), Order(True, frozenset({3}))))
    assert domain.project(("b",)).order("b").ordered
    assert domain == Domain(("a", "b"), (3, 4))
    assert Order(True, frozenset({3})).grouped([0, 0, 1, 2]) == Order(True, frozenset({2}))
    assert not Order(True).grouped([1, 0, 0]).ordered
    with pytest.raises(ValueError, match="one order"):
        Domain(("a", "b"), (3, 4), (Order(),))
