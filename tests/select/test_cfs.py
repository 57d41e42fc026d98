"""Correlation-based feature selection: the merit, cycles, table sizes."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from weft_lab.methods.bsg.entropy_network import correlation_network, symmetric_uncertainty

from weft.marginals.domain import Domain


def merit(child, parents, corr):
    among = sum(corr[j, k] for j in parents for k in parents if j != k)
    return sum(corr[child, j] for j in parents) / math.sqrt(len(parents) + among) if parents else 0.0


@given(st.integers(0, 10_000), st.integers(2, 6), st.floats(4, 200))
def test_networks_are_acyclic_small_and_cannot_gain(seed, d, cells):
    rng = np.random.default_rng(seed)
    domain = Domain(tuple("abcdef"[:d]), tuple(rng.integers(1, 6, d).tolist()))
    widths = np.minimum(domain.shape, 3)
    corr = np.triu(rng.random((d, d)) * (rng.random((d, d)) < 0.7), 1)
    corr += corr.T
    network = correlation_network(domain, widths, corr, cells)
    assert sorted(child for child, _ in network) == sorted(domain)
    place = {child: i for i, (child, _) in enumerate(network)}
    descends = {child: {child} for child, _ in network}
    for child, parents in network:
        assert all(place[p] < place[child] for p in parents)
        for p in parents:
            for ancestor in descends:
                if p in descends[ancestor]:
                    descends[ancestor].add(child)
    for child, parents in network:
        i, p = domain.index(child), [domain.index(name) for name in parents]
        size = domain.size(child) * math.prod(int(widths[j]) for j in p)
        assert size <= cells or not p
        for j, name in enumerate(domain):
            if j != i and j not in p and name not in descends[child] and size * widths[j] <= cells:
                assert merit(i, [*p, j], corr) <= merit(i, p, corr) + 1e-12


def test_the_strongest_edge_comes_first():
    corr = np.array([[0, 0.1, 0.5], [0.1, 0, 0.9], [0.5, 0.9, 0]])
    domain = Domain(("a", "b", "c"), (2, 2, 2))
    network = dict(correlation_network(domain, np.array([2, 2, 2]), corr, 4))  # room for one parent each
    assert network["b"] == ("c",)
    assert network["a"] == ("c",)
    assert network["c"] == ()  # the others descend from it: a parent would close a cycle


def test_noisy_entropies_give_a_correlation_within_bounds():
    assert symmetric_uncertainty(5.0, 1.0, 1.0) == 0
    assert symmetric_uncertainty(-1.0, 1.0, 1.0) == 1
    assert symmetric_uncertainty(1.0, -1.0, 0.5) == 0


def test_a_copy_of_a_parent_tells_nothing_more():
    """The merit divides by what parents have in common: without that, both copies would be parents."""
    corr = np.array([[0, 0.6, 0.6], [0.6, 0, 1.0], [0.6, 1.0, 0]])
    domain = Domain(("child", "one", "copy"), (2, 2, 2))
    network = dict(correlation_network(domain, np.array([2, 2, 2]), corr, 100))
    assert len(network["child"]) == 1
    apart = np.array([[0, 0.6, 0.6], [0.6, 0, 0.0], [0.6, 0.0, 0]])
    network = dict(correlation_network(domain, np.array([2, 2, 2]), apart, 100))
    assert max(map(len, network.values())) == 2 or len(network["child"]) < 2
