"""Views cover what they should, within their cells, in not many more than have to be."""

import itertools
import math

import numpy as np
import pytest
from weft_lab.methods.covering_views import find_covering_views, find_plane_lines
from weft_lab.methods.priview import random_views

from weft.marginals.domain import Domain

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
    assert {name for view in views for name in view} == set(binary(d))


def test_a_covering_design_is_not_far_from_the_best_known():
    views = find_covering_views(binary(64), 2, 256, np.random.default_rng(0))
    assert math.comb(64, 2) / math.comb(8, 2) <= len(views) <= 1.5 * 72  # the paper's is 72
    assert len(find_covering_views(binary(12), 2, 256, np.random.default_rng(0))) <= 4  # the paper's is 3


def test_wide_columns_are_bounded_by_cells():
    views = find_covering_views(WIDE, 2, 120, np.random.default_rng(1))
    assert all(WIDE.cells(view) <= 120 for view in views)
    pairs = {pair for view in views for pair in itertools.combinations(view, 2)}
    assert pairs == {pair for pair in itertools.combinations(sorted(WIDE), 2) if WIDE.cells(pair) <= 120}
    assert {name for view in views for name in view} == set(WIDE)
    huge = Domain(("x", "y"), (500, 500))
    assert sorted(find_covering_views(huge, 2, 100, np.random.default_rng(0))) == [("x",), ("y",)]


def test_random_views_leave_no_column_out():
    for seed in range(5):
        views = random_views(WIDE, 4, 120, np.random.default_rng(seed))
        assert {name for view in views for name in view} == set(WIDE)
        assert len(views) >= 4
        assert all(WIDE.cells(view) <= 120 for view in views)
    assert random_views(binary(3), 10, 256, np.random.default_rng(0)) == [("c00", "c01", "c02")]


@pytest.mark.parametrize("q", [2, 3, 4, 5, 7, 8, 9])
def test_two_points_of_a_plane_are_on_one_line(q):
    affine, *others = find_plane_lines(q * q, q)
    assert len(affine) == q * q + q and {len(line) for line in affine} == {q} and not others
    projective = find_plane_lines(q * q + q + 1, q + 1)[0]
    assert len(projective) == q * q + q + 1 and {len(line) for line in projective} == {q + 1}
    for lines, points in ((affine, q * q), (projective, q * q + q + 1)):
        pairs = [pair for line in lines for pair in itertools.combinations(sorted(line), 2)]
        assert len(pairs) == len(set(pairs)) == math.comb(points, 2)


@pytest.mark.parametrize(("attributes", "cells", "views"), [(64, 256, 72), (57, 256, 57), (16, 16, 20)])
def test_designs_have_the_published_sizes(attributes, cells, views):
    """PriView: 72 views of 8 attributes for 64 binary ones (DPSyn, section 3.3)."""
    domain = Domain(tuple(f"c{i:02d}" for i in range(attributes)), (2,) * attributes)
    found = find_covering_views(domain, 2, cells, np.random.default_rng(0), restarts=1)
    assert len(found) == views
    held = {frozenset(pair) for view in found for pair in itertools.combinations(view, 2)}
    assert len(held) == math.comb(attributes, 2) and all(domain.cells(view) <= cells for view in found)
