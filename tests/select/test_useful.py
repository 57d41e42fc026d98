"""Maximal useful parent sets against all subsets."""

from itertools import chain, combinations
from math import prod

from hypothesis import given
from hypothesis import strategies as st
from weft_lab.methods.comparison_steps import parent_sets

from weft.marginals.domain import Domain
from weft.methods.common.indif_network import useful_cells


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.floats(0.5, 300))
def test_sets_are_the_maximal_ones_that_fit(sizes, cells):
    names = tuple("abcdefg"[: len(sizes)])
    domain = Domain(names, tuple(sizes))
    fits = [
        set(s)
        for s in chain.from_iterable(combinations(names, r) for r in range(len(names) + 1))
        if prod(domain.size(n) for n in s) <= cells
    ]
    maximal = {tuple(sorted(s)) for s in fits if not any(s < t for t in fits)} or {()}
    assert set(parent_sets(domain, names, cells, limit=10_000)) == maximal


def test_a_limit_means_fewer_parents():
    domain = Domain(tuple("abcdefghij"), (2,) * 10)
    assert {len(s) for s in parent_sets(domain, domain.names, 32, limit=300)} == {5}
    assert {len(s) for s in parent_sets(domain, domain.names, 32, limit=50)} == {2}
    assert parent_sets(domain, domain.names, 32, limit=5) == [()]


def test_cells_are_what_theta_allows():
    assert useful_cells(1000, 10, 4) == 25
    assert useful_cells(-50, 10, 4) == 1
