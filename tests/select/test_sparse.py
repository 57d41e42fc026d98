import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.marginals.domain import Domain
from weft.marginals.spanning_tree import spanning_tree
from weft.methods.common.indif_network import sparse_network


def scores(names, seed):
    rng = np.random.default_rng(seed)
    return {p: float(rng.normal(100, 120)) for p in itertools.combinations(names, 2)}


def literal_network(phi, domain, max_parents, max_cells, root):
    """PrivBayes' greedy construction with the sum of pair scores, attribute by attribute."""
    placed, families = [root], []
    while len(placed) < len(domain):
        options = []
        for x in domain.names:
            if x in placed:
                continue
            parents, total = [], 0.0
            for v in sorted(placed, key=lambda v: -phi[tuple(sorted((x, v)))]):
                value = phi[tuple(sorted((x, v)))]
                fits = domain.cells([x, v, *parents]) <= max_cells
                if fits and len(parents) < max_parents and (value > 0 or not parents):
                    parents.append(v)
                    total += value
            options.append((len(parents) > 0, total, x, parents))
        _, _, child, parents = max(options, key=lambda option: option[:2])
        families.append(tuple(sorted([child, *parents])))
        placed.append(child)
    return families


@given(st.integers(2, 8), st.integers(1, 3), st.sampled_from([60, 400, 5000]), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_the_network_is_the_greedy_one(d, max_parents, max_cells, seed):
    rng = np.random.default_rng(seed)
    names = tuple(f"x{i}" for i in range(d))
    domain = Domain(names, tuple(rng.integers(2, 7, d).tolist()))
    phi = scores(names, seed)
    got = sparse_network(phi, domain, max_parents=max_parents, max_cells=max_cells, root="x1")
    assert got == literal_network(phi, domain, max_parents, max_cells, "x1")


@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_every_family_adds_one_attribute(d, max_parents, seed):
    names = tuple(f"x{i:02d}" for i in range(d))
    families = sparse_network(scores(names, seed), Domain(names, (3,) * d), max_parents=max_parents)
    assert len(families) == d - 1
    seen = set(families[0])
    assert len(seen) == 2
    for family in families[1:]:
        assert len(set(family) - seen) == 1
        assert 2 <= len(family) <= max_parents + 1
        seen |= set(family)
    assert seen == set(names)


def test_a_chain_is_found():
    phi = {("a", "b"): 90.0, ("b", "c"): 80.0, ("c", "d"): 70.0, ("a", "c"): -1.0, ("a", "d"): -2.0, ("b", "d"): -3.0}
    domain = Domain(("a", "b", "c", "d"), (2, 2, 2, 2))
    assert sparse_network(phi, domain, root="a") == [("a", "b"), ("b", "c"), ("c", "d")]


def test_attributes_too_wide_for_any_table_stand_alone():
    domain = Domain(("a", "b", "wide"), (3, 3, 9000))
    phi = {("a", "b"): 5.0, ("a", "wide"): 50.0, ("b", "wide"): 60.0}
    assert sparse_network(phi, domain, root="a") == [("a", "b"), ("wide",)]
    assert sparse_network(phi, domain) == [("wide",), ("a",), ("a", "b")]
    assert sparse_network({}, Domain(("a",), (3,))) == [("a",)]


def test_a_network_without_parents_is_refused():
    with pytest.raises(ValueError, match="at least one parent"):
        sparse_network({}, Domain(("a",), (3,)), max_parents=0)


@given(st.integers(2, 12), st.floats(0.2, 1.0), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_spanning_tree_weighs_as_much_as_networkx_finds(d, density, seed):
    rng = np.random.default_rng(seed)
    names = [f"x{i:02d}" for i in range(d)]
    weights = {p: w for p, w in scores(names, seed).items() if rng.random() < density}
    tree = spanning_tree(weights)
    graph = nx.Graph()
    graph.add_weighted_edges_from((a, b, w) for (a, b), w in weights.items())
    best = nx.maximum_spanning_tree(graph)
    assert sum(weights[p] for p in tree) == pytest.approx(best.size("weight"))
    assert not tree or nx.is_forest(nx.Graph(tree))
    assert len(tree) == best.number_of_edges()
    assert sorted(tree, key=lambda p: -weights[p]) == tree
