"""Views cover what they should, within their cells, in not many more than have to be."""

import itertools
import math

import numpy as np
import pytest

from weft.marginals.domain import Domain
from weft.methods.common.view_cover import covers_all_sets, find_covering_views, random_views

WIDE = Domain(("a", "b", "c", "d", "e", "f"), (2, 3, 5, 40, 7, 1))


def binary(d):
    return Domain(tuple(f"c{i:02}" for i in range(d)), (2,) * d)


@pytest.mark.parametrize(("d", "t"), [(16, 2), (16, 3), (12, 2), (64, 2), (9, 1), (3, 3), (1, 1)])
def test_every_set_of_binary_columns_is_in_a_view(d, t):
    views = find_covering_views(binary(d), t, 256, np.random.default_rng(0))
    assert all(len(view) <= 8 for view in views)
    every = itertools.combinations(binary(d).names, t)
    inside = {each for view in views for each in itertools.combinations(view, t)}
    assert set(every) <= inside
    assert covers_all_sets(views, binary(d), t, 256)
    if d > 1:
        assert not covers_all_sets(views[1:], binary(d), t, 256)


def test_a_covering_design_is_not_far_from_the_best_known():
    views = find_covering_views(binary(64), 2, 256, np.random.default_rng(0))
    assert math.comb(64, 2) / math.comb(8, 2) <= len(views) <= 1.5 * 72  # the paper's is 72
    assert len(find_covering_views(binary(12), 2, 256, np.random.default_rng(0))) <= 4  # the paper's is 3


def test_wide_columns_are_bounded_by_cells():
    views = find_covering_views(WIDE, 2, 120, np.random.default_rng(1))
    assert all(WIDE.cells(view) <= 120 for view in views)
    pairs = {pair for view in views for pair in itertools.combinations(view, 2)}
    assert pairs == {pair for pair in itertools.combinations(sorted(WIDE), 2) if WIDE.cells(pair) <= 120}
    assert covers_all_sets(views, WIDE, 2, 120)
    huge = Domain(("x", "y"), (500, 500))
    assert sorted(find_covering_views(huge, 2, 100, np.random.default_rng(0))) == [("x",), ("y",)]


def test_random_views_leave_no_column_out():
    for seed in range(5):
        views = random_views(WIDE, 4, 120, np.random.default_rng(seed))
        assert {name for view in views for name in view} == set(WIDE)
        assert len(views) >= 4
        assert all(WIDE.cells(view) <= 120 for view in views)
    assert random_views(binary(3), 10, 256, np.random.default_rng(0)) == [("c00", "c01", "c02")]
