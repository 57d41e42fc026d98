import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from weft_lab.methods import candidates
from weft_lab.methods.candidates import best_families, useful_subsets
from weft_lab.methods.comparison_steps import all_subsets

from weft.marginals.domain import Domain
from weft.marginals.noise_error import compute_expected_noise


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 60), st.none() | st.integers(1, 4))
def test_useful_subsets_equal_brute_force(shape, limit, ways):
    names = tuple("abcdef"[: len(shape)])
    domain = Domain(names, tuple(shape))
    cliques = [names[:4], names[2:]] if len(names) > 4 else [names]
    brute = {
        s
        for c in cliques
        for k in range(1, (ways or len(c)) + 1)
        for s in itertools.combinations(c, k)
        if k == 1 or domain.cells(s) <= limit
    }
    assert set(useful_subsets(cliques, domain, limit, ways)) == brute


def test_useful_subsets_never_enumerate_past_the_limit():
    domain = Domain(tuple(f"c{i:02}" for i in range(60)), (10,) * 60)
    assert len(useful_subsets([domain.names], domain, 100, 6)) == 60 + math.comb(60, 2)


def test_without_a_limit_on_attributes_large_sets_are_left_out_as_a_whole_size(monkeypatch):
    monkeypatch.setattr(candidates, "MAX_CANDIDATES", 20 + math.comb(20, 2) + 5)
    domain = Domain(tuple(f"c{i:02}" for i in range(20)), (2,) * 20)
    assert len(useful_subsets([domain.names], domain, 2**9, None)) == 20 + math.comb(20, 2)
    assert len(useful_subsets([domain.names[:6]], domain, 2**4, None)) == 6 + 15 + 20 + 15


def merit(a, members, related):
    """The merit, written out."""
    others = [b for b in members if b != a]
    between = sum(related[b, c] for b in others for c in others if b != c)
    return sum(related[a, b] for b in others) / math.sqrt(max(len(others) + between, 1.0))


def test_best_families_equal_the_definition():
    rng = np.random.default_rng(3)
    names = tuple("abcde")
    domain = Domain(names, (2,) * 5)
    pairs = {pair: float(rng.random()) for pair in itertools.combinations(names, 2)}
    related = {(x, y): pairs[tuple(sorted((x, y)))] for x in names for y in names if x != y}
    candidates = [c for k in (2, 3) for c in itertools.combinations(names, k)]
    free, expected = list(candidates), []
    for a in names:
        best = max((c for c in free if a in c), key=lambda c: merit(a, c, related))
        expected.append(best)
        free.remove(best)
    assert best_families(candidates, pairs, domain) == expected


def test_all_subsets_and_expected_noise():
    domain = Domain(("b", "a", "c"), (10, 2, 3))
    assert all_subsets(domain, 3, 30) == [("a", "b"), ("a", "c"), ("b", "c")]
    rng = np.random.default_rng(0)
    assert compute_expected_noise([1000], 3.0)[0] == pytest.approx(
        np.abs(rng.normal(0, 3, 10**6)).mean() * 1000, rel=0.01
    )
