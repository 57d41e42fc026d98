import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.marginals.domain import Domain
from weft.methods.common.allocation import allocate
from weft.methods.privsyn import dense_marginals


def literal_algorithm_1(phi, cells, rho):
    """PrivSyn's Algorithm 1, line by line: allocate, sum up, compare, for every candidate in every step."""
    chosen = []
    error = sum(phi.values())
    errors = [error]
    while True:
        best, best_error = None, math.inf
        for i in sorted(phi):
            if i in chosen:
                continue
            tried = [*chosen, i]
            shares = [rho * cells[j] ** (2 / 3) / sum(cells[k] ** (2 / 3) for k in tried) for j in tried]
            noise = sum(cells[j] * math.sqrt(1 / (math.pi * share)) for j, share in zip(tried, shares, strict=True))
            missed = sum(phi[j] for j in phi if j not in tried)
            if noise + missed < best_error:
                best, best_error = i, noise + missed
        if best is None or best_error >= error:
            return chosen, errors
        chosen.append(best)
        error = best_error
        errors.append(error)


@st.composite
def instances(draw):
    d = draw(st.integers(2, 7))
    names = tuple(f"x{i}" for i in range(d))
    domain = Domain(names, tuple(draw(st.lists(st.integers(1, 40), min_size=d, max_size=d))))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    # Random reals: no two candidates are equally good, so rounding cannot decide.
    phi = {pair: float(rng.lognormal(6, 2) - 100) for pair in itertools.combinations(names, 2)}
    return phi, domain, float(10 ** rng.uniform(-4, 1))


@given(instances())
@settings(max_examples=150, deadline=None)
def test_the_fast_form_is_algorithm_1(instance):
    phi, domain, rho = instance
    chosen, errors = literal_algorithm_1(phi, {pair: domain.cells(pair) for pair in phi}, rho)
    trace = dense_marginals(phi, domain, rho)
    assert trace.cliques == chosen
    assert np.allclose(trace.errors, errors)


@given(instances())
@settings(max_examples=50, deadline=None)
def test_the_expected_error_falls_with_every_choice(instance):
    trace = dense_marginals(*instance)
    assert len(trace.errors) == len(trace.cliques) + 1
    assert (np.diff(trace.errors) < 0).all()


def test_the_noise_error_is_that_of_the_best_shares():
    domain = Domain(("a", "b", "c"), (4, 5, 6))
    trace = dense_marginals({("a", "b"): 1e6, ("b", "c"): 1e6}, domain, 0.01)
    cells = np.array([20, 30])
    noise = (cells / np.sqrt(math.pi * allocate(cells, 0.01))).sum()
    assert trace.errors[-1] == pytest.approx(noise)


def test_independent_pairs_are_left_out_and_order_is_by_worth():
    domain = Domain(("a", "b", "c"), (4, 4, 4))
    phi = {("a", "b"): 3000.0, ("a", "c"): 5000.0, ("b", "c"): -40.0}
    assert dense_marginals(phi, domain, 0.1).cliques == [("a", "c"), ("a", "b")]
    assert dense_marginals(phi, domain, 1e-9).cliques == []


def test_a_threshold_ends_the_selection_earlier():
    domain = Domain(("a", "b", "c"), (2, 2, 2))
    phi = {("a", "b"): 3000.0, ("a", "c"): 500.0, ("b", "c"): 50.0}
    assert len(dense_marginals(phi, domain, 1.0).cliques) == 3
    assert dense_marginals(phi, domain, 1.0, threshold=1000.0).cliques == [("a", "b")]


def test_what_must_be_included_comes_first_and_counts():
    domain = Domain(("a", "b", "c"), (2, 2, 2))
    phi = {("a", "b"): 3000.0, ("a", "c"): 500.0, ("b", "c"): -50.0}
    trace = dense_marginals(phi, domain, 1.0, must_include=[("c", "b"), ("b", "c"), ("a", "b", "c")])
    assert trace.cliques == [("b", "c"), ("a", "b", "c"), ("a", "b"), ("a", "c")]
    weight = 4 ** (2 / 3)
    assert trace.errors[1] == pytest.approx(weight**1.5 / math.sqrt(math.pi) + 3500.0)


def test_connect_joins_isolated_attributes_through_their_strongest_pair():
    domain = Domain(("a", "b", "c", "d"), (10, 10, 10, 10))
    phi = dict.fromkeys(itertools.combinations("abcd", 2), 1.0)
    phi |= {("a", "b"): 1e5, ("a", "c"): 3.0, ("b", "c"): 7.0, ("c", "d"): 9.0, ("b", "d"): 5.0, ("a", "d"): -2.0}
    assert dense_marginals(phi, domain, 0.1).cliques == [("a", "b")]
    # c-d is stronger, but neither end is selected until c has been joined through b.
    assert dense_marginals(phi, domain, 0.1, connect=True).cliques == [("a", "b"), ("b", "c"), ("c", "d")]


def test_connect_works_when_nothing_is_worth_its_noise():
    domain = Domain(("a", "b", "c"), (10, 10, 10))
    phi = {("a", "b"): 1.0, ("a", "c"): 3.0, ("b", "c"): 2.0}
    assert dense_marginals(phi, domain, 1e-6, connect=True).cliques == [("a", "c"), ("b", "c")]
    assert dense_marginals({}, domain, 1.0, connect=True).cliques == []


def test_no_budget_is_refused():
    with pytest.raises(ValueError, match="positive rho"):
        dense_marginals({("a", "b"): 1.0}, Domain(("a", "b"), (2, 2)), 0.0)
