import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from weft_lab.methods.one_batch import best_subset, choose_cover

from weft.marginals.domain import Domain
from weft.methods.common.allocation import allocate

cell_lists = st.lists(st.integers(1, 5000), min_size=1, max_size=12)


@given(cell_lists, st.floats(1e-6, 100))
def test_shares_add_up_and_follow_the_power(cells, rho):
    shares = allocate(cells, rho)
    assert shares.sum() == pytest.approx(rho)
    assert np.allclose(shares / shares[0], (np.array(cells) / cells[0]) ** (2 / 3))
    assert np.allclose(allocate(cells, rho, exponent=0.0), rho / len(cells))


def test_no_marginal_gets_no_share():
    assert allocate([], 1.0).size == 0


def test_shares_make_the_total_l1_noise_least():
    cells, rho = np.array([6.0, 50.0, 700.0, 4000.0]), 0.3

    def noise(shares):
        return (cells / np.sqrt(math.pi * shares)).sum()

    found = minimize(
        lambda logits: noise(rho * np.exp(logits) / np.exp(logits).sum()), np.zeros(4), options={"gtol": 1e-9}
    )
    assert noise(allocate(cells, rho)) == pytest.approx(found.fun, rel=1e-6)
    assert noise(allocate(cells, rho)) < noise(np.full(4, rho / 4))


def objective(chosen, gains, cells, rho):
    """Gain minus the expected L1 noise of Gaussian measurements with the best shares, from first principles."""
    chosen = list(chosen)
    if not chosen:
        return 0.0
    c = np.array([cells[i] for i in chosen], dtype=float)
    sigma = 1 / np.sqrt(2 * allocate(c, rho))
    return sum(gains[i] for i in chosen) - (c * sigma * math.sqrt(2 / math.pi)).sum()


@given(st.integers(1, 10), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_greed_loses_less_than_one_candidate(k, seed):
    rng = np.random.default_rng(seed)
    cells = rng.integers(2, 500, k)
    gains = rng.lognormal(6, 1.5, k)
    rho = float(10 ** rng.uniform(-3, 0))
    chosen = best_subset(gains, cells, rho)
    got = objective(chosen, gains, cells, rho)
    best = max(objective(s, gains, cells, rho) for r in range(k + 1) for s in itertools.combinations(range(k), r))
    left = [gains[i] for i in range(k) if i not in chosen]
    assert got >= -1e-9
    assert best - got <= max(left, default=0.0) + 1e-6


def test_greed_is_nearly_always_exact():
    rng = np.random.default_rng(0)
    got, best = [], []
    for _ in range(60):
        k = 9
        cells, gains, rho = rng.integers(2, 500, k), rng.lognormal(6, 1.5, k), float(10 ** rng.uniform(-3, 0))
        got.append(objective(best_subset(gains, cells, rho), gains, cells, rho))
        subsets = (s for r in range(k + 1) for s in itertools.combinations(range(k), r))
        best.append(max(objective(s, gains, cells, rho) for s in subsets))
    assert sum(got) > 0.99 * sum(best)


def test_worthless_candidates_are_left_out():
    assert best_subset([1000.0, -5.0, 0.0, 900.0], [4, 4, 4, 4], 1.0) == [0, 3]
    assert best_subset([], [], 1.0) == []


def pairs_of(names, gap):
    return dict.fromkeys(itertools.combinations(names, 2), gap)


def subsets(names, most):
    return [c for k in range(2, most + 1) for c in itertools.combinations(names, k)]


def test_small_columns_are_covered_by_large_marginals_and_wide_ones_by_pairs():
    names = [f"v{i}" for i in range(8)]
    small, wide = Domain.of(dict.fromkeys(names, 2)), Domain.of(dict.fromkeys(names, 30))
    gaps = pairs_of(names, 500.0)
    large = choose_cover(subsets(names, 4), gaps, small, 0.01, most=20)
    assert {len(c) for c in large} == {4}
    told = [sum(set(pair) <= set(c) for c in large) for pair in gaps]
    assert min(told) >= max(told) / 3  # every pair about as often
    assert {len(c) for c in choose_cover(subsets(names, 4), gaps, wide, 10.0, most=20)} == {2}


def test_a_cover_stops_where_noise_outweighs_gain_and_never_repeats():
    names = [f"v{i}" for i in range(6)]
    domain = Domain.of(dict.fromkeys(names, 3))
    candidates, gaps = subsets(names, 3), pairs_of(names, 100.0)
    counts = [len(choose_cover(candidates, gaps, domain, rho, most=50)) for rho in (1e-6, 1e-3, 0.1, 10.0)]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] <= len(candidates)
    many = choose_cover(candidates, gaps, domain, 10.0, most=50)
    assert len(set(many)) == len(many)
    assert len(choose_cover(candidates, gaps, domain, 10.0, most=3)) == 3
    assert choose_cover([], gaps, domain, 1.0, most=3) == []
    assert choose_cover(candidates, pairs_of(names, -5.0), domain, 10.0, most=3) == []
